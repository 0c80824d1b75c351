"""Hidden centring on shares: what is opened is that of the covariance around the mean, whatever the mean is."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from pdml_spdz.engines.embedded import machine, values
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.openings.centred import CentredScale
from pdml_spdz.errors import ProtocolError, RangeExceeded
from pdml_spdz.numerics.linalg import EPS, orthonormalise
from pdml_spdz.offline.material import Lots
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.normed_sum import OwnMean
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.dealer import deal
from tests.embedded.helpers import Wire, rounded
from tests.threads import run_threads

D, K, TAU = 9, 2, 3


def tables(M: int, far: float, seed: int = 1) -> list[np.ndarray]:
    """The same deviations for every `far`, around a mean that is as far from zero."""
    rng = np.random.default_rng(seed)
    deviations = [rng.normal(size=(4 + 7 * m, D)) * 2.0 ** -np.arange(D) + rng.normal(size=D) for m in range(M)]
    return [X + far * np.linspace(0.5, 1.0, D) for X in deviations]


def scatter(X: list[np.ndarray]) -> np.ndarray:
    pooled = np.vstack(X)
    pooled = pooled - pooled.mean(axis=0)
    return pooled.T @ pooled


def start() -> np.ndarray:
    return orthonormalise(np.random.default_rng(0).normal(size=(D, K)))[0]


def opened(
    X: list[np.ndarray],
    p: Precision,
    program: Program,
    wire: Wire | None = None,
    warned: list[str] | None = None,
    later: list[np.ndarray] | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(V_t, y_t / kappa) of TAU iterations at party 0, with dealt material; all parties open the same.

    later : the rows from the second iteration on, if a party changes them
    """
    n, M = sum(map(len, X)), len(X)
    bound = sqrt(K) * sum(float(np.linalg.norm(X_m.T @ X_m)) for X_m in X)
    lots = Lots.of(machine.plan(program))
    materials = deal(lots.whole, p)

    def party(link: Link) -> list[tuple[np.ndarray, np.ndarray]]:
        runner = EmbeddedRunner(MaskedSum(link, Keys.agree(link, b"test")), p, bound, materials[link.me], lots)
        X_m, V, seen = X[link.me], start(), []
        warn = [].append if warned is None else warned.append
        normed_sum = CentredScale(runner, program, OwnMean(X_m.sum(axis=0) / sqrt(n), len(X_m) / n), warn)
        for _ in range(TAU):
            columns = normed_sum(X_m.T @ (X_m @ V), V)
            assert columns.scaled is not None
            seen.append((V, columns.scaled))
            V, _ = orthonormalise(columns.U)
            X_m = (later or X)[link.me]
        return seen

    links = mesh(M)
    every = run_threads(M, party, wire.tap(links) if wire else links)
    for seen in every:
        for (_, y), (_, same) in zip(seen, every[0], strict=True):
            np.testing.assert_array_equal(y, same)
    return every[0]


def tolerance(p: Precision, X: list[np.ndarray], c: float) -> float:
    """Of an entry of c C v: M + 1 units of the last place, over kappa, which is 1 or 1/(v.c C v) of two V; w, off by M
    units of f_inv, times a, which is at most 1; c itself, off by as much; and S_m v and t_m.v, which float64 rounds to
    D EPS ||S_m||, once each.
    """
    largest = c * float(np.linalg.norm(scatter(X), 2))
    exact = 2 * D * EPS * c * sum(float(np.linalg.norm(X_m, 2)) ** 2 for X_m in X)
    return (p.M + 1) * 2.0**-p.f_out * max(1.0, largest) + p.M * 2.0**-p.f_inv * (1 + largest) + exact


@pytest.mark.parametrize("longest", [values.OUTER, 0], ids=["a delta for each feature", "a delta for each column"])
@pytest.mark.parametrize(("M", "f_out", "far"), [(2, 31, 0.0), (3, 31, 30.0), (3, 20, 5.0), (5, 31, -2.0)])
def test_opened_sums_are_those_of_the_centred_rows(
    monkeypatch: pytest.MonkeyPatch, M: int, f_out: int, far: float, longest: int
) -> None:
    monkeypatch.setattr(values, "OUTER", longest)
    p, X, warned = Precision(M, f_out), tables(M, far), []
    C = scatter(X)
    c = K / float(np.sum(rounded(start()) * (C @ start())))
    for V, y in opened(X, p, render("scaled_sum_centred", p, D, K, TAU), warned=warned):
        assert np.abs(y - c * C @ V).max() <= tolerance(p, X, c)
    assert warned == []


def test_what_is_opened_does_not_depend_on_the_mean() -> None:
    p = Precision(2)
    program = render("scaled_sum_centred", p, D, K, TAU)
    near, far = (opened(tables(2, distance), p, program) for distance in (0.0, 20.0))
    c = K / float(np.sum(rounded(start()) * (scatter(tables(2, 0.0)) @ start())))
    allowed = 2 * tolerance(p, tables(2, 20.0), c)
    for (V, y), (W, z) in zip(near, far, strict=True):
        assert np.abs(y - z).max() <= allowed + c * np.linalg.norm(scatter(tables(2, 0.0)), 2) * np.abs(V - W).max()
    # The first is at the same V: not even the rounding of an iteration before lies between them.
    assert np.abs(near[0][1] - far[0][1]).max() <= allowed


@pytest.mark.parametrize("longest", [values.OUTER, 0])
def test_frames_of_an_honest_party_are_uniform(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    monkeypatch.setattr(values, "OUTER", longest)
    p, wire = Precision(3), Wire()
    opened(tables(3, 30.0), p, render("scaled_sum_centred", p, D, K, TAU), wire)
    frames = wire.payloads(0, 2, "scale")
    assert len(frames) == TAU  # all products of an iteration in one round
    words = np.frombuffer(b"".join(frames), "<u4") / 2.0**32
    assert len(words) > 300
    assert stats.kstest(words, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("rows", [np.ones((4, D)), np.outer(np.ones(4), np.arange(D) / 7.0)])
def test_rows_that_are_all_the_same_end_at_the_gate_with_nothing_opened(rows: np.ndarray) -> None:
    p, wire = Precision(2), Wire()
    with pytest.raises(RangeExceeded, match="too small for the agreed bound and range"):
        opened([rows, rows[:3]], p, render("scaled_sum_centred", p, D, K, TAU), wire)
    assert "sum:scalars" in wire.steps()  # it got as far as the gate
    assert not wire.steps() & {"scale", "sum:open"}  # and no further


def test_means_that_dwarf_the_deviations_are_said_and_end_the_run_beyond_the_range() -> None:
    p, warned = Precision(2), []
    program = render("scaled_sum_centred", p, D, K, TAU)
    opened(tables(2, 3e4), p, program, warned=warned)
    assert len(warned) == 2  # once at each party
    assert "bits only, of 31: the means of the features are large beside their deviations" in warned[0]
    with pytest.raises(RangeExceeded, match="too small for the agreed bound and range"):  # (3e6)^2 > 2^40
        opened(tables(2, 3e6), p, program)


def test_sums_of_another_matrix_in_the_middle_end_the_run() -> None:
    p, X = Precision(2), tables(2, 5.0)
    changed = [2.0 * X[0], X[1]]
    with pytest.raises(ProtocolError, match="the opened sums do not fit together"):
        opened(X, p, render("scaled_sum_centred", p, D, K, TAU), later=changed)
