"""Entries that are missing (NaN): counted, and refused, left out with their rows, or left for the mean of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.names import Names, column, listed
from pdml_spdz.rows.reading import DROP_ROWS, MEAN

if TYPE_CHECKING:
    from pdml_spdz.rows.data import Data

IMPUTE = "fill in or drop missing values (NaN) and infinities first"
FILL_IN = (
    "fill them in, leave the columns out (--drop), or agree on --missing drop-rows or --missing mean "
    "(`missing` in [rows] of the study): docs/rows.md says what each shows"
)


def finite(values: Reals) -> bool:
    """Whether all are. A sum is finite only if every entry is; the exact search is made only if it is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.all(np.isfinite(values)))


@dataclass(frozen=True)
class Holes:
    """Where entries are missing.

    by_column : (d,) how many
    rows : how many rows are concerned, of n in all
    first : the first of them, where that is known
    """

    by_column: NDArray[np.int64]
    rows: int
    n: int
    first: int | None = None

    def in_words(self, features: Names | None) -> str:
        by_count = [int(j) for j in np.argsort(-self.by_column, kind="stable") if self.by_column[j]]
        columns = listed(f"{column(features, j)} {self.by_column[j]:,}" for j in by_count)
        total = int(self.by_column.sum())
        entries = "entry" if total == 1 else "entries"
        place = "" if self.first is None else f"; the first in row {self.first + 1}"
        return f"{columns} ({total:,} {entries}, in {self.rows:,} of {self.n:,} rows{place})"


def holes(rows: Rows, where: str, features: Names | None) -> tuple[Holes, NDArray[np.bool_]]:
    """Where entries are missing, and in which rows; infinite ones are refused."""
    n, d = rows.shape
    by_column, in_row = np.zeros(d, np.int64), np.zeros(n, np.bool_)
    for i, j, values in _odd_entries(rows):
        infinite = np.flatnonzero(np.isinf(values))
        if len(infinite):
            raise _infinite(where, int(i[infinite[0]]), int(j[infinite[0]]), features)
        by_column += np.bincount(j, minlength=d)
        in_row[i] = True
    return Holes(by_column, int(in_row.sum()), n, int(np.argmax(in_row))), in_row


def _infinite(where: str, row: int, j: int, features: Names | None) -> InputError:
    name = "" if features is None else f" {features[j]!r}"
    return InputError(
        f"{where} has entries that are not finite (the first in row {row + 1}, column {j + 1}{name}).",
        "finite numbers",
        IMPUTE,
    )


def _odd_entries(rows: Rows) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Reals]]:
    """(row, column, value) of entries that are not finite, in the order of the rows."""
    if rows.sparse:
        stored = rows.csr().tocoo()
        odd = np.flatnonzero(~np.isfinite(stored.data))
        yield stored.row[odd].astype(np.int64), stored.col[odd].astype(np.int64), stored.data[odd]
        return
    for place, block in rows.numbered_blocks():
        i, j = np.nonzero(~np.isfinite(block))
        yield i + place.start, j, block[i, j]


def handled(data: Data, where: str, setting: str) -> Data:
    """Rows that have entries that are not finite, as the parties agreed (`RowSettings.missing`)."""
    found, in_row = holes(data.rows, where, data.features)
    if not found.rows:  # a sum that was too large
        return data
    complete = data.of_rows(np.flatnonzero(~in_row)) if setting == DROP_ROWS else data
    return _as_agreed(data, complete, found, where, setting)


def of_pass(data: Data, where: str, setting: str) -> Data:
    """The same for rows that are not loaded whole: a pass over them has counted what is missing, by column."""
    rows: Any = data.rows
    summary = rows.summary()
    if rows.infinite is not None:
        row, j = rows.infinite
        raise _infinite(where, row, j, data.features)
    found = Holes(rows.missing, summary.n - summary.complete, summary.n, summary.hole)
    if not found.rows:
        return data
    complete = data.of_rows(rows.complete()) if setting == DROP_ROWS and summary.complete else data
    return _as_agreed(data, complete, found, where, setting)


def _as_agreed(data: Data, complete: Data, found: Holes, where: str, setting: str) -> Data:
    said = found.in_words(data.features)
    if setting == DROP_ROWS and found.rows == found.n:
        raise InputError(f"{where} has missing values in every row: {said}.", "a row without any", FILL_IN)
    if setting == DROP_ROWS:
        told = f"left out {found.rows:,} of {found.n:,} rows, which have missing values: {said}"
        return replace(complete, warnings=(*data.warnings, told))
    if setting == MEAN and not data.rows.sparse:
        told = f"missing values get the mean of all parties' values: {said}"
        return replace(data, warnings=(*data.warnings, told), holes=True)
    if setting == MEAN:
        wanted = "a number in every entry that is stored: sparse rows are not filled by means"
        raise InputError(f"{where} has missing values: {said}.", wanted, "leave such entries out, or give dense rows")
    raise InputError(f"{where} has missing values: {said}.", "a number in every entry", FILL_IN)
