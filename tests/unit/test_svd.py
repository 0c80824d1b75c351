"""PD-SVD against the SVD of the pooled rows and against the centralised block power iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.datasets import load_digits

import pdml_spdz
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import EPS, fix_signs, orthonormalise, sine
from pdml_spdz.rows.base import RowsLike, as_rows
from tests.threads import fit


def digits(*cuts: int) -> list[np.ndarray]:
    return np.split(load_digits().data.astype(np.float64), cuts)


def with_spectrum(n: int, d: int, sigma: np.ndarray, seed: int = 0) -> np.ndarray:
    """n rows with the given singular values."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(rows, len(sigma))))[0] for rows in (n, d))
    return (U * sigma) @ V.T


def pooled(tables: Sequence[RowsLike]) -> np.ndarray:
    return np.vstack([as_rows(X).dense() for X in tables])


def noise_per_iteration(tables: Sequence[RowsLike], k: int, bound: float, sigma: np.ndarray) -> float:
    """What encoding (M half units for each of d k entries) and float64 products add to S V, relative to lambda_k."""
    M, d = len(tables), tables[0].shape[1]
    encoding = np.sqrt(d * k) * Format.for_bound(bound, M).tolerance
    products = d * EPS * sigma[0] ** 2
    return float((encoding + products) / sigma[k - 1] ** 2)


def stopped(q: float, noise: float, tol: float) -> float:
    """From the stop rule: with q = lambda_(k+1)/lambda_k the angle e_t shrinks by q in each step, so a change below
    tol, which is at least e_t - e_(t+1), leaves e_(t+1) <= tol q / (1 - q). From the precision: the noise of all steps
    adds up to noise / (1 - q), NumPy's own SVD is off by as much, and the stop rule accepts a change of 2 noise.
    """
    return (max(tol, 2 * noise) * q + 2 * noise) / (1 - q)


def angle_tolerance(tables: Sequence[RowsLike], k: int, bound: float, tol: float) -> float:
    sigma = np.linalg.svd(pooled(tables), compute_uv=False)
    q = float((sigma[k] / sigma[k - 1]) ** 2) if len(sigma) > k else 0.0
    return stopped(q, noise_per_iteration(tables, k, bound, sigma), tol)


def check_against_pooled(tables: Sequence[RowsLike], k: int, tol: float = 1e-10) -> None:
    fits = fit(tables, k, tol=tol, tau=2000)
    V_k = np.linalg.svd(pooled(tables), full_matrices=False)[2][:k].T
    for fitted in fits:
        assert fitted.result.state.stop == 1
        np.testing.assert_array_equal(fitted.result.V, fits[0].result.V)
    V = fits[0].result.V
    assert np.abs(V.T @ V - np.eye(k)).max() <= 10 * k * EPS
    assert sine(V_k, V) <= angle_tolerance(tables, k, fits[0].bound, tol)


@pytest.mark.parametrize("cuts", [(900,), (180, 757), (3, 50, 800, 1200)], ids=["M=2", "M=3", "M=5"])
def test_v_equals_pooled_svd_for_uneven_parties(cuts: tuple[int, ...]) -> None:
    # (3, ...): the first party has fewer rows than k.
    check_against_pooled(digits(*cuts), k=7)


def test_v_equals_pooled_svd_for_sparse_rows() -> None:
    rng = np.random.default_rng(1)
    X = sp.random_array((900, 120), density=0.05, rng=rng, format="csr")
    X = X @ sp.diags_array(np.geomspace(1.0, 30.0, 120)).tocsr()
    # k = 3: the fourth singular value is so near the fifth that an unlucky start needs more than 2000 iterations.
    check_against_pooled([X[:100], X[100:450], X[450:]], k=3)


def test_v_equals_pooled_svd_when_sparse_and_dense_parties_meet() -> None:
    X = with_spectrum(300, 40, 2.0 ** -np.arange(12))
    check_against_pooled([sp.csr_array(X[:100]), X[100:]], k=5)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_v_does_not_depend_on_the_scale(scale: float) -> None:
    check_against_pooled([scale * X for X in digits(180, 757)], k=5)


def centralised(X: np.ndarray, V: np.ndarray, tau: int) -> np.ndarray:
    """Algorithm 'non-private block power iteration' of the paper, on the pooled rows."""
    S = X.T @ X
    for _ in range(tau):
        V = orthonormalise(S @ V)[0]
    return fix_signs(V)


@pytest.mark.parametrize("seed", [None, 42], ids=["start by SecSum", "start by seed"])
@pytest.mark.parametrize("tau", [1, 10, 60])
def test_theorem_3_equals_centralised_iteration_from_the_same_start(seed: int | None, tau: int) -> None:
    tables, k = digits(180, 757), 6
    fitted = fit(tables, k, tau=tau, tol=0.0, seed=seed)[0]
    V = centralised(pooled(tables), fitted.V0, tau)
    # Both compute the same map; each step adds at most this noise, QR magnifies it by at most the condition of the
    # first S V (lambda_1/lambda_k), and no step magnifies what is there already (power iteration contracts).
    sigma = np.linalg.svd(pooled(tables), compute_uv=False)
    noise = noise_per_iteration(tables, k, fitted.bound, sigma)
    assert np.abs(V - fix_signs(fitted.result.state.V)).max() <= 2 * tau * noise * (sigma[0] / sigma[k - 1]) ** 2


def test_starts_differ_from_run_to_run_unless_seeded() -> None:
    tables = digits(180, 757)
    first, second = (fit(tables, 2, tau=1)[0].V0 for _ in range(2))
    assert not np.any(first == second)
    np.testing.assert_array_equal(*(fit(tables, 2, tau=1, seed=7)[0].V0 for _ in range(2)))


def test_start_by_sec_sum_is_a_uniform_direction() -> None:
    # V_0 is N(0, 1/d)^(d x k) orthonormalised, so entries of its first column have mean 0 and variance 1/d.
    V0 = np.stack([fit(digits(180, 757), 1, tau=1)[0].V0[:, 0] for _ in range(20)])
    assert abs(V0.mean()) <= 5 / np.sqrt(V0.size * 64)
    assert stats.kstest(V0.ravel() * 8.0, "norm").pvalue > 1e-6


def test_singular_values_are_those_of_the_pooled_rows() -> None:
    X, k, tol = with_spectrum(300, 40, 2.0 ** -np.arange(12)), 5, 1e-9
    tables = [X[:100], X[100:]]
    fitted = fit(tables, k, tol=tol)[0]
    sigma = np.linalg.svd(X, compute_uv=False)
    assert fitted.result.sigma is not None
    # All gaps are alike here, so every column is as good as the block. An angle e between v_i and its limit moves
    # ||S v_i|| by at most e lambda_1, and sigma_i is its square root.
    angle = angle_tolerance(tables, k, fitted.bound, tol)
    np.testing.assert_allclose(fitted.result.sigma, sigma[:k], rtol=angle * (sigma[0] / sigma[k - 1]) ** 2)


def test_rank_below_k_drops_the_dead_columns_and_says_so() -> None:
    X = with_spectrum(200, 30, np.array([3.0, 2.0, 1.0]))
    fits = fit([X[:50], X[50:]], k=5, tau=200)
    result = fits[0].result
    assert result.V.shape == (30, 3)
    assert any("2 of 5 columns were dropped" in warning for warning in result.warnings)
    assert sine(np.linalg.svd(X)[2][:3].T, result.V) <= 1e-10


def test_zero_rows_everywhere_are_an_error() -> None:
    with pytest.raises(InputError, match="together are zero"):
        fit([np.zeros((5, 4)), np.zeros((3, 4))], k=2)


def test_one_party_may_have_only_zeros() -> None:
    check_against_pooled([np.zeros((5, 64)), *digits(700)], k=3)


def test_unfinished_run_warns_with_the_remaining_change() -> None:
    result = fit(digits(700), 7, tau=3)[0].result
    assert result.state.t == 3
    assert any("not converged" in warning for warning in result.warnings)


def test_rank_equal_to_d_works() -> None:
    X = with_spectrum(50, 4, np.array([4.0, 3.0, 2.0, 1.0]))
    check_against_pooled([X[:20], X[20:]], k=4)


@pytest.mark.parametrize(("sigma", "k"), [([3.0, 2.0], 2), ([4.0, 3.0, 2.5, 1.0], 4)], ids=["rank = k", "k = d"])
def test_columns_are_singular_vectors_though_the_subspace_converges_at_once(sigma: list[float], k: int) -> None:
    X = with_spectrum(60, 4, np.array(sigma))
    tables = [X[:20], X[20:]]
    fitted = fit(tables, k, tol=1e-9)[0]
    exact_sigma, V_k = np.linalg.svd(X, compute_uv=False)[:k], np.linalg.svd(X)[2][:k].T
    # Rayleigh-Ritz is exact in an invariant subspace, up to the noise over the smallest relative gap of eigenvalues.
    gap = np.min(np.abs(np.diff(exact_sigma**2))) / exact_sigma[0] ** 2
    noise = noise_per_iteration(tables, k, fitted.bound, exact_sigma)
    assert np.abs(fix_signs(V_k) - fitted.result.V).max() <= 10 * k * noise / gap
    assert fitted.result.sigma is not None
    np.testing.assert_allclose(fitted.result.sigma, exact_sigma, rtol=10 * k * noise)


def test_single_vectors_are_as_good_as_their_gaps_allow() -> None:
    tables, k = digits(180, 757), 7
    fitted = fit(tables, k, tol=1e-9, tau=2000)[0]
    V_k = fix_signs(np.linalg.svd(pooled(tables), full_matrices=False)[2][:k].T)
    lambdas = np.linalg.svd(pooled(tables), compute_uv=False)[: k + 1] ** 2
    gaps = np.minimum(np.abs(np.diff(lambdas))[:k], np.abs(np.diff(lambdas, prepend=np.inf))[:k]) / lambdas[0]
    # A Ritz vector is off by the angle of the subspace, magnified by at most its own relative gap.
    angle = angle_tolerance(tables, k, fitted.bound, 1e-9)
    assert np.all(np.linalg.norm(V_k - fitted.result.V, axis=0) <= 2 * angle * (1 + 1 / gaps))


SPECTRA = {
    "geometric": 0.8 ** np.arange(8.0),
    "bulk": np.array([6.0, 5.5, 5.0, 1.03, 1.02, 1.01, 1.0, 0.99]),
    "rank 3": np.array([3.0, 2.0, 1.0]),
} | {f"gap {gap}": np.array([5.0, 3.0, 2.0, 2.0 - 2 * gap, 1.0, 0.5, 0.3, 0.1]) for gap in (0.05, 0.01, 0.003, 0.001)}


@pytest.mark.parametrize("tau", [6, 25, 100])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_V_is_known_as_well_as_the_run_says(spectrum: str, tau: int) -> None:
    """However it ends. And where that is less than 1: no more than sqrt(k) lambda_1/(gap q) times as badly, q for the
    iteration that V is ahead of the residual, and what the noise of all columns makes of the gap.
    """
    sigma = SPECTRA[spectrum]
    for seed in range(2):
        X = with_spectrum(120, 8, sigma, seed)
        V, values = np.linalg.svd(X)[2].T, np.append(sigma, np.zeros(8))[:8] ** 2
        for k in (1, 3):
            fitted = fit(np.array_split(X, 3), k, tau=tau, tol=1e-9, seed=seed)[0]
            result, bound = fitted.result, fitted.result.state.bound
            off = np.linalg.norm(result.V - V[:, :k] * np.sum(V[:, :k] * result.V, axis=0), axis=0)
            true, rounding = sine(V[:, :k], result.V), 8 * EPS * values[0] / values[k - 1]
            assert true <= bound.span + rounding
            assert np.all(off <= bound.columns + rounding)
            assert result.warnings or true < 1e-6
            gap, q = values[k - 1] - values[k], max(values[k] / values[k - 1], 1e-3)
            noise = noise_per_iteration(np.array_split(X, 3), k, fitted.bound, sigma)
            assert bound.span == 1.0 or bound.span <= 4 * np.sqrt(k) * values[0] / gap * (true / q + noise)
            assert bound.span < 1.0 or true > 1e-3


@pytest.mark.parametrize("k", [3, 4])
def test_what_a_loose_bound_leaves_is_said(k: int) -> None:
    """Where k = d too: the span is everything, and its change is nothing."""
    X = with_spectrum(60, 4, np.array([4.0, 3.0, 2.0, 1.0]))
    bound = 1e9 * float(np.linalg.norm(X.T @ X))
    done = pdml_spdz.svd(
        np.array_split(X, 3), rank=k, solver="power", engine="secsum", reveal="sum", bound=bound, transport="threads"
    )
    V = np.linalg.svd(X)[2].T
    off = np.linalg.norm(done.V - V[:, :k] * np.sum(V[:, :k] * done.V, axis=0), axis=0)
    assert np.all(off <= done.report["sine_bound"]["columns"])
    assert off.max() > 1e-6
    assert any("V is known to" in text for text in done.report["warnings"])
