"""What an attacker gets from opened sums: the norm if inputs are as coarse as outputs, nothing with the guard bits."""

from __future__ import annotations

import numpy as np
from scipy import stats

from pdml_spdz.privacy.attacks import norm_from_grid
from pdml_spdz.privacy.attacks import same_norm as recovered
from pdml_spdz.programs.precision import Precision
from tests.embedded.helpers import normed_sum, rounded, split, unit

D = 60
LEVEL = 1e-6


def sums(count: int, low: float, high: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random directions with random norms between 2^low and 2^high: (D, count) and the norms."""
    norms = 2.0 ** rng.uniform(low, high, size=count)
    return unit(rng, D, count) * norms, norms


def test_grid_attack_recovers_the_norm_when_inputs_have_the_output_bits() -> None:
    # The paper's setting: 31 bits in, 31 bits out.
    rng, f = np.random.default_rng(1), 31
    s, _ = sums(30, -10, -2, rng)
    s = np.rint(s * 2.0**f) * 2.0**-f
    norms = np.linalg.norm(s, axis=0)
    u = np.rint(s / norms * 2.0**f) * 2.0**-f
    hits = sum(recovered(norm_from_grid(u[:, i], f, 2.0**-f), norms[i]) for i in range(30))
    assert hits >= 27


def test_grid_attack_finds_nothing_with_the_default_precision() -> None:
    rng, p = np.random.default_rng(2), Precision(2)
    count = 50
    s, norms = sums(count, -(p.R - 6), 0, rng)  # g.u costs a few bits of the range: down to its edge
    run = normed_sum(split(s, 2, rng), unit(rng, D, count), p)
    u = run.y[0] / np.linalg.norm(run.y[0], axis=0)
    uncertainty = 2.0**-31 / np.linalg.norm(run.y[0], axis=0)
    for f in (p.f_out, p.f_in):
        assert not any(recovered(norm_from_grid(u[:, i], f, uncertainty[i]), norms[i]) for i in range(count))


def twin(s: np.ndarray, g: np.ndarray, p: Precision, openings: int, rng: np.random.Generator) -> np.ndarray:
    """The plain twin of `openings` runs on the same s: exact integers, then the dither of opened bits.

    Returns the mean of the opened y, as an attacker would take it; (d, k).
    """
    y = s / np.abs(np.sum(rounded(g) * s, axis=0))
    units = y * 2.0**p.f_out
    total = np.zeros_like(units)
    for _ in range(openings):
        dithered = units + rng.random((p.M, *units.shape)).sum(axis=0)
        # M shares lose their tails; M - 1 of the tails are uniform, and the last one fits the number's own.
        tails = rng.random((p.M - 1, *units.shape)).sum(axis=0)
        total += np.floor(dithered) - np.ceil(tails - (dithered - np.floor(dithered)))
    return total / openings * 2.0**-p.f_out


def test_twin_has_the_distribution_of_the_protocol() -> None:
    rng, p = np.random.default_rng(3), Precision(3)
    g, s = unit(rng, 4, 250), unit(rng, 4, 250) * 0.1
    exact = s / np.abs(np.sum(rounded(g) * s, axis=0)) * 2.0**p.f_out
    real = normed_sum(split(s, 3, rng), g, p).y[0] * 2.0**p.f_out - exact
    fake = twin(s, g, p, 1, rng) * 2.0**p.f_out - exact
    kept = np.abs(exact) < 2.0**40  # float64 holds the fraction of a unit
    assert stats.ks_2samp(real[kept], fake[kept]).pvalue > LEVEL
    assert abs(real[kept].mean()) < 6 * np.sqrt(p.M / 6 / kept.sum())  # no bias
    assert np.abs(real[kept]).max() <= p.M + 1


def test_grid_attack_finds_nothing_in_300_openings_of_the_same_sum() -> None:
    rng, p = np.random.default_rng(4), Precision(3)
    count, openings = 50, 300
    s, norms = sums(count, -(p.R - 6), 0, rng)
    s = np.ldexp(np.rint(np.ldexp(s, p.f_in)), -p.f_in)  # on the grid of the inputs
    y = twin(s, unit(rng, D, count), p, openings, rng)
    u = y / np.linalg.norm(y, axis=0)
    uncertainty = 2.0**-31 / np.sqrt(openings) / np.linalg.norm(y, axis=0)
    for f in (p.f_out, p.f_in):
        assert not any(recovered(norm_from_grid(u[:, i], f, uncertainty[i]), norms[i]) for i in range(count))


def test_opened_numbers_do_not_depend_on_the_norm() -> None:
    rng, p = np.random.default_rng(5), Precision(2)
    count, d = 300, 4
    u, g = unit(rng, d, count), unit(rng, d, count)
    u += 0.3 * g  # away from orthogonal: 1/(g.u) well inside the head-room
    u /= np.linalg.norm(u, axis=0)
    errors, projections, labels = [], [], []
    for norm in (2.0**-1, 2.0**-30):
        for _ in range(2):
            y = normed_sum(split(norm * u, 2, rng), g, p).y[0]
            exact = u / np.abs(np.sum(rounded(g) * u, axis=0))
            errors.append(((y - exact) * 2.0**p.f_out).ravel())
            projections.append((1 - np.abs(np.sum(rounded(g) * y, axis=0))) * 2.0**p.f_out)
            labels.append(np.full(count, np.log2(norm)))
    half = len(errors) // 2
    large, small = np.concatenate(errors[:half]), np.concatenate(errors[half:])
    assert stats.ks_2samp(large, small).pvalue > LEVEL
    flat, label = np.concatenate(projections), np.concatenate(labels)
    assert stats.linregress(label, flat).pvalue > LEVEL
    assert stats.ks_2samp(flat[label > -10], flat[label < -10]).pvalue > LEVEL
    assert stats.linregress(label, np.abs(flat)).pvalue > LEVEL
