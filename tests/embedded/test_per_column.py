"""--normalise per-column: only directions are opened, and V holds singular vectors all the same."""

from __future__ import annotations

import numpy as np
import pytest

from pdml_spdz.algorithms.solver import CONVERGED
from pdml_spdz.numerics.linalg import fix_signs, sine
from tests.embedded.test_svd import noise
from tests.threads import Fit, fit
from tests.unit.test_svd import pooled, with_spectrum

SEED = 5


def fit_two(sigma: list[float], d: int, k: int, normalise: str = "per-column") -> tuple[Fit, np.ndarray]:
    """A fit of two parties, and all rows."""
    X = with_spectrum(60, d, np.array(sigma))
    fits = fit([X[:20], X[20:]], k, tau=60, tol=1e-7, seed=SEED, engine="embedded", normalise=normalise)
    np.testing.assert_array_equal(fits[0].result.V, fits[1].result.V)
    return fits[0], pooled([X])


def coupling(fitted: Fit, X: np.ndarray) -> float:
    """How far v_i.S v_j may be off, relative to the larger of lambda_i and lambda_j.

    Directions are known to `each`. So are their products h_ij = v_i.u_j, and the ratio of two norms from the first
    call, h_ij/h_ji, is off by `each` over the smaller of both; each of t further calls adds two such errors, over
    products that are at least as large as those of v_i with itself in the first call.
    """
    d = len(fitted.V0)
    SV = X.T @ (X @ fitted.V0)
    H = np.abs(fitted.V0.T @ (SV / np.linalg.norm(SV, axis=0)))
    each = noise(2, d, 31)
    return float(each * (1 + np.sqrt(2) * (1 + 2 * fitted.result.state.t) / H.min()))


@pytest.mark.parametrize("normalise", ["fit", "per-column"])
@pytest.mark.parametrize(
    "sigma", [[4.0, 3.0, 2.5, 1.0], [1e3, 31.0, 3.0, 1.0]], ids=["k = d", "k = d, norms 10^6 apart"]
)
def test_columns_are_singular_vectors_for_rank_d(sigma: list[float], normalise: str) -> None:
    fitted, X = fit_two(sigma, 4, 4, normalise)
    assert fitted.result.state.stop == CONVERGED
    assert fitted.result.warnings == []
    lambdas = np.array(sigma) ** 2
    larger, gaps = np.maximum.outer(lambdas, lambdas), np.abs(np.subtract.outer(lambdas, lambdas))
    turns = coupling(fitted, X) * np.divide(larger, gaps, out=np.zeros((4, 4)), where=gaps > 0)
    rounding = 40 * 4 * np.finfo(float).eps * lambdas[0] / lambdas[-1]
    off = np.linalg.norm(fix_signs(np.linalg.svd(X)[2].T) - fitted.result.V, axis=0)
    assert np.all(off <= turns.sum(axis=1) + rounding)
    assert np.all(off <= np.sqrt(2) * fitted.result.errors)  # and that is what the run says of itself


def test_equal_singular_values_are_told_from_the_others_and_named() -> None:
    fitted, X = fit_two([4.0, 3.0, 3.0, 1.0], 4, 4)
    V, V_k = fitted.result.V, np.linalg.svd(X)[2].T
    tolerance = coupling(fitted, X) * 16 / 7  # lambda_1 over the smallest gap of the groups, 16 - 9
    for group in ([0], [1, 2], [3]):
        assert sine(V_k[:, group], V[:, group]) <= 2 * tolerance
    # Any basis of a group is made of singular vectors.
    coupled = V.T @ (X.T @ (X @ V))
    assert np.abs(coupled - np.diag(np.diag(coupled))).max() <= 2 * 16 * tolerance
    assert np.all(np.diff(np.diag(coupled)) <= 16 * tolerance)  # largest first
    assert fitted.result.state.stop == CONVERGED
    assert [w[:20] for w in fitted.result.warnings] == ["columns 2, 3 of V ar"]


def test_rank_below_d_converges_to_the_subspace_and_its_vectors() -> None:
    fitted, X = fit_two([5.0, 4.5, 0.5, 0.2], 6, 2)
    V_k, q, each = fix_signs(np.linalg.svd(X)[2][:2].T), (0.5 / 4.5) ** 2, noise(2, 6, 31)
    angle = (max(1e-7, 2 * each) * q + 2 * np.sqrt(2) * each) / (1 - q)
    assert fitted.result.state.stop == CONVERGED
    assert sine(V_k, fitted.result.V) <= angle
    turn = coupling(fitted, X) * 25 / 4.75  # lambda_1 over the gap, 25 - 20.25
    assert np.linalg.norm(V_k - fitted.result.V, axis=0).max() <= 2 * (angle + turn)
