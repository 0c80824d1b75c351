"""What all code asks of a party's rows, whatever they are kept in, and rows of whatever a caller has.

A kind of rows is one class: `shape` and `blocks` are enough, everything else follows from them, block by block, and is
overridden where the kind has a faster way. `Dense` and `sparse.Sparse` are such kinds. Functions take rows of any kind
as they are; for the command line there is a reader of its files (`formats.READERS`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.shift import Shift
from pdml_spdz.rows.digests import Groups, group_digest

BLOCK = 1 << 20  # numbers that are looked at together
PIECE = 4096  # rows whose columns are added up one after another: sums of all rows would be rounded as often as that


class Work(NamedTuple):
    """About how long things take, in flops on dense arrays.

    gram : X^T X; column : X^T (X v) for one column; product : what X^T (X V) takes besides, however many columns V has
    """

    gram: float
    column: float
    product: float = 0.0


class Rows(ABC):
    """X of shape (n, d), float64. Nothing here changes X: what is made of it is other rows.

    sparse : what is not stored is zero, so that taking a vector off every row would fill them
    lazy : they have not been looked at yet: what is wrong with them is found in the first pass
    ndim, dtype : as those of an array
    """

    sparse = False
    lazy = False
    ndim = 2
    dtype = np.dtype(np.float64)
    __iter__ = None  # `blocks` goes through them: one by one would take hours, and arrays are made so by accident

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, d)"""

    @abstractmethod
    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        """All rows in their order, some at a time: arrays of about so many numbers, each of one row or more.

        Rows that are kept in blocks come in those.
        """

    def numbered_blocks(self, numbers: int = BLOCK) -> Iterator[tuple[slice, Reals]]:
        """The same, and which rows they are."""
        first = 0
        for block in self.blocks(numbers):
            yield slice(first, first + len(block)), block
            first += len(block)

    def stored(self) -> Iterator[Reals]:
        """Arrays of whatever shape with all entries, but for those that are zero since they are not stored."""
        return self.blocks()

    def dense(self) -> Reals:
        """X as one array."""
        whole = np.empty(self.shape)
        for rows, block in self.numbered_blocks():
            whole[rows] = block
        return whole

    def csr(self) -> Any:
        """X as a CSR array of scipy.sparse."""
        import scipy.sparse as sp

        return sp.csr_array(sp.vstack([sp.csr_array(block) for block in self.blocks()]))

    def unwrapped(self) -> Any:
        """X as other libraries take it: an array, or a CSR array."""
        return self.dense()

    def operator(self) -> Any:
        """X as scipy.sparse.linalg takes it."""
        import scipy.sparse.linalg as sla

        X, Xt = self.times, self.transposed_times
        return sla.LinearOperator(self.shape, matvec=X, rmatvec=Xt, matmat=X, rmatmat=Xt, dtype=np.float64)

    def __getitem__(self, rows: Any) -> Rows:
        """Some of the rows, by a slice or by their numbers."""
        numbers = np.arange(self.shape[0])[rows]
        chosen = np.empty((len(numbers), self.shape[1]))
        for place, block in self.numbered_blocks():
            here = (place.start <= numbers) & (numbers < place.stop)
            chosen[here] = block[numbers[here] - place.start]
        return Dense(chosen)

    def selected(self, numbers: NDArray[np.int64]) -> Rows:
        """The rows of these numbers, which go up, of the same kind."""
        return self[numbers]

    def columns(self, order: Sequence[int] | NDArray[np.int64]) -> Rows:
        """Column order[j] comes to place j."""
        chosen = np.asarray(order)
        return Mapped(self, len(chosen), lambda block, _: block[:, chosen])

    def shifted(self, mu: Reals) -> Rows:
        """X - 1 mu^T: of sparse rows, dense ones."""
        return MovedBlocks(self, Shift.of(mu), 1.0)

    def less(self, mu: Reals) -> tuple[Rows, Reals]:
        """X less mu as far as that leaves sparse rows sparse, and what of mu is left to be taken off."""
        return self.shifted(mu), np.zeros_like(mu)

    def sums_less(self, mu: Reals) -> Reals:
        """(d,): the sums of x - mu."""
        rows, left = self.less(mu)
        sums: Reals = rows.column_sums() - self.shape[0] * left
        return sums

    def over(self, scale: Reals | float) -> Rows:
        """X / scale: a number, one for each column (d,), or one for each row (n, 1)."""
        by = np.asarray(scale, np.float64)
        if by.ndim < 2:
            return MovedBlocks(self, None, by)
        return Mapped(self, self.shape[1], lambda block, rows: block / by[rows])

    def filled(self, values: Reals) -> Rows:
        """X with values[j] where an entry of column j is missing (NaN)."""
        return Mapped(self, self.shape[1], lambda block, _: np.where(np.isnan(block), values, block))

    def filler(self, values: Reals) -> Rows:
        """One row of what `filled` would put there."""
        return Dense(np.array(values)[None])

    def times(self, V: Reals) -> Reals:
        """X V, for V of shape (d, k) or (d,)."""
        product = np.empty((self.shape[0], *V.shape[1:]))
        for rows, block in self.numbered_blocks():
            product[rows] = block @ V
        return product

    def transposed_times(self, W: Reals) -> Reals:
        """X^T W, for W of shape (n, k) or (n,)."""
        total = np.zeros((self.shape[1], *W.shape[1:]))
        for rows, block in self.numbered_blocks():
            total += block.T @ W[rows]
        return total

    def gram(self) -> Reals:
        """X^T X of shape (d, d)."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for block in self.blocks():
            total += block.T @ block
        return total

    def gram_times(self, V: Reals) -> Reals:
        """X^T (X V)."""
        total = np.zeros(V.shape)
        for block in self.blocks():
            total += block.T @ (block @ V)
        return total

    def work(self) -> Work:
        """About how long `gram` and `gram_times` take."""
        n, d = self.shape
        return Work(float(n) * d * d, 4.0 * n * d)

    def expect(self, columns: int, calls: int) -> None:
        """So many calls of `gram_times` will come, each with so many columns, if nobody forms X^T X: a hint."""
        return

    def follow(self, progress: Callable[[int, int], None]) -> None:
        """Tell of long passes: how many pieces of how many are done."""
        return

    def close(self) -> None:
        """They are not asked for anything any more."""
        return

    def column_sums(self) -> Reals:
        """(d,)"""
        return sum(map(summed, self.blocks()), np.zeros(self.shape[1]))

    def column_squares(self, mu: Reals | None = None) -> Reals:
        """(d,): the sums of (x - mu)^2."""
        total = np.zeros(self.shape[1])
        for block in self.blocks():
            total += summed(np.square(block) if mu is None else np.square(moved := block - mu, out=moved))
        return total

    def row_squares(self) -> Reals:
        """(n,): the squared length of every row."""
        lengths = np.empty(self.shape[0])
        for rows, block in self.numbered_blocks():
            lengths[rows] = np.sum(block * block, axis=1)
        return lengths

    def squares(self) -> float:
        """||X||_F^2"""
        return sum(float(np.vdot(values, values)) for values in self.stored())

    @property
    def nbytes(self) -> int:
        return 8 * self.shape[0] * self.shape[1]

    @property
    def nonzero(self) -> int:
        return sum(int(np.count_nonzero(values)) for values in self.stored())

    @property
    def negative(self) -> int:
        """How many entries are below zero."""
        return sum(int(np.count_nonzero(values < 0)) for values in self.stored())

    @property
    def largest(self) -> float:
        """The largest entry that is stored; -inf if none is."""
        return max((float(np.max(values)) for values in self.stored() if values.size), default=-np.inf)

    def sample(self) -> Rows:
        """The rows, or the first of them, where all would have to be read for it."""
        return self

    def present(self) -> Any:
        """(n, d): where X is not zero, as a CSR array of booleans."""
        import scipy.sparse as sp

        return sp.csr_array(sp.vstack([sp.csr_array(block != 0) for block in self.blocks()]))

    def group_digests(self) -> Iterator[bytes]:
        """Digests of fixed groups of rows, the same for the same rows, whatever they are kept in blocks of."""
        groups = Groups(0, self.shape[1])
        for block in self.digested():
            groups.add(block)
        digests, parts = groups.end()
        return (digest for _, digest in [*digests, *((n, group_digest([content])) for n, _, content in parts)])

    def digested(self) -> Iterator[Any]:
        """The rows, some at a time, as what is digested: arrays, or CSR."""
        return self.blocks()


class Mapped(Rows):
    """Rows that are made of others, block by block, whenever they are used."""

    def __init__(self, inner: Rows, d: int, change: Callable[[Reals, slice], Reals]) -> None:
        self._inner, self._change = inner, change
        self._shape = inner.shape[0], d

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        return (self._change(block, rows) for rows, block in self._inner.numbered_blocks(numbers))


class PutTogether(Rows):
    """(rows - shift) / scale, feature by feature. What is taken off, divided by or filled in later is put together with
    these, and the rows as they came are gone through again: one after the other, a mean that is large beside the
    deviations would cost them digits.
    """

    _rows: Rows
    _shift: Shift | None
    _scale: Reals | float

    @abstractmethod
    def _made(self, rows: Rows, shift: Shift | None, scale: Reals | float) -> Rows:
        """Rows of the same kind."""

    def _and(self, mu: Reals) -> Shift:
        return Shift.of(mu * self._scale, self._shift)

    def shifted(self, mu: Reals) -> Rows:
        return self._made(self._rows, self._and(mu), self._scale)

    def over(self, scale: Reals | float) -> Rows:
        return super().over(scale) if np.ndim(scale) == 2 else self._made(self._rows, self._shift, self._scale * scale)

    def filled(self, values: Reals) -> Rows:
        return self._made(self._rows.filled(self._and(values).nearest()), self._shift, self._scale)

    def filler(self, values: Reals) -> Rows:
        return MovedBlocks(Dense(self._and(values).nearest()[None]), self._shift, self._scale)

    def column_squares(self, mu: Reals | None = None) -> Reals:
        return super().column_squares() if mu is None else self._around(mu).column_squares()

    def _around(self, mu: Reals) -> Rows:
        return MovedBlocks(self._rows, self._and(mu), self._scale)


class MovedBlocks(PutTogether):
    """Of any kind of rows, block by block, whenever they are used."""

    def __init__(self, rows: Rows, shift: Shift | None, scale: Reals | float) -> None:
        self._rows, self._shift, self._scale = rows, shift, scale

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        return (moved(block, self._shift, self._scale) for block in self._rows.blocks(numbers))

    def _made(self, rows: Rows, shift: Shift | None, scale: Reals | float) -> Rows:
        return MovedBlocks(rows, shift, scale)


def moved(rows: Reals, shift: Shift | None, scale: Reals | float) -> Reals:
    """(rows - shift) / scale, as other numbers."""
    if shift is None:
        found: Reals = rows / scale
    else:
        found = shift.off(rows)
        found /= scale
    return found


# With a few columns BLAS spends most of a product on rearranging the rows, unless it is so small that it does without:
# then block after block, each in the cache for both of its products, takes less time on one or two threads.
SMALL_PRODUCT = 900_000  # multiplications
FEWEST_ROWS = 6  # of a block: adding up (d, k) for every block must not cost more than it gains


class Dense(Rows):
    """array : (n, d), float64, of whatever order; it is not copied"""

    def __init__(self, array: Reals) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        return self._slices(max(1, numbers // max(self.shape[1], 1)))

    def _slices(self, rows: int) -> Iterator[Reals]:
        return (self.array[i : i + rows] for i in range(0, len(self.array), rows))

    def stored(self) -> Iterator[Reals]:
        yield self.array

    def dense(self) -> Reals:
        return self.array

    operator = dense

    def csr(self) -> Any:
        import scipy.sparse as sp

        return sp.csr_array(self.array)

    def __getitem__(self, rows: Any) -> Dense:
        return Dense(self.array[rows])

    def columns(self, order: Sequence[int] | NDArray[np.int64]) -> Dense:
        return Dense(np.ascontiguousarray(self.array[:, np.asarray(order)]))

    def shifted(self, mu: Reals) -> Rows:
        return Moved(self, Shift.of(mu), 1.0)

    def over(self, scale: Reals | float) -> Rows:
        return Dense(self.array / scale) if np.ndim(scale) == 2 else Moved(self, None, scale)

    def filled(self, values: Reals) -> Rows:
        return Dense(np.where(np.isnan(self.array), values, self.array))

    def times(self, V: Reals) -> Reals:
        return self.array @ V

    def transposed_times(self, W: Reals) -> Reals:
        return self.array.T @ W

    def gram(self) -> Reals:
        return self.array.T @ self.array

    def gram_times(self, V: Reals) -> Reals:
        rows = SMALL_PRODUCT // V.size
        if rows < FEWEST_ROWS or self._threads > 2:
            return self.array.T @ (self.array @ V)
        product = np.zeros(V.shape)
        for block in self._slices(rows):
            product += block.T @ (block @ V)
        return product

    @cached_property
    def _threads(self) -> int:
        """Of BLAS, at most."""
        return max((library["num_threads"] for library in threadpool_info()), default=1)


class Moved(PutTogether, Dense):
    """Of an array, as another array."""

    def __init__(self, rows: Dense, shift: Shift | None, scale: Reals | float) -> None:
        Dense.__init__(self, moved(rows.array, shift, scale))
        self._rows, self._shift, self._scale = rows, shift, scale

    def _made(self, rows: Rows, shift: Shift | None, scale: Reals | float) -> Rows:
        assert isinstance(rows, Dense)
        return Moved(rows, shift, scale)


RowsLike: TypeAlias = Any  # Rows, or what `as_rows` makes them of: an array, or a matrix of scipy.sparse


def is_sparse(given: RowsLike) -> bool:
    """Whether it is a matrix of scipy.sparse, which takes a tenth of a second to load and is not loaded for others."""
    return hasattr(given, "tocsr")


def as_rows(given: RowsLike, *, order: Literal["K", "C"] = "K") -> Rows:
    """An array, or anything that makes one, or a matrix of scipy.sparse as rows; rows of any kind as they are.

    What is float64 already (and in CSR, if it is sparse) is not copied; order : as of `numpy.asarray`
    """
    if isinstance(given, Rows):
        return given
    if is_sparse(given):
        from pdml_spdz.rows.sparse import Sparse

        return Sparse(given)
    return Dense(np.asarray(given, np.float64, order=order))


def summed(block: Reals) -> Reals:
    """The sums of its columns, some thousand rows after another."""
    return sum((block[i : i + PIECE].sum(axis=0) for i in range(0, len(block), PIECE)), np.zeros(block.shape[1]))


def added_up(n: int) -> int:
    """Of how many numbers, one after another, the sum of a column of n is: at worst each is rounded in the same way."""
    return min(n, PIECE + -(-n // PIECE))


def stacked(tables: Sequence[RowsLike]) -> Rows:
    """All of them in one table, sparse if one of them is."""
    parts = [as_rows(table) for table in tables]
    if not any(rows.sparse for rows in parts):
        return Dense(np.vstack([rows.dense() for rows in parts]))
    import scipy.sparse as sp

    from pdml_spdz.rows.sparse import Sparse

    return Sparse(sp.vstack([rows.csr() for rows in parts]))
