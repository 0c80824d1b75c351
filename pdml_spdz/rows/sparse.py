"""Rows of which only some entries are stored, in CSR."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import BLOCK, PIECE, Dense, Rows, Work

PIECES = 64  # of rows, in products that are added up: at most
PENALTY = 4.0  # a flop on sparse rows costs about this many dense ones


class Sparse(Rows):
    """matrix : of scipy.sparse; it is not copied if it is float64 and in CSR"""

    sparse = True

    def __init__(self, matrix: Any) -> None:
        self.matrix = sp.csr_array(matrix, dtype=np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.matrix.shape
        return int(n), int(d)

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        n, d = self.shape
        rows = max(1, numbers // max(d, 1))
        return (self.matrix[i : i + rows].toarray() for i in range(0, n, rows))

    def stored(self) -> Iterator[Reals]:
        yield self.matrix.data

    def dense(self) -> Reals:
        array: Reals = self.matrix.toarray()
        return array

    def csr(self) -> sp.csr_array:
        return self.matrix

    unwrapped = operator = csr

    def __getitem__(self, rows: Any) -> Sparse:
        return Sparse(self.matrix[rows])

    def columns(self, order: Sequence[int] | NDArray[np.int64]) -> Sparse:
        chosen = sp.csr_array(self.matrix[:, np.asarray(order)])
        chosen.sort_indices()  # as a file in this order would have them: the digest is the same
        return Sparse(chosen)

    def shifted(self, mu: Reals) -> Rows:
        return Dense(self.dense() - mu)

    def less(self, mu: Reals) -> tuple[Sparse, Reals]:
        """Columns of which more than half is stored are stored whole, less mu. The mean of any other is no larger than
        its deviation: taken off later, it leaves no more rounding than there was.
        """
        n, d = self.shape
        full = 2 * np.bincount(self.matrix.indices, minlength=d) > n  # an entry may be stored in parts; no matter
        if not np.any(full):
            return self, mu
        return Sparse(stored_whole(self.matrix, full, mu)), np.where(full, 0.0, mu)

    def over(self, scale: Reals | float) -> Sparse:
        return Sparse(self._over(scale)) if np.ndim(scale) == 2 else OverScale(self, scale)

    def _over(self, scale: Reals | float) -> Any:
        return self.matrix.multiply(1.0 / np.asarray(scale, np.float64))

    def times(self, V: Reals) -> Reals:
        return np.asarray(self.matrix @ V)

    @cached_property
    def _transposed(self) -> Any:
        """Of the same arrays. Making it takes as long as a product with a column of a thousand rows."""
        return self.matrix.T

    def transposed_times(self, W: Reals) -> Reals:
        return np.asarray(self._transposed @ W)

    def _pieces(self) -> Iterator[sp.csr_array]:
        """Some thousand rows at a time: sums over all of them, one row after another, would be rounded as often."""
        n = self.shape[0]
        size = max(PIECE, -(-n // PIECES))
        return iter([self.matrix]) if n <= size else (self.matrix[i : i + size] for i in range(0, n, size))

    def gram(self) -> Reals:
        S: Reals = sum(piece.T @ piece for piece in self._pieces()).toarray()
        return S

    def gram_times(self, V: Reals) -> Reals:
        return np.asarray(sum(piece.T @ (piece @ V) for piece in self._pieces()))

    def work(self) -> Work:
        row_sizes = np.diff(self.matrix.indptr).astype(np.float64)
        return Work(PENALTY * float(row_sizes @ row_sizes), PENALTY * 4.0 * self.matrix.nnz)

    def column_sums(self) -> Reals:
        return sums_of(self.matrix)

    def column_squares(self, mu: Reals | None = None) -> Reals:
        if mu is None:
            return sums_of(self.matrix.multiply(self.matrix).tocsr())
        n, d = self.shape
        stored = self.matrix
        if not stored.has_canonical_format:
            stored = stored.copy()
            stored.sum_duplicates()
        squares = np.zeros(d)
        for a, b in itertools.pairwise(stored.indptr[[*range(0, n, PIECE), n]]):
            columns = stored.indices[a:b]
            squares += np.bincount(columns, (stored.data[a:b] - mu[columns]) ** 2, d)
        return squares + (n - np.bincount(stored.indices, minlength=d)) * mu**2

    def row_squares(self) -> Reals:
        return np.asarray(self.matrix.multiply(self.matrix).sum(axis=1), np.float64).reshape(-1)

    @property
    def nbytes(self) -> int:
        parts = (self.matrix.data, self.matrix.indices, self.matrix.indptr)
        return sum(int(array.nbytes) for array in parts)

    @property
    def nonzero(self) -> int:
        return int(self.matrix.nnz)

    def present(self) -> sp.csr_array:
        found = self.matrix.astype(bool)
        found.eliminate_zeros()
        return found

    def digested(self) -> Iterator[Any]:
        yield self.matrix


def sums_of(matrix: Any) -> Reals:
    """(d,): of its columns, some thousand rows after another."""
    n, d = matrix.shape
    total = np.zeros(d)
    for i in range(0, n, PIECE):
        total += np.asarray((matrix[i : i + PIECE] if n > PIECE else matrix).sum(axis=0), np.float64).reshape(-1)
    return total


def stored_whole(matrix: Any, full: NDArray[np.bool_], mu: Reals) -> sp.csr_array:
    """The same rows, of which the columns `full` are less mu and have all entries stored."""
    by_column = matrix.tocsc()
    whole = sp.csc_array(by_column[:, full].toarray() - mu[full])
    order = np.argsort(np.concatenate([np.flatnonzero(~full), np.flatnonzero(full)]))
    return sp.csr_array(sp.hstack([by_column[:, ~full], whole], format="csc")[:, order])


class OverScale(Sparse):
    """Rows over scales, feature by feature. A mean is taken off the rows as they came, as in `base.Moved`."""

    def __init__(self, rows: Sparse, scale: Reals | float) -> None:
        super().__init__(rows._over(scale))
        self._rows, self._scale = rows, scale

    def shifted(self, mu: Reals) -> Rows:
        return self._rows.shifted(mu * self._scale).over(self._scale)

    def column_squares(self, mu: Reals | None = None) -> Reals:
        inner = self._rows.column_squares(None if mu is None else mu * self._scale)
        return inner / np.square(self._scale)

    def less(self, mu: Reals) -> tuple[Sparse, Reals]:
        whole: Reals = mu * self._scale
        rows, left = self._rows.less(whole)
        if rows is self._rows:
            return self, mu
        return rows.over(self._scale), np.where(left == whole, mu, left / self._scale)

    def over(self, scale: Reals | float) -> Sparse:
        return super().over(scale) if np.ndim(scale) == 2 else OverScale(self._rows, self._scale * scale)
