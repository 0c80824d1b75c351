"""One party's part: sparse rows, missing entries, coefficients that are fitted or kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf import SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import nnsvd, rri_nmf
from pdml_spdz.algorithms.rri import CAP, Penalties, part
from pdml_spdz.errors import QuotaError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.transport.base import Clock
from tests.nmf.helpers import NONE, observed_rows, rounding, settings_for, topics


def test_sparse_rows_are_never_dense() -> None:
    """Start, iterations, fit and error of a table that would take 3 GB."""
    n, d, k, nnz = 20_000, 20_000, 4, 60_000
    rng = np.random.default_rng(5)
    S = sp.csr_array((rng.uniform(1.0, 2.0, nnz), (rng.integers(0, n, nnz), rng.integers(0, d, nnz))), shape=(n, d))
    S.sum_duplicates()
    tracemalloc.start()
    T = nnsvd(S, k)
    for weighted in (False, True):
        settings = settings_for(S, 1, weighted=weighted, penalties=Penalties(delta=1.0))
        local = part(S, k, weighted=weighted)
        pd_nmf_iter(local, SweepState(T), settings, own_sum, Alone(), clock=Clock())
        local.fit(T, settings.penalties, sweeps=1)
        local.restore(local.W, T)
        assert np.isfinite(local.error(T))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few vectors for each of 2 k + 1 Lanczos vectors, k topics or all stored entries.
    assert peak <= 8 * 8 * (nnz + (2 * k + 1) * (n + d))


@pytest.mark.parametrize("as_kept", [np.asarray, sp.csr_array])
def test_what_is_kept_of_a_sweep_is_not_used_for_other_topics(as_kept: Callable[[Any], Any]) -> None:
    """Turns in any order, topics changed in between by whoever: the sums are W_t^T R_t with the T that is given."""
    rng = np.random.default_rng(8)
    X, T = rng.uniform(size=(40, 9)), topics(3, 9)
    local = part(as_kept(X), 3)
    for t in (0, 2, 1, 1, 0, 2):
        T = np.where(np.arange(3)[:, None] == rng.integers(3), rng.uniform(size=(3, 9)), T)
        W = local.W.copy()
        R_t = X - W @ T + np.outer(W[:, t], T[t])
        num, den = local.update(t, T, NONE)
        W_t = np.maximum(R_t @ T[t], 0.0) / (T[t] @ T[t])
        # Of each addend of a sum a rounding error, of the size of what cancels in R_t.
        size = (X + W @ T).max() * T.max() / (T[t] @ T[t])
        error = EPS * X.size * max(1.0, size) ** 2
        assert local.W[:, t] == pytest.approx(W_t, abs=error)
        assert num == pytest.approx(W_t @ R_t, abs=len(X) * error)
        assert den == pytest.approx(W_t @ W_t, abs=len(X) * error)


def test_a_missing_entry_is_not_a_zero() -> None:
    """X = w t^T with holes has an exact fit of rank one; with zeros in the holes it has none."""
    rng = np.random.default_rng(6)
    X = np.outer(rng.uniform(1, 2, 30), rng.uniform(1, 2, 7))
    B = rng.random(X.shape) < 0.6
    S = sp.csr_array(np.where(B, X, 0.0))
    errors = {}
    for weighted in (True, False):
        settings = settings_for(S, 200, weighted=weighted)
        W, T = rri_nmf(S, topics(1, 7), settings)
        errors[weighted] = np.linalg.norm(B * (X - W @ T)) / np.linalg.norm(X)
    assert errors[True] <= X.size * EPS
    assert errors[False] > 0.1


@pytest.mark.parametrize("weighted", [False, True], ids=["full", "weighted"])
def test_an_iteration_goes_on_from_kept_coefficients(weighted: bool) -> None:
    S, B = observed_rows()
    X = S.toarray()
    settings = settings_for(S, 8, weighted=weighted)
    T_0 = topics(3, 9)
    half, first = replace(settings, tau=4), part(S, 3, weighted=weighted)
    T = pd_nmf_iter(first, SweepState(T_0), half, own_sum, Alone(), clock=Clock()).T
    second = part(S, 3, weighted=weighted)
    second.restore(first.W, T)
    assert second.error(T) == pytest.approx(first.error(T), rel=X.size * EPS)
    T = pd_nmf_iter(second, SweepState(T), half, own_sum, Alone(), clock=Clock()).T
    W, whole = rri_nmf(S, T_0, settings)
    tolerances = rounding(X, T_0, settings, 1, B if weighted else None)
    assert np.abs(second.W - W).max() <= tolerances[0]
    assert np.abs(T - whole).max() <= tolerances[1]


@pytest.mark.parametrize("weighted", [False, True], ids=["full", "weighted"])
def test_fit_of_coefficients_is_the_non_negative_least_squares_fit(weighted: bool) -> None:
    S, B = observed_rows()
    X, T = S.toarray(), topics(3, 9)
    B = B if weighted else np.ones_like(B)
    local = part(S, 3, weighted=weighted)
    local.fit(T, NONE)
    W = np.array([scipy.optimize.nnls((b * T).T, x)[0] for x, b in zip(X, B, strict=True)])
    # Every column is exact when it is set; those after it then move by at most 1e-10 of the largest: what is left of
    # the gradient is that times T T^T, and the distance is the gradient over the smallest curvature of a row.
    curvature = min(np.linalg.eigvalsh((b * T) @ T.T)[0] for b in B[B.sum(axis=1) >= 3])
    rows = B.sum(axis=1) >= 3  # with fewer entries than topics the fit is not unique
    moved = 1e-10 * max(1.0, local.W.max()) * np.abs(T @ T.T).sum()
    assert np.linalg.norm(local.W[rows] - W[rows], axis=1).max() <= moved / curvature
    # Convexity: the error is above the least one by at most gradient times distance, here of twice the half squares.
    apart = np.linalg.norm(local.W - W, axis=1).sum()
    error = np.sum((B * (X - W @ T)) ** 2)
    assert abs(local.error(T) - error) <= 2 * moved * apart + X.size * EPS * np.sum(X**2)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e6])
@pytest.mark.parametrize("alike", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_fit_of_coefficients_is_the_best_in_any_units_and_where_topics_are_alike(
    unit: float, alike: float, gamma: float
) -> None:
    """gamma and delta as more equations: topics have rank k, so that gamma is T r for some r."""
    rng = np.random.default_rng(0)
    for k, d in ((2, 3), (7, 8), (9, 9)):
        T = rng.gamma(1.0, size=(k, d))
        T = T.mean(axis=0) + alike * T
        X = (rng.gamma(0.3, size=(40, k)) @ T + 0.3 * rng.random((40, d))) * unit
        p = Penalties(gamma=gamma * unit * float(T.max()), delta=gamma * float(T.max()) ** 2)
        A, r = np.vstack([T.T, np.sqrt(p.delta) * np.eye(k)]), p.gamma * np.ones(k)
        aside = np.linalg.lstsq(A.T, r, rcond=None)[0]
        wanted = np.array([scipy.optimize.nnls(A, np.append(x, np.zeros(k)) - aside)[0] for x in X])
        local = part(X, k)
        local.fit(T, p)

        def objective(W: np.ndarray, T: np.ndarray = T, X: np.ndarray = X, p: Penalties = p) -> np.ndarray:
            return np.sum((X - W @ T) ** 2, axis=1) / 2 + p.gamma * W.sum(axis=1) + p.delta * np.sum(W**2, axis=1) / 2

        # Normal equations have half of the digits of a direction along which topics hardly differ.
        lost = max(EPS, k * EPS / np.linalg.svd(A / np.linalg.norm(A, 2), compute_uv=False)[-1])
        squares = np.sum(X**2, axis=1)
        assert np.all(local.W >= 0)
        assert np.max((objective(local.W) - objective(wanted)) / squares) <= 8 * lost


def single_entry() -> tuple[sp.csr_array, np.ndarray]:
    """One entry, of a feature that the topic hardly has: W would be as large as that is small."""
    return sp.csr_array(np.eye(1, 4)), np.array([[1e-9, 0.4, 0.3, 0.3]])


def test_without_penalties_coefficients_of_missing_entries_are_capped() -> None:
    S, T = single_entry()
    local = part(S, 1, weighted=True)
    local.update(0, T, NONE)
    assert local.W.item() == CAP * 4
    # Penalties on W bound it by themselves, and are what the user asked for.
    for penalties in (Penalties(delta=1e-20), Penalties(gamma=1e-10)):
        local.update(0, T, penalties)
        assert local.W.item() > CAP * 4


@pytest.mark.parametrize("penalties", [NONE, Penalties(alpha=0.1), Penalties(beta=0.1)])
def test_without_penalties_on_w_every_sum_fits_its_bound(penalties: Penalties) -> None:
    """Rows of one or two features, topics that hardly have them: nothing is refused, and the objective falls."""
    rng = np.random.default_rng(3)
    B = rng.random((60, 12)) < 0.1
    S = sp.csr_array((rng.uniform(1, 5, B.sum()), np.nonzero(B)), shape=B.shape)
    T = topics(4, 12) ** 8 + 1e-12
    T /= T.sum(axis=1, keepdims=True)
    W, found = rri_nmf(S, T, settings_for(S, 30, weighted=True, penalties=penalties))
    assert np.all(CAP * 12 * np.sqrt(S.multiply(S).sum(axis=1))[:, None] >= W)
    left = np.sum((B * (S.toarray() - W @ found)) ** 2)
    assert left < 0.1 * np.sum(S.data**2)


def test_sums_beyond_the_bound_are_refused() -> None:
    S, _ = observed_rows()
    settings = replace(settings_for(S, 5, weighted=True), bound=1e-3)
    with pytest.raises(QuotaError, match=r"nothing of it was sent(.|\n)*agree on a larger --bound"):
        rri_nmf(S, topics(3, 9), settings)
