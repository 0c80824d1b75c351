"""Pieces of rows that are not loaded whole, and what a worker makes of one: all of it can be pickled.

A piece knows how to read itself, some rows at a time. What workers send back is as small as the result: (d, d), (d, k),
or digests; only X V, which is as long as the rows, is as long as the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.choosing import ColumnPlan
from pdml_spdz.rows.digests import Groups, group_digest
from pdml_spdz.rows.frames import block_of

BUFFERS, LEAST_BUFFER = 4 << 20, 1 << 12  # bytes: of all columns, of one
BATCH = 1 << 18  # numbers that a worker has in its hands at a time, besides what it adds up


class Piece(Protocol):
    """Some rows: where they are, and how many."""

    def batches(self) -> Iterator[Any]:
        """Arrays (n, d), or CSR, one after the other."""


@dataclass(frozen=True)
class ParquetPiece:
    """A row group of a file."""

    path: str
    group: int
    plan: ColumnPlan
    whole: bool

    def batches(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        inner, chosen = self.plan.within(), [self.plan.names[j] for j in self.plan.read]
        buffered = max(LEAST_BUFFER, BUFFERS // len(self.plan.read))  # else all of a column's row group is read at once
        with pq.ParquetFile(self.path, pre_buffer=False, buffer_size=buffered) as file:
            for batch in file.iter_batches(
                batch_size=max(1, BATCH // self.plan.d),
                row_groups=[self.group],
                columns=None if self.whole else chosen,
                use_threads=False,
            ):
                yield block_of(batch if self.whole else batch.select(chosen), inner)[0]


@dataclass(frozen=True)
class ValuePiece:
    """What a task of Dask has made: an array, a sparse one, or a data frame."""

    value: Any
    plan: ColumnPlan | None = None

    def batches(self) -> Iterator[Any]:
        if self.plan is not None:
            yield block_of(self.value, self.plan)[0]
        elif hasattr(self.value, "tocsr"):
            yield _canonical(self.value)
        else:
            array = np.asarray(self.value, np.float64)
            rows = max(1, BATCH // max(array.shape[1], 1))
            yield from (array[i : i + rows] for i in range(0, len(array), rows))


def _canonical(matrix: Any) -> Any:
    import scipy.sparse as sp

    rows = sp.csr_array(matrix, dtype=np.float64)
    rows.sum_duplicates()  # sorts, too
    return rows


@dataclass(frozen=True)
class Affine:
    """x -> (x[order] - shift) / scale, feature by feature; None: nothing of it."""

    order: NDArray[np.int64] | None = None
    shift: Reals | None = None
    scale: Reals | None = None

    def __call__(self, batch: Any) -> Any:
        if self.order is not None:
            batch = batch[:, self.order]
        if self.shift is not None:
            batch = (batch.toarray() if hasattr(batch, "tocsr") else batch) - self.shift
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
class Complete:
    """Rows in which nothing is missing."""

    def __call__(self, batch: Any) -> Any:
        return batch[~np.isnan(batch).any(axis=1)]


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
    missing : (d,) how many entries are NaN; infinite : (row, column) of the first entry that is infinite, or none
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


def _of_batch(batch: Any, centre: Reals, with_gram: bool, first: int) -> Summary:
    sparse, d = hasattr(batch, "tocsr"), len(centre)
    values = batch.data if sparse else batch
    missing, infinite, complete = np.zeros(d, np.int64), None, batch.shape[0]
    with np.errstate(over="ignore", invalid="ignore"):
        odd = not np.isfinite(values.sum()) and not np.isfinite(values).all()
    if odd:
        array = batch.toarray() if sparse else batch
        nan = np.isnan(array)
        missing, complete = nan.sum(axis=0), int((~nan.any(axis=1)).sum())
        wrong = np.argwhere(np.isinf(array))
        infinite = (first + int(wrong[0][0]), int(wrong[0][1])) if len(wrong) else None
    if sparse:
        moved, squares = batch, np.asarray(batch.multiply(batch).sum(axis=0), np.float64).reshape(-1)
        sums = np.asarray(batch.sum(axis=0), np.float64).reshape(-1)
    else:
        moved = batch - centre
        sums, squares = moved.sum(axis=0), np.einsum("ij,ij->j", moved, moved)
    gram = None
    if with_gram:
        gram = (moved.T @ moved).toarray() if sparse else moved.T @ moved
    return Summary(
        batch.shape[0],
        complete,
        sums,
        squares,
        gram,
        missing,
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
