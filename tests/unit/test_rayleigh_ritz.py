"""Single vectors from directions with noise: the plain twin of an engine that opens y to 31 bits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import helmert
from scipy.sparse.csgraph import connected_components

from pdml_spdz.algorithms import rayleigh_ritz
from pdml_spdz.algorithms.rayleigh_ritz import groups
from pdml_spdz.algorithms.solver import CONVERGED, Fitting, SvdResult, SvdSettings, start_by_seed
from pdml_spdz.algorithms.svd import PowerState, pd_svd
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.normed_sum import Alone, NormedColumns, NormedSum, unit_columns
from pdml_spdz.rows.covariance import GramMatrix
from pdml_spdz.transport.base import Clock
from tests.unit.test_svd import with_spectrum

UNIT = 2.0**-31  # deviation of an entry of what is opened


def opened(normalise: str, rng: np.random.Generator) -> NormedSum:
    """s_i/|g_i.s_i| for each column, or s_i k/sum_i g_i.s_i for all, with noise."""

    def normed(x: np.ndarray, g: np.ndarray) -> NormedColumns:
        along = np.sum(g * x, axis=0)
        y = x / (np.abs(along) if normalise == "per-column" else np.mean(along))
        y = y + UNIT * rng.standard_normal(y.shape)
        columns = unit_columns(y, UNIT * (np.sqrt(len(x)) + 4.0))
        return NormedColumns(*columns, None, None if normalise == "per-column" else y)

    return normed


def fit(
    sigma: list[float], d: int, k: int, normalise: str, seed: int, tol: float = 1e-9
) -> tuple[SvdResult, np.ndarray]:
    """The fit, and how far each column is from NumPy's."""
    X = with_spectrum(60, d, np.array(sigma), seed)
    start = PowerState(start_by_seed(d, k, seed + 1, Alone()))
    normed = opened(normalise, np.random.default_rng(seed))
    result = pd_svd(Fitting(GramMatrix(X), normed, Alone(), Clock()), start, SvdSettings(k, 400, tol))
    V_k = np.linalg.svd(X)[2][: result.V.shape[1]].T
    return result, np.linalg.norm(result.V - V_k * np.sign(np.sum(V_k * result.V, axis=0)), axis=0)


def spectra() -> list[tuple[int, int, list[float]]]:
    """(seed, k, singular values): ranks up to d, up to four orders of magnitude, with pairs that nearly coincide."""
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 12))
        k = int(rng.integers(1, d + 1))
        sigma = np.sort(10.0 ** rng.uniform(-4 * rng.uniform(), 0, d))[::-1]
        sigma[k:] *= 0.5
        if seed % 3 == 0 and k > 2:
            sigma[1] = sigma[0] * (1 - 10.0 ** rng.uniform(-9, -2))
        found.append((seed, k, sigma.tolist()))
    return found


@pytest.mark.parametrize("normalise", ["fit", "per-column"])
def test_no_column_is_further_off_than_the_report_says(normalise: str) -> None:
    for seed, k, sigma in spectra():
        result, off = fit(sigma, len(sigma), k, normalise, seed)
        assert result.state.stop == CONVERGED
        q = (sigma[k] / sigma[k - 1]) ** 2 if k < len(sigma) else 0.0
        # The stop rule accepts a change of 2 noise, and what is left of it is q/(1 - q) times that (test_svd.py); the
        # distance of unit vectors is at most sqrt(2) times the sine.
        left = 2 * float(result.state.product.noise.max()) * q / (1 - q) if result.state.product else 0.0
        rounding = len(sigma) * EPS * (sigma[0] / sigma[k - 1]) ** 2  # NumPy's own, and that of X^T X
        assert np.all(off <= np.sqrt(2) * result.errors + left + rounding), (seed, off, result.errors)


def test_rank_equal_to_d_goes_on_until_single_vectors_are_known() -> None:
    # The span of four columns is everything from the start. lambda_1/lambda_4 = 10^6: after one call the noise of v_4
    # is 10^6 units; in the end it is that of a column of unit length, over gaps of 8/9 and more.
    result, off = fit([1e3, 1e2, 3.0, 1.0], 4, 4, "per-column", seed=1)
    assert (result.state.stop, result.warnings) == (CONVERGED, [])
    assert np.all(off <= 4 * 3 * UNIT * (np.sqrt(4) + 4.0) * 9 / 8)


def test_rank_equal_to_d_is_not_called_converged_after_one_iteration() -> None:
    X = with_spectrum(60, 4, np.array([1e3, 1e2, 3.0, 1.0]))
    start = PowerState(start_by_seed(4, 4, 2, Alone()))
    normed = opened("per-column", np.random.default_rng(0))
    result = pd_svd(Fitting(GramMatrix(X), normed, Alone(), Clock()), start, SvdSettings(4, 1, 1e-6))
    assert result.state.change <= 4 * 4 * EPS  # the subspace
    assert result.state.stop != CONVERGED
    assert any("not converged" in warning for warning in result.warnings)


def test_fits_that_need_no_turning_take_no_more_iterations() -> None:
    """k < d and a spectrum without near ties: the number of iterations is the one after which the change is small."""
    sigma, k, tol = 2.0 ** -np.arange(8), 3, 1e-5
    X = with_spectrum(60, 8, sigma, 3)
    V = start_by_seed(8, k, 4, Alone())
    change, t = 1.0, 0
    while change >= tol:
        before, (V, _) = V, np.linalg.qr(X.T @ (X @ V))
        change, t = float(np.linalg.norm(before - V @ (V.T @ before), 2)), t + 1
    assert fit(sigma.tolist(), 8, k, "fit", 3, tol)[0].state.t == t


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_centred_basis_is_helmerts(k: int) -> None:
    np.testing.assert_array_equal(rayleigh_ritz._centred(k), helmert(k).T if k > 1 else np.zeros((1, 0)))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.05, 0.1, 1.0])
def test_groups_are_connected_components(share: float) -> None:
    pairs = np.random.default_rng(3).random((30, 30))
    _, label = connected_components(pairs > 1 - share, directed=False)
    found = groups(pairs, 1 - share)
    assert [label[members[0]] for members in found] == sorted(n for n in set(label) if np.sum(label == n) > 1)
    assert all(members == np.flatnonzero(label == label[members[0]]).tolist() for members in found)
