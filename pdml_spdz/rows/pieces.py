"""Pieces of rows that are not loaded whole, and what a worker makes of one: all of it can be pickled.

A piece knows how to read itself, some rows at a time. What workers send back is as small as the result: (d, d), (d, k),
or digests; only X V, which is as long as the rows, is as long as the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.shift import Shift
from pdml_spdz.rows.base import Dense, Rows, as_rows
from pdml_spdz.rows.choosing import ColumnPlan
from pdml_spdz.rows.digests import Groups, group_digest
from pdml_spdz.rows.frames import arrow_numbers, aside_of, block_of

BUFFERS, LEAST_BUFFER = 4 << 20, 1 << 12  # bytes: of all columns, of one
BATCH = 1 << 18  # numbers that a worker has in its hands at a time, besides what it adds up
# Of each column Arrow takes a batch as long as it takes to read some hundred numbers. So where a row is so wide that a
# batch would be of few rows, a row group is read as a whole, some columns after the others.
FEW_ROWS = 1024
WHOLE_GROUP = 1 << 24  # numbers of a row group, at most
COLUMNS = 1 << 19  # numbers that are read together then


class Piece(Protocol):
    """Some rows: where they are, and how many."""

    def batches(self) -> Iterator[Any]:
        """Arrays (n, d), or CSR, one after the other."""


class Unseen:
    """A plan that Dask does not look into for tasks. In a dataclass it does, column by column, for every piece in every
    pass: with thousands of columns that takes as long as to read the piece, and only one core does it.
    """

    def __init__(self, plan: ColumnPlan) -> None:
        self.plan = plan


@dataclass(frozen=True)
class ParquetPiece:
    """A row group of a file, of n rows."""

    path: str
    group: int
    columns: Unseen
    n: int

    @property
    def plan(self) -> ColumnPlan:
        return self.columns.plan

    def batches(self) -> Iterator[Any]:
        plan, d = replace(self.plan, aside=()), self.plan.d
        wide = BATCH // d < FEW_ROWS and self.n * d <= WHOLE_GROUP and not plan.texts
        with self._opened(plan) as file:
            if wide:
                yield self._by_columns(file)
            else:
                rows = max(BATCH // d, min(FEW_ROWS, WHOLE_GROUP // d), 1)
                yield from (block_of(batch, plan.within())[0] for batch in self._by_rows(file, plan, rows))

    def aside(self) -> NDArray[Any]:
        """(n, a): what is kept aside of each row, as texts."""
        only = replace(self.plan, sources=())
        with self._opened(only) as file:
            return np.concatenate([aside_of(batch, only.within()) for batch in self._by_rows(file, only, BATCH)])

    @contextmanager
    def _opened(self, plan: ColumnPlan) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        buffered = max(LEAST_BUFFER, BUFFERS // len(plan.read))  # else all of a column's row group is read at once
        try:
            found = Path(self.path).stat()
            head = _head(self.path, found.st_mtime_ns, found.st_size)
            with pq.ParquetFile(self.path, metadata=head, pre_buffer=False, buffer_size=buffered) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.path, error) from None

    def _by_rows(self, file: Any, plan: ColumnPlan, rows: int) -> Iterator[Any]:
        chosen = [plan.names[j] for j in plan.read]
        every = plan.read == tuple(range(len(plan.names)))
        found = file.iter_batches(
            batch_size=rows, row_groups=[self.group], columns=None if every else chosen, use_threads=False
        )
        # Of a name with a dot in it Parquet finds more than was asked for, and all in the order of the file.
        return found if every else (batch.select(chosen) for batch in found)

    def _by_columns(self, file: Any) -> Reals:
        """Only one copy of the row group is there, and what is read at a time."""
        X, size = np.empty((self.n, self.plan.d)), max(1, COLUMNS // self.n)
        for first in range(0, self.plan.d, size):
            part = self.plan.sources[first : first + size]
            names = [self.plan.names[source.j] for source in part]
            table = file.read_row_group(self.group, columns=names, use_threads=False)
            X[:, first : first + len(part)] = arrow_numbers(table.select(names))
        return X


@lru_cache(maxsize=2)
def _head(path: str, changed: int, size: int) -> Any:
    """Of a wide file it takes more memory, and longer, than a row group: threads share it."""
    import pyarrow.parquet as pq

    return pq.read_metadata(path)


def unreadable(path: str, error: BaseException) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(
            f"{path} is not there.", "files under the same path at every worker", "check the path after --data"
        )
    return InputError(
        f"{path} cannot be read as Parquet: {str(error).rstrip('.')}.",
        "files that are whole",
        "write this file again, or take it out of the directory",
    )


@dataclass(frozen=True)
class ValuePiece:
    """What a task of Dask has made: an array, a sparse one, or a data frame."""

    value: Any
    columns: Unseen | None = None

    def batches(self) -> Iterator[Any]:
        if self.columns is not None:
            yield block_of(self.value, self.columns.plan)[0]
        elif hasattr(self.value, "tocsr"):
            yield _canonical(self.value)
        else:
            array = np.ma.filled(np.ma.asarray(self.value).astype(np.float64), np.nan)  # what is masked is missing
            rows = max(1, BATCH // max(array.shape[1], 1))
            yield from (array[i : i + rows] for i in range(0, len(array), rows))

    def aside(self) -> NDArray[Any]:
        """As of a `ParquetPiece`."""
        assert self.columns is not None
        return aside_of(self.value, self.columns.plan)


def _canonical(matrix: Any) -> Any:
    import scipy.sparse as sp

    rows = sp.csr_array(matrix, dtype=np.float64)
    rows.sum_duplicates()  # sorts, too
    return rows


@dataclass(frozen=True)
class Affine:
    """x -> (x[order] - shift) / scale, feature by feature; None: nothing of it."""

    order: NDArray[np.int64] | None = None
    shift: Shift | None = None
    scale: Reals | None = None

    def __call__(self, batch: Any) -> Any:
        if self.order is not None:
            batch = batch[:, self.order]
        if self.shift is not None:
            batch = self.shift.off(batch.toarray() if hasattr(batch, "tocsr") else batch)
        if self.scale is not None:
            batch = batch.multiply(1.0 / self.scale).tocsr() if hasattr(batch, "tocsr") else batch / self.scale
        return batch


@dataclass(frozen=True)
class Filled:
    """What is missing gets these values."""

    values: Reals

    def __call__(self, batch: Any) -> Any:
        return batch if hasattr(batch, "tocsr") else np.where(np.isnan(batch), self.values, batch)


@dataclass(frozen=True)
class StoredWhole:
    """Of sparse rows these columns are less mu, and stored whole."""

    columns: NDArray[np.bool_]
    mu: Reals

    def __call__(self, batch: Any) -> Any:
        from pdml_spdz.rows.sparse import stored_whole

        return stored_whole(batch, self.columns, self.mu)


@dataclass(frozen=True)
class Selected:
    """Some rows of a piece. chosen : (n,) which"""

    piece: Any
    chosen: NDArray[np.bool_]

    def batches(self) -> Iterator[Any]:
        at = 0
        for batch in self.piece.batches():
            yield batch[self.chosen[at : at + batch.shape[0]]]
            at += batch.shape[0]


@dataclass(frozen=True)
class Changed:
    """A piece of which every batch goes through these steps."""

    piece: Any
    steps: tuple[Any, ...]

    def batches(self) -> Iterator[Any]:
        for batch in self.piece.batches():
            for step in self.steps:
                batch = step(batch)
            yield batch


# ---- what workers do


@dataclass(frozen=True)
class Summary:
    """Of some rows, around a provisional centre c: everything that one pass can tell.

    n : rows; complete : those in which nothing is missing
    sums : (d,) of x - c; squares : (d,) of (x - c)^2; gram : (d, d), if it was asked for
    missing : (d,) how many entries are NaN; hole : the first row that has one, or none
    infinite : (row, column) of the first entry that is infinite, or none
    negative, largest : how many entries are below zero; the largest one
    stored : entries that are there: all, or the stored ones of sparse rows
    digests : by the number of a whole group of rows, its digest
    parts : of groups that begin or end elsewhere: number, place in the group, bytes
    """

    n: int
    complete: int
    sums: Reals
    squares: Reals
    gram: Reals | None
    missing: NDArray[np.int64]
    hole: int | None
    infinite: tuple[int, int] | None
    negative: int
    largest: float
    stored: int
    digests: tuple[tuple[int, bytes], ...] = ()
    parts: tuple[tuple[int, int, bytes], ...] = ()

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.n + other.n,
            self.complete + other.complete,
            self.sums + other.sums,
            self.squares + other.squares,
            None if self.gram is None or other.gram is None else self.gram + other.gram,
            self.missing + other.missing,
            other.hole if self.hole is None else self.hole,
            self.infinite or other.infinite,
            self.negative + other.negative,
            max(self.largest, other.largest),
            self.stored + other.stored,
            self.digests + other.digests,
            self.parts + other.parts,
        )


def summarised(piece: Piece, first: int, centre: Reals, with_gram: bool) -> Summary:
    """One pass over a piece whose first row is number `first` of all."""
    d = len(centre)
    groups, total = Groups(first, d), None
    for batch in piece.batches():
        part = _of_batch(batch, centre, with_gram, groups.at)
        groups.add(batch)
        total = part if total is None else total + part
    if total is None:
        total = _of_batch(np.zeros((0, d)), centre, with_gram, first)
    digests, parts = groups.end()
    return Summary(**(total.__dict__ | {"digests": digests, "parts": parts}))


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are too large: what is infinite is found later
def _of_batch(batch: Any, centre: Reals, with_gram: bool, first: int) -> Summary:
    sparse, d = hasattr(batch, "tocsr"), len(centre)
    values = batch.data if sparse else batch
    missing, hole, infinite, complete = np.zeros(d, np.int64), None, None, batch.shape[0]
    odd = not np.isfinite(values.sum()) and not np.isfinite(values).all()
    if odd:
        array = batch.toarray() if sparse else batch
        nan = np.isnan(array)
        in_row = nan.any(axis=1)
        missing, complete = nan.sum(axis=0), int((~in_row).sum())
        hole = first + int(np.argmax(in_row)) if in_row.any() else None
        wrong = np.argwhere(np.isinf(array))
        infinite = (first + int(wrong[0][0]), int(wrong[0][1])) if len(wrong) else None
    rows: Rows = as_rows(batch) if sparse else Dense(batch - centre)
    sums, squares, gram = rows.column_sums(), rows.column_squares(), rows.gram() if with_gram else None
    return Summary(
        batch.shape[0],
        complete,
        sums,
        squares,
        gram,
        missing,
        hole,
        infinite,
        int(np.count_nonzero(values < 0)),
        float(values.max(initial=-np.inf)),
        int(np.count_nonzero(values)),
    )


def joined_digests(summary: Summary) -> list[bytes]:
    """The digests of all groups in their order, of a summary of all rows."""
    found = dict(summary.digests)
    by_group: dict[int, list[tuple[int, bytes]]] = {}
    for number, at, content in summary.parts:
        by_group.setdefault(number, []).append((at, content))
    found |= {number: group_digest([content for _, content in sorted(held)]) for number, held in by_group.items()}
    return [found[number] for number in sorted(found)]


def gram_product(piece: Piece, V: Reals) -> Reals:
    """X^T (X V) of a piece."""
    total = np.zeros(V.shape)
    for batch in piece.batches():
        total += batch.T @ (batch @ V)
    return total


def product(piece: Piece, V: Reals) -> Reals:
    """X V of a piece."""
    return np.concatenate([np.asarray(batch @ V) for batch in piece.batches()])


def transposed_product(piece: Piece, W: Reals, d: int) -> Reals:
    """X^T W of a piece and the rows of W that are its own."""
    total, at = np.zeros((d, *W.shape[1:])), 0
    for batch in piece.batches():
        total += batch.T @ W[at : at + batch.shape[0]]
        at += batch.shape[0]
    return total


def row_lengths(piece: Piece) -> Reals:
    squares = (batch.multiply(batch) if hasattr(batch, "tocsr") else batch * batch for batch in piece.batches())
    return np.concatenate([np.asarray(square.sum(axis=1), np.float64).reshape(-1) for square in squares])


def complete_rows(piece: Piece) -> NDArray[np.bool_]:
    """(n,): in which rows nothing is missing."""
    return np.concatenate([~np.isnan(batch).any(axis=1) for batch in piece.batches()])


def first_rows(piece: Piece, most: int) -> Any:
    """At most so many of a piece's first rows."""
    for batch in piece.batches():
        if batch.shape[0]:
            return batch[:most]
    return None


def whole_piece(piece: Piece) -> Any:
    """All rows of a piece, to be kept by whoever asked for it."""
    batches = list(piece.batches())
    if any(hasattr(batch, "tocsr") for batch in batches):
        import scipy.sparse as sp

        return sp.csr_array(sp.vstack(batches))
    return np.concatenate(batches)


def add(a: Any, b: Any) -> Any:
    return a + b
