"""Local linear algebra: both forms of the covariance agree, and the choice between them is by cost."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from pdml_spdz.numerics.linalg import EPS, fix_signs, orthonormalise, qr_tolerance, sine
from pdml_spdz.rows.covariance import GramMatrix, GramOperator, covariance, covariance_around_own_mean

rng = np.random.default_rng(5)


@pytest.mark.parametrize(("d", "form"), [(3, "frobenius"), (60, "trace")])
def test_rows_around_their_own_mean_are_the_same_rows(d: int, form: str) -> None:
    X = np.random.default_rng(4).normal(size=(50, d)) + 10.0
    S, whole = covariance_around_own_mean(X, 2, 3), GramMatrix(X)
    assert S.measure == form
    V = np.eye(d)[:, :2]
    size = 8 * len(X) * EPS * whole.trace()
    np.testing.assert_allclose(S.times(V), whole.times(V), atol=size)
    np.testing.assert_allclose(S.trace(), whole.trace(), atol=size)
    bound = whole.norm_bound() if form == "frobenius" else whole.trace()
    np.testing.assert_allclose(S.norm_bound(), bound, atol=size)


@pytest.mark.parametrize("sparse", [False, True])
def test_matrix_and_operator_give_the_same_product_and_bound_the_norm(sparse: bool) -> None:
    X = rng.normal(size=(50, 20)) * (rng.random((50, 20)) < 0.3)
    rows = sp.csr_array(X) if sparse else X
    V = rng.normal(size=(20, 4))
    S = X.T @ X
    for form in (GramMatrix(rows), GramOperator(rows)):
        np.testing.assert_allclose(form.times(V), S @ V, rtol=0, atol=50 * EPS * np.linalg.norm(S) * 4)
        assert form.norm_bound() >= np.linalg.norm(S) * (1 - 50 * EPS)


@pytest.mark.parametrize(
    ("n", "d", "k", "tau", "form"),
    [(100_000, 50, 10, 300, GramMatrix), (50, 5_000, 3, 10, GramOperator), (10, 4_000, 5, 100, GramOperator)],
)
def test_the_cheaper_form_is_chosen(n: int, d: int, k: int, tau: int, form: type) -> None:
    assert isinstance(covariance(np.zeros((n, d)), k, tau), form)


def test_wide_sparse_rows_are_never_squared() -> None:
    X = sp.random_array((2_000, 30_000), density=1e-3, rng=rng, format="csr")
    assert isinstance(covariance(X, 10, 100), GramOperator)


@given(st.integers(1, 6), st.integers(0, 2**31))
def test_orthonormalise_is_unique_and_ignores_positive_column_scales(k: int, seed: int) -> None:
    local = np.random.default_rng(seed)
    Y = local.normal(size=(12, k))
    Y /= np.linalg.norm(Y, axis=0)
    Q, r = orthonormalise(Y)
    assert np.abs(Q.T @ Q - np.eye(k)).max() <= 20 * EPS
    scaled, _ = orthonormalise(Y * local.uniform(0.1, 10.0, size=k))
    assert np.all(np.abs(Q - scaled).max(axis=0) <= qr_tolerance(r, 12))
    np.testing.assert_allclose(np.sum(Q * Y, axis=0), r, rtol=0, atol=20 * EPS)  # positive diagonal


@given(st.integers(1, 4), st.integers(0, 2**31))
def test_sine_is_that_of_the_largest_principal_angle(k: int, seed: int) -> None:
    local = np.random.default_rng(seed)
    V, W = (np.linalg.qr(local.normal(size=(9, k)))[0] for _ in range(2))
    # scipy's angle comes from arcsin or arccos; both lose at most half the digits near their ends.
    assert abs(sine(V, W) - np.sin(subspace_angles(V, W).max())) <= np.sqrt(EPS)
    assert sine(V, V @ np.linalg.qr(local.normal(size=(k, k)))[0]) <= 20 * EPS


def test_signs_are_fixed_by_the_largest_entry() -> None:
    V = np.array([[0.6, -0.8], [-0.8, -0.6]])
    expected = np.array([[-0.6, 0.8], [0.8, 0.6]])
    np.testing.assert_array_equal(fix_signs(V), expected)
    np.testing.assert_array_equal(fix_signs(-V), expected)


@pytest.mark.parametrize("noise", [1e-16, 1e-12, 1e-8])
def test_signs_of_opposite_entries_are_those_of_the_first_whatever_rounding_says(noise: float) -> None:
    """Two categories of one column: their entries are opposite, and which is the larger one is rounding."""
    V = np.linalg.qr(np.array([[0.1, 0.0], [-0.5, 0.6], [0.5, -0.6], [0.2, 0.3]]))[0]
    for i, sign in ((1, 1.0), (2, 1.0), (1, -1.0), (2, -1.0)):
        near = sign * V
        near[i] *= 1.0 + noise
        found = fix_signs(near)
        assert np.all(found[1] > 0)
        assert np.all(found[2] < 0)


@pytest.mark.parametrize(("n", "d", "k"), [(1, 3, 1), (1000, 1500, 2), (400, 3000, 3), (50, 4000, 30)])
def test_products_by_blocks_of_rows_are_the_same(n: int, d: int, k: int) -> None:
    """One block, several with a rest, several, and rows too long for blocks."""
    rng = np.random.default_rng(n)
    X, V = rng.standard_normal((n, d)), rng.standard_normal((d, k))
    exact = X.T @ (X @ V)
    # Each sum of n d products is off by n d EPS of their sizes at most.
    allowed = n * d * np.finfo(float).eps * (np.abs(X).T @ (np.abs(X) @ np.abs(V)))
    form = GramOperator(X)
    form._threads = 1  # with many threads it does not cut rows into blocks
    assert np.all(np.abs(form.times(V) - exact) <= allowed)
