"""Rows: every kind does what NumPy would do, nothing is copied or filled on the way, and another kind is one class."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import pdml_spdz
from pdml_spdz.algorithms.rri import part
from pdml_spdz.applications.low_rank import coordinates, reconstruction
from pdml_spdz.errors import InputError
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import BLOCK, Dense, Rows, added_up, as_rows, stacked
from pdml_spdz.rows.covariance import GramMatrix, GramOperator, centred_covariance, covariance_around_own_mean
from pdml_spdz.rows.data import Data, from_rows
from pdml_spdz.rows.present import present
from pdml_spdz.rows.sparse import Sparse
from pdml_spdz.study.model import NmfSettings

PACKAGE = Path(pdml_spdz.__file__).parent
KINDS_OF_SCIPY = {"csr_array", "csr_matrix", "sparray", "spmatrix", "coo_array"}


class Listed(Rows):
    """A kind of rows from outside of the package: a list of arrays."""

    def __init__(self, tables: list[np.ndarray]) -> None:
        self.tables = tables

    @property
    def shape(self) -> tuple[int, int]:
        return sum(map(len, self.tables)), self.tables[0].shape[1]

    def blocks(self, numbers: int = BLOCK) -> Iterator[np.ndarray]:
        return iter(self.tables)


def numbers(n: int = 40, d: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.7, size=(n, d)) * (rng.random((n, d)) < 0.6)


def listed(X: np.ndarray) -> Listed:
    return Listed([X[:1], X[1:7], X[7:]])


KINDS = pytest.mark.parametrize(
    "make", [as_rows, lambda X: as_rows(sp.csr_array(X)), listed], ids=["dense", "sparse", "listed"]
)


def close(found: Any, true: Any, X: np.ndarray) -> None:
    """Sums of at most n + d products, each of entries of at most 10 times X's largest."""
    size = 10.0 * max(1.0, float(np.abs(X).max())) ** 2
    np.testing.assert_allclose(found, true, rtol=0, atol=4 * sum(X.shape) ** 2 * EPS * size)


@KINDS
def test_products_and_sums_are_those_of_the_array(make: Any) -> None:
    X, rng = numbers(), np.random.default_rng(1)
    rows, (n, d) = make(X), X.shape
    V, W, mu = rng.random((d, 3)), rng.random((n, 2)), rng.random(d)
    assert rows.shape == (n, d)
    np.testing.assert_array_equal(rows.dense(), X)
    np.testing.assert_array_equal(rows.csr().toarray(), X)
    np.testing.assert_array_equal(rows.present().toarray(), X != 0)
    np.testing.assert_array_equal(np.concatenate([*rows.blocks(d)]), X)
    assert all(np.array_equal(block, X[place]) for place, block in rows.numbered_blocks(3 * d))
    close(rows.times(V), X @ V, X)
    close(rows.times(mu), X @ mu, X)
    close(rows.transposed_times(W), X.T @ W, X)
    close(rows.transposed_times(W[:, 0]), X.T @ W[:, 0], X)
    close(rows.gram(), X.T @ X, X)
    close(rows.gram_times(V), X.T @ (X @ V), X)
    close(sla.aslinearoperator(rows.operator()).rmatvec(W[:, 0]), X.T @ W[:, 0], X)
    close(rows.column_sums(), X.sum(axis=0), X)
    close(rows.column_squares(), (X**2).sum(axis=0), X)
    close(rows.column_squares(mu), ((X - mu) ** 2).sum(axis=0), X)
    close(rows.row_squares(), (X**2).sum(axis=1), X)
    close(rows.squares(), float(np.sum(X**2)), X)
    assert rows.nonzero == np.count_nonzero(X)
    assert sum(float(values.sum()) for values in rows.stored()) == pytest.approx(X.sum())


@KINDS
def test_parts_and_changed_rows_are_those_of_the_array(make: Any) -> None:
    X, rng = numbers(), np.random.default_rng(2)
    rows, (n, d) = make(X), X.shape
    mu, by_column, by_row = rng.random(d), 1.0 + rng.random(d), 1.0 + rng.random((n, 1))
    for chosen in (slice(3, 11), np.array([9, 2, 2, 30]), [5]):
        np.testing.assert_array_equal(rows[chosen].dense(), X[chosen])
    np.testing.assert_array_equal(rows.columns([4, 0]).dense(), X[:, [4, 0]])
    np.testing.assert_array_equal(rows.shifted(mu).dense(), X - mu)
    for scale in (by_column, by_row, 2.5):
        close(rows.over(scale).dense(), X / scale, X)
    # What was changed is rows again.
    close(
        rows.shifted(mu).over(by_column).columns([1, 2]).gram(), *(Z.T @ Z for Z in [((X - mu) / by_column)[:, 1:3]]), X
    )
    close(stacked([rows, X]).dense(), np.vstack([X, X]), X)


@KINDS
def test_covariances_and_applications_take_every_kind(make: Any) -> None:
    X = numbers()
    V, mu = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 2)))[0], X.mean(axis=0)
    C = (X - mu).T @ (X - mu)
    for S in (GramMatrix(make(X)), GramOperator(make(X)), covariance_around_own_mean(make(X), 2, 9)):
        close(S.times(V), X.T @ X @ V, X)
        close(S.trace(), np.sum(X**2), X)
    close(centred_covariance(make(X), mu, 2, 9).times(V), C @ V, X)
    close(coordinates(make(X), V, mu), (X - mu) @ V, X)
    close(reconstruction(make(X), V).total, np.sum((X - X @ V @ V.T) ** 2), X)


@KINDS
def test_the_digest_is_of_the_numbers_and_not_of_how_they_came(make: Any) -> None:
    X = numbers()
    straight, turned = Data(make(X), None, "x"), Data(make(X[:, ::-1]), None, "x").permuted(np.arange(6)[::-1])
    assert straight.digest(b"salt") == turned.digest(b"salt")
    assert straight.digest(b"salt") != Data(make(X + (X != 0)), None, "x").digest(b"salt")


def test_the_digest_of_blocks_is_that_of_the_whole() -> None:
    X = numbers()
    assert Data(listed(X), None, "x").digest(b"") == Data(as_rows(X), None, "x").digest(b"")


def test_rows_are_not_copied() -> None:
    X, S = numbers(), sp.csr_array(numbers())
    turned = np.asfortranarray(X)
    assert as_rows(X).dense() is X
    assert as_rows(turned).dense() is turned
    assert from_rows(X, "x").X is X
    assert np.shares_memory(as_rows(X)[3:9].dense(), X)
    assert all(np.shares_memory(block, X) for block in as_rows(X).blocks(12))
    for matrix in (as_rows(S).csr(), from_rows(S, "x").X, part(S, 2).X.csr(), part(S, 2, weighted=True).X):  # type: ignore[attr-defined]
        assert np.shares_memory(matrix.data, S.data)
    rows = as_rows(X)
    assert as_rows(rows) is rows


def test_sparse_rows_stay_sparse() -> None:
    rows = as_rows(sp.csr_array(numbers()))
    for made in (rows, rows[2:5], rows.columns([1, 3]), rows.over(2.0), stacked([rows, numbers()])):
        assert isinstance(made, Sparse)
    assert isinstance(rows.shifted(np.ones(6)), Dense)
    assert isinstance(rows.csr(), sp.csr_array)


def test_a_mean_is_taken_off_columns_that_are_mostly_stored() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 5)) + 9.0
    X[:30, 1] = X[:20, 3] = 0.0  # 20 and 30 of 50 are left
    mu, n = X.mean(axis=0), len(X)
    moved, left = as_rows(sp.csr_array(X)).less(mu)
    assert moved.sparse
    np.testing.assert_array_equal(left, mu * [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(moved.dense(), X - (mu - left))
    V, size = rng.normal(size=(5, 2)), float(np.sum(X * X))
    for S in (covariance_around_own_mean(sp.csr_array(X), 2, 10), covariance_around_own_mean(X, 2, 10)):
        np.testing.assert_allclose(S.times(V), X.T @ (X @ V), rtol=0, atol=n * EPS * size)
        assert S.norm_bound() >= np.linalg.norm(X.T @ X) * (1 - n * EPS)
    centred = centred_covariance(sp.csr_array(X), mu, 2, 10)
    np.testing.assert_allclose(centred.times(V), (X - mu).T @ ((X - mu) @ V), rtol=0, atol=n * EPS * size)


def test_sums_over_many_sparse_rows_are_those_of_their_pieces() -> None:
    X = sp.random(9000, 6, 0.4, random_state=np.random.default_rng(2), format="csr")
    rows, dense = as_rows(X), X.toarray()
    V = np.eye(6)[:, :2]
    for found, wanted in (
        (rows.gram(), dense.T @ dense),
        (rows.gram_times(V), dense.T @ (dense @ V)),
        (rows.column_sums(), dense.sum(axis=0)),
    ):
        np.testing.assert_allclose(found, wanted, rtol=9000 * EPS)


NOT_FINITE = {
    np.nan: r"missing values: column 3 1 \(.*in row 9\)",
    np.inf: r"not finite \(the first in row 9, column 3\)",
}


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_an_entry_that_is_not_finite_is_found_in_any_block(bad: float) -> None:
    X = numbers()
    X[8, 2] = bad
    with pytest.raises(InputError, match=NOT_FINITE[bad]):
        from_rows(listed(X), "x")


def both(tables: list[np.ndarray], **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The result with the rows as arrays, and as lists of arrays."""
    study = local_study(len(tables), rank=2, engine="plain", tol=0.0, **settings)
    dense, other = (run_in_threads(given, study) for given in (tables, [listed(X) for X in tables]))
    return dense.V, other.V


@pytest.mark.parametrize("settings", [{"algorithm": "svd"}, {"algorithm": "pca", "centre": "open", "scale": "secsum"}])
def test_another_kind_of_rows_has_the_singular_vectors_of_dense_ones(settings: dict[str, str]) -> None:
    tables = [numbers(40, 6, seed) * [9, 7, 5, 3, 2, 1] for seed in range(3)]
    dense, other = both(tables, iterations=60, seed=1, start="seed", **settings)
    # Rounding of S, relative to its largest eigenvalue, over the gaps of the others, which are above 1/100 of it here.
    np.testing.assert_allclose(other, dense, rtol=0, atol=100 * 120 * 6 * EPS)


@pytest.mark.parametrize("settings", [{"scale": "secsum"}, {"scales": (0.3, 0.7, 1.1)}, {"offsets": (7.0, 1e8, -3.0)}])
def test_a_mean_far_above_the_deviations_costs_another_kind_of_rows_no_digits(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    X = 1e8 + np.round(rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3)), 1)
    dense, other = both(np.split(X, 3), algorithm="pca", iterations=40, seed=1, start="seed", **settings)
    # Rounding relative to the mean would be 1e8 times as much.
    np.testing.assert_allclose(other, dense, rtol=0, atol=100 * 300 * 3 * EPS)


@pytest.mark.parametrize("init", ["pd", "random", "nnsvd"])
def test_another_kind_of_rows_has_the_topics_of_dense_ones(init: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda bits: 7)  # the same start twice
    tables = [numbers(40, 6, seed) for seed in range(3)]
    dense, other = both(tables, algorithm="nmf", iterations=30, nmf=NmfSettings(init=init))
    # A sweep rounds sums of 120 x 6 products, and brings T no further from where it would have gone.
    np.testing.assert_allclose(other, dense, rtol=0, atol=30 * 120 * 6 * EPS)


def test_only_rows_tell_kinds_of_rows_apart() -> None:
    found = []
    for path in sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "benchmarks").rglob("*.py")]):
        if path.is_relative_to(PACKAGE / "rows"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if asks_for_the_kind(node, arrays=path.parent.name not in ("transport", "study")):
                found.append(f"{path.relative_to(PACKAGE.parent)}:{node.lineno}")  # type: ignore[attr-defined]
    assert found == []


def asks_for_the_kind(node: ast.AST, *, arrays: bool) -> bool:
    """arrays : whether what is or is not an array may be rows; it is not in a message, or in a study's settings"""
    called = {"issparse", "isspmatrix", "isspmatrix_csr"}
    if getattr(node, "attr", getattr(node, "id", "")) in called:
        return True
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "hasattr")
    ):
        return False
    kinds = KINDS_OF_SCIPY | {"Dense", "Sparse", "tocsr", "toarray", "nnz"} | ({"ndarray"} if arrays else set())
    parts = [*ast.walk(node.args[1])]
    return any(getattr(part, "attr", getattr(part, "id", getattr(part, "value", ""))) in kinds for part in parts)


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("sp.issparse(X)", True),
        ("from scipy.sparse import issparse\nissparse(X)", True),
        ("isinstance(X, sp.csr_array | np.ndarray)", True),
        ("isinstance(X, Sparse)", True),
        ('hasattr(X, "tocsr")', True),
        ("isinstance(X, str)", False),
        ("sp.csr_array(X).tocsr()", False),
    ],
)
def test_the_search_finds_what_it_is_for(line: str, asks: bool) -> None:
    assert any(asks_for_the_kind(node, arrays=True) for node in ast.walk(ast.parse(line))) == asks


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_sums_of_many_rows_of_few_values_are_rounded_no_more_than_is_reckoned_with(make: Any) -> None:
    """Equal numbers, added up one after another, are all rounded in the same direction."""
    X = (np.random.default_rng(3).random((200_000, 3)) < [0.3, 0.1, 0.013]) * np.array([1.0, 0.1, 1000.0])
    mu, rows = X.mean(axis=0), as_rows(make(X))
    for found, exact in (
        (rows.column_sums(), X),
        (rows.column_squares(), X**2),
        (rows.column_squares(mu), (X - mu) ** 2),
        (rows.over(np.full(3, 0.7)).column_squares(mu / 0.7), ((X - mu) / 0.7) ** 2),
    ):
        wanted = np.array([math.fsum(column) for column in exact.T])
        np.testing.assert_allclose(found, wanted, rtol=(added_up(len(X)) / 2 + 4) * EPS)  # half a unit each


def test_sparse_rows_over_scales_around_their_own_mean_are_the_same_rows() -> None:
    """Whichever scales: what is taken off, and what is not, is told apart without looking at rounded numbers."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 6)) + 3.0
    X[:, 3:] *= rng.random((40, 3)) < 0.2
    V, exact = np.eye(6), X.astype(np.longdouble)
    for _ in range(100):
        scales = rng.uniform(0.5, 2.0, 6)
        wanted = ((exact / scales).T @ (exact / scales)).astype(np.float64)
        found = covariance_around_own_mean(as_rows(sp.csr_array(X)).over(scales), 2, 10).times(V)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * len(X) * EPS * np.abs(wanted).max())


def test_sums_of_few_values_far_from_a_mean_are_those_of_the_values_alone() -> None:
    """One in 100,000 rows: what stands for the others must not cost it its digits."""
    X = np.full((100_000, 2), np.nan)
    X[7], X[8, 1] = 123.456, -0.3
    there, mu = ~np.isnan(X), np.array([0.1, 1e-3])
    found = present(Data(Dense(X), None, "few", holes=True), np.nansum(X, axis=0)).rows.sums_less(mu)
    wanted = [math.fsum(column[kept] - m) for column, kept, m in zip(X.T, there.T, mu, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=4 * EPS)
