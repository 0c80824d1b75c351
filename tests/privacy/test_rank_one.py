"""Eigenvectors after one more row, against LAPACK on the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.privacy.rank_one import Eigen, top_after_row

D, K = 24, 5


def spectral(rng: np.random.Generator) -> np.ndarray:
    X = rng.normal(size=(80, D)) * np.geomspace(5, 0.05, D)
    return X.T @ X


CASES = {
    "full": lambda rng: spectral(rng),
    "rank 3": lambda rng: (X := rng.normal(size=(3, D))).T @ X,
    "zero": lambda rng: np.zeros((D, D)),
    "diagonal": lambda rng: np.diag(np.arange(D) + 1.0),
    "equal values": lambda rng: np.diag(np.repeat([3.0, 2.0, 1.0], D // 3)),
}
ROWS = {
    "dense": lambda rng: rng.normal(size=(3, D)),
    "tiny": lambda rng: 1e-9 * rng.normal(size=(3, D)),
    "huge": lambda rng: 1e5 * rng.normal(size=(3, D)),
    "zero": lambda rng: np.zeros((1, D)),
    "unit": lambda rng: 2.0 * np.eye(D)[[0, 5, D - 1]],
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=5, deadline=None)
def test_update_is_the_eigendecomposition_of_the_sum(case: str, rows: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, x = CASES[case](rng), ROWS[rows](rng)
    values, V = top_after_row(Eigen.of(S), x, K)
    for row, mu, basis in zip(x, values, V, strict=True):
        whole = S + np.outer(row, row)
        exact = np.linalg.eigvalsh(whole)[::-1][:K]
        scale = 100 * D * EPS * max(np.linalg.norm(whole, 2), 1e-300)
        assert np.abs(mu - exact).max() <= scale
        assert (
            np.abs(basis.T @ basis - np.eye(K)).max() <= 1e-9
        )  # eigenvectors of close values: to EPS/gap, still a basis
        assert np.abs(whole @ basis - basis * mu).max() <= scale  # what an eigenvector is, close values or not
