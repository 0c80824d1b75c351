"""Differentially private baselines: how much noise, on what, and that it is where it should be."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import rri_nmf
from pdml_spdz.algorithms.rri import FullPart, ObservedPart, Penalties
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.privacy.dp import (
    Clipping,
    NoisyPart,
    PrivacyBudget,
    clipped_rows,
    gaussian_sigma,
    private_nmf,
    private_power_method,
)
from pdml_spdz.privacy.measures import epsilon_bound

RNG = np.random.default_rng(0)
X = RNG.gamma(0.7, size=(40, 6))
LOOSE = PrivacyBudget(1e12, 0.5)  # next to no noise


def delta_of(epsilon: float, sigma: float) -> float:
    """Of one Gaussian release of sensitivity 1. Ref: Balle, Wang, ICML 2018, Theorem 8."""
    a, b = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
    return float(stats.norm.cdf(a) - np.exp(epsilon) * stats.norm.cdf(b))


@pytest.mark.parametrize("budget", [PrivacyBudget(0.1, 1e-5), PrivacyBudget(0.25, 0.01), PrivacyBudget(2.0, 1e-6)])
@pytest.mark.parametrize("releases", [1, 140])
def test_sigma_is_the_least_that_keeps_the_budget(budget: PrivacyBudget, releases: int) -> None:
    sigma = gaussian_sigma(budget, 3.0, releases) / (3.0 * np.sqrt(releases))
    assert delta_of(budget.epsilon, sigma) == pytest.approx(budget.delta, rel=1e-3)
    assert delta_of(budget.epsilon, 0.99 * sigma) > budget.delta


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_no_row_adds_more_than_its_share(kind: Any) -> None:
    """Sensitivity, by leaving out every row in turn; W of the others does not change."""
    T = RNG.random((3, 6))
    clip = Clipping(0.4, 0.5)
    for make in (FullPart, ObservedPart) if kind is sp.csr_array else (FullPart,):

        def sums(rows: Any, make: Any = make) -> list[np.ndarray]:
            noisy = NoisyPart(make(rows, 3), clip, LOOSE, 3, 1, 0)
            noisy.sigma = 0.0, 0.0
            return [
                np.concatenate(pair) for pair in zip(*[noisy.update(t, T, Penalties()) for t in range(3)], strict=True)
            ]

        whole = sums(kind(X))
        for i in range(0, 40, 7):
            fewer = sums(kind(np.delete(X, i, axis=0)))
            num, den = (np.abs(a - b) for a, b in zip(whole, fewer, strict=True))
            assert np.linalg.norm(num.reshape(3, -1), axis=1).max() <= clip.num + 1e-9
            assert np.linalg.norm(den.reshape(3, -1), axis=1).max() <= clip.weight**2 + 1e-9


def test_without_noise_and_clipping_it_is_pd_nmf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdml_spdz.privacy.dp.gaussian_sigma", lambda *given: 0.0)
    T = RNG.random((3, 6))
    T /= T.sum(axis=1, keepdims=True)
    settings = SweepSettings(5, 0.0, 1e6)
    halves = [FullPart(X[:25], 3), FullPart(X[25:], 3)]
    found = private_nmf(halves, T, settings, Clipping(1e6, 1e6), LOOSE, 0)
    assert found == pytest.approx(rri_nmf(X, T, settings)[1], abs=1e-9)


def test_noise_has_the_deviation_of_the_budget() -> None:
    budget, T = PrivacyBudget(0.25, 0.01), RNG.random((3, 6))
    noisy = NoisyPart(FullPart(X, 3), Clipping(0.4, 0.5), budget, 3, 20, 1)
    num = np.array([noisy.update(0, T, Penalties())[0] for _ in range(400)])
    assert num.std(axis=0).mean() == pytest.approx(gaussian_sigma(budget, 0.4, 2 * 3 * 20), rel=0.05)


@pytest.mark.parametrize("neighbours", ["row", "entry"])
def test_private_power_method_finds_the_space_when_noise_is_small(neighbours: str) -> None:
    rows = RNG.normal(size=(300, 6)) * [5, 4, 3, 0.1, 0.1, 0.1]
    V = private_power_method(rows, 3, 30, LOOSE, length=100.0, neighbours=neighbours, seed=1)
    exact = np.linalg.svd(rows)[2][:3].T
    assert sine(V, exact) < 1e-3
    noisy = private_power_method(rows, 3, 30, PrivacyBudget(0.01, 1e-6), length=100.0, neighbours=neighbours, seed=1)
    assert sine(noisy, exact) > 0.3


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("neighbours", ["row", "entry"])
def test_rows_less_their_public_mean_are_clipped_after_it_is_taken_off(kind: Any, neighbours: str) -> None:
    # Rows far from zero: clipped before, they would all point the same way.
    given = {"length": float(np.linalg.norm(X, axis=1).mean()), "neighbours": neighbours, "seed": 2}
    mean = np.full(6, 50.0)
    found = private_power_method(kind(X + mean), 2, 5, PrivacyBudget(2.0, 0.01), mean=mean, **given)
    # X + 50 - 50 is X but for 2^-47; five products, each made orthonormal again, do not make that 10^4 times larger.
    assert found == pytest.approx(private_power_method(X, 2, 5, PrivacyBudget(2.0, 0.01), **given), abs=1e-10)


def test_measured_epsilon_of_the_private_power_method_is_within_its_budget() -> None:
    # Two databases that differ in one row, as different as the clipping lets them be.
    budget, runs = PrivacyBudget(1.0, 1e-3), 1500
    base = np.full((3, 2), 0.1)
    x = np.array([[0.0, 1.0]])
    arms = [
        np.array([private_power_method(rows, 1, 1, budget, length=1.0, neighbours="row", seed=s)[:, 0] for s in seeds])
        for rows, seeds in ((np.vstack([base, x]), range(runs)), (base, range(runs, 2 * runs)))
    ]
    found = epsilon_bound(np.abs(arms[0].T)[None], np.abs(arms[1].T)[None], delta=budget.delta)
    assert found.lower[0] <= budget.epsilon


def test_clipping_scales_long_rows_and_leaves_short_ones() -> None:
    dense = clipped_rows(X, 1.0).dense()
    norms = np.linalg.norm(X, axis=1)
    assert np.linalg.norm(dense, axis=1) == pytest.approx(np.minimum(norms, 1.0))
    assert clipped_rows(sp.csr_array(X), 1.0).dense() == pytest.approx(dense)


@pytest.mark.parametrize("budget", [(0.0, 0.1), (1.0, 0.0), (1.0, 1.0)])
def test_impossible_budget_is_an_error(budget: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="epsilon is"):
        PrivacyBudget(*budget)


def test_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith(("dp_accounting", "fpylll")):
            raise ImportError(name)
        return real(name, *rest)

    from pdml_spdz.privacy.attacks import norm_from_grid

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EngineError, match=r"pip install dp-accounting"):
        gaussian_sigma(PrivacyBudget(1.0, 0.123), 1.0)  # a budget that no other test has asked for
    with pytest.raises(EngineError, match=r"pip install fpylll cysignals"):
        norm_from_grid(np.ones(50), 31, 1e-9)
