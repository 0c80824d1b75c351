"""PD-SVD on secret shares against the pooled SVD and the centralised iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.errors import RangeExceeded
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise, sine
from pdml_spdz.rows.base import RowsLike
from tests.threads import fit
from tests.unit.test_svd import digits, pooled, with_spectrum


def noise(M: int, d: int, f_out: int) -> float:
    """In l2 and relative to a column of about unit length: M + 1 units for each entry at the very most."""
    return (M + 1) * 2.0**-f_out * np.sqrt(d)


def check_against_pooled(tables: Sequence[RowsLike], k: int, f_out: int = 31) -> None:
    M, d, tol = len(tables), tables[0].shape[1], 1e-7
    fits = fit(tables, k, tol=tol, tau=400, engine="embedded", f_out=f_out)
    X = pooled(tables)
    sigma, V_k = np.linalg.svd(X, compute_uv=False), np.linalg.svd(X, full_matrices=False)[2][:k].T
    q = (sigma[k] / sigma[k - 1]) ** 2
    for fitted in fits:
        assert fitted.result.state.stop == 1
        assert fitted.result.sigma is None  # nobody knows the norms
        np.testing.assert_array_equal(fitted.result.V, fits[0].result.V)
    # y_i has a projection of 1 on the v_i before, so its length is at least 1 and its relative noise at most this.
    each = noise(M, d, f_out)
    assert sine(V_k, fits[0].result.V) <= (max(tol, 2 * each) * q + 2 * np.sqrt(k) * each) / (1 - q)


FIVE = pytest.param((3, 50, 800, 1200), id="M=5", marks=pytest.mark.long)  # ten pairs; test_krylov.py has five parties


@pytest.mark.parametrize("cuts", [pytest.param((900,), id="M=2"), pytest.param((180, 757), id="M=3"), FIVE])
def test_v_equals_pooled_svd_for_uneven_parties(cuts: tuple[int, ...]) -> None:
    check_against_pooled(digits(*cuts), k=2)


@pytest.mark.parametrize("f_out", [10, 20])
def test_fewer_bits_give_a_coarser_basis(f_out: int) -> None:
    X = with_spectrum(60, 12, 3.0 ** -np.arange(6))
    check_against_pooled([X[:20], X[20:]], k=2, f_out=f_out)


def test_badly_scaled_columns() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 12)) * np.geomspace(1e4, 1.0, 12)
    check_against_pooled([X[:50], X[50:]], k=3)


def centralised(S: RowsLike, V: np.ndarray, tau: int) -> np.ndarray:
    for _ in range(tau):
        V = orthonormalise(S @ V)[0]
    return fix_signs(V)


@pytest.mark.parametrize(
    ("normalise", "online"), [("fit", "stream"), ("per-column", "stream"), ("per-column", "per-column")]
)
def test_theorem_3_equals_centralised_iteration(normalise: str, online: str) -> None:
    X, k, tau = with_spectrum(100, 20, 2.0 ** -np.arange(8)), 2, 3
    tables = [X[:30], X[30:]]
    fitted = fit(tables, k, tau=tau, tol=0.0, seed=5, engine="embedded", normalise=normalise, online=online)[0]
    V = centralised(X.T @ X, fitted.V0, tau)
    # QR magnifies the noise of a step by 1/r, at most lambda_1/lambda_k in the first one; later steps contract.
    assert np.abs(V - fix_signs(fitted.result.state.V)).max() <= 2 * tau * noise(2, 20, 31) * 2.0 ** (2 * (k - 1)) * 4


def test_sparse_rows_with_many_columns() -> None:
    rng = np.random.default_rng(4)
    d, tau = 5_000, 4
    X = sp.random_array((400, d), density=2e-3, rng=rng, format="csr", data_sampler=rng.exponential)
    tables = [X[:100], X[100:]]
    fitted = fit(tables, 1, tau=tau, tol=0.0, seed=5, engine="embedded")[0]
    V = centralised(X.T @ X, fitted.V0, tau)
    assert sine(V, fitted.result.V) <= 2 * tau * noise(2, d, 31)


def test_rank_below_k_drops_the_dead_columns() -> None:
    X = with_spectrum(60, 10, np.array([3.0, 2.0]))
    result = fit([X[:20], X[20:]], k=3, tau=60, tol=1e-6, engine="embedded")[0].result
    assert result.V.shape == (10, 2)
    assert any("1 of 3 columns were dropped" in warning for warning in result.warnings)
    assert sine(np.linalg.svd(X)[2][:2].T, result.V) <= 1e-6


def test_rank_below_k_ends_at_the_gate_with_one_norm_per_column() -> None:
    # Each column is normalised by itself, so a column that died has no direction: the run says so and ends.
    X = with_spectrum(60, 10, np.array([3.0]))
    with pytest.raises(RangeExceeded, match="a rank below the rank of the rows"):
        fit([X[:20], X[20:]], k=2, tau=20, tol=1e-6, engine="embedded", normalise="per-column")


@pytest.mark.parametrize(("sigma", "k"), [([1e5, 1.0, 0.5, 0.1], 2), ([1e4, 1e3, 1.0, 0.5], 4), ([3.0, 2.0], 2)])
def test_columns_are_singular_vectors_for_a_wide_spectrum(sigma: list[float], k: int) -> None:
    X = with_spectrum(60, 10, np.array(sigma))
    result = fit([X[:20], X[20:]], k, tau=60, tol=1e-7, engine="embedded")[0].result
    V_k = fix_signs(np.linalg.svd(X)[2][:k].T)
    # lambda_1/lambda_k = 10^10: S v_k has a relative error of d EPS 10^10 in float64, and the stop rule allows as much.
    smallest = 40 * 10 * np.finfo(float).eps * (sigma[0] / sigma[k - 1]) ** 2
    assert np.linalg.norm(V_k - result.V, axis=0).max() <= smallest + 40 * noise(2, 10, 31)
