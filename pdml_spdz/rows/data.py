"""A party's rows: numbers that can be used, and the names of their columns where they have some."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows import names
from pdml_spdz.rows.base import Rows, RowsLike, as_rows, is_sparse
from pdml_spdz.rows.formats import READERS, Columns, is_series, is_table, read_table
from pdml_spdz.rows.names import Names, column


@dataclass(frozen=True, repr=False)
class Data:
    """Rows of whatever kind, and the names of their columns where they have some;
    warnings : what this party, and nobody else, should know of them
    """

    rows: Rows
    features: Names | None
    source: str
    warnings: Names = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", as_rows(self.rows))

    def __repr__(self) -> str:
        """Sizes, never the numbers or their names."""
        return f"Data({self.source}: {self.n:,} rows x {self.d:,} columns)"

    @cached_property
    def n(self) -> int:
        return self.rows.shape[0]

    @cached_property
    def d(self) -> int:
        return self.rows.shape[1]

    @property
    def X(self) -> RowsLike:
        """The rows as other libraries take them: an array, or CSR."""
        return self.rows.unwrapped()

    @property
    def density(self) -> float:
        return self.rows.nonzero / (self.n * self.d)

    def summary(self) -> str:
        kind = "sparse" if self.rows.sparse else "dense"
        return (
            f"{self.source}: {self.n:,} rows x {self.d:,} columns, {kind}, "
            f"{self.rows.nbytes / 1e6:,.1f} MB, density {self.density:.3g}"
        )

    def digest(self, salt: bytes) -> str:
        """A salted digest by which a party recognises its own data; it never leaves the party."""
        h = hashlib.blake2b(salt, digest_size=32)
        h.update(json.dumps([self.n, self.d, self.features]).encode())
        for array in self.rows.buffers():
            h.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return h.hexdigest()

    def in_order(self, wanted: Names | None, whose: str) -> Data:
        """The same rows with their columns in the order of `wanted`, which are the same names; as they are if either
        has none.
        """
        if self.features is None or wanted is None:
            return self
        return self.permuted(names.positions(self.features, wanted, self.source, whose))

    def permuted(self, order: Any) -> Data:
        """Column order[j] comes to place j."""
        if np.array_equal(order, np.arange(self.d)):
            return self
        features = None if self.features is None else tuple(self.features[j] for j in order)
        return replace(self, rows=self.rows.columns(order), features=features)

    def as_in(self, report: Mapping[str, Any]) -> Data:
        """The columns in the order of the run that the report is of."""
        if report.get("columns") != "name" or not report.get("features"):
            return self
        return self.in_order(tuple(report["features"]), "the run")


@dataclass(frozen=True)
class FeatureVector:
    """One number for each feature, and their names; no names: in the order of the result."""

    values: tuple[float, ...]
    features: Names = ()


def vector(given: Any, what: str) -> FeatureVector:
    """A file with a single row, a table with one, a column of pandas whose labels are names, or plain numbers."""
    found = load(Path(given), vector=True) if isinstance(given, str | Path) else from_rows(given, what, vector=True)
    return FeatureVector(tuple(float(x) for x in found.rows.dense()[0]), found.features or ())


def vector_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A study's settings with `offsets` and `scales` as its numbers, and with their names beside them."""
    done = dict(settings)
    for name, beside in (("offsets", "offset_features"), ("scales", "scale_features")):
        if name in done and not isinstance(done[name], tuple):  # a tuple is what a study has
            found, given = vector(done[name], f"`{name}`"), tuple(done.get(beside, ()))
            if found.features and given and found.features != given:
                raise InputError(f"`{beside}` differ from the names that `{name}` have themselves.", "one of the two")
            done |= {name: found.values, beside: found.features or given}
    return done


def load(path: Path, *, vector: bool = False) -> Data:
    """Read a party's rows and check that they are numbers; with `vector` one row, which may be a plain vector."""
    suffix = "".join(path.suffixes[-2:]) if path.name.endswith(".gz") else path.suffix
    if suffix.lower() not in READERS:
        raise InputError(
            f"{path} has an ending that is not known ({suffix or 'none'!r}).", f"one of {', '.join(READERS.names())}"
        )
    if not path.is_file():
        raise InputError(f"{path} is not there.", "a file with this party's rows", "check the path after --data")
    try:
        columns = READERS[suffix.lower()](path)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - five libraries' words for a file that is broken
        raise InputError(
            f"{path} cannot be read as {suffix}: {str(error) or type(error).__name__}.", "a table of numbers"
        ) from None
    return _checked(columns, str(path), path.name, vector=vector)


def from_rows(given: Any, source: str, *, vector: bool = False) -> Data:
    """Rows that are there: an array, a sparse matrix, a table of pandas or Arrow, whose columns have names, or Rows."""
    if isinstance(given, Data):
        return given
    return _checked(columns_of(given, source), source, source, vector=vector)


def columns_of(given: Any, source: str) -> Columns:
    """The numbers, unchecked, and names of rows that are in memory."""
    if is_table(given) or is_series(given):
        return read_table(given, source)
    if np.ma.is_masked(given):
        raise InputError(f"{source} have masked entries.", "finite numbers", _IMPUTE)
    array = given if isinstance(given, Rows) or is_sparse(given) else np.asarray(given)
    if array.dtype == object:
        raise InputError(f"{source} are not an array of numbers.", "an array of shape (n, d), a table, or a path")
    return array, None


def _checked(columns: Columns, where: str, source: str, *, vector: bool) -> Data:
    X, features = columns
    if vector:
        X = X[None, :] if X.ndim == 1 and X.size else X
        if X.ndim == 2 and X.shape[0] != 1:
            raise InputError(
                f"{where} holds {X.shape[0]} rows.", "one vector: a single row, or an array of one dimension"
            )
    if X.ndim != 2:
        raise InputError(f"{where} holds an array of shape {X.shape}.", "a table: rows x columns (two dimensions)")
    if X.dtype.kind not in "fiub":
        raise InputError(f"{where} holds entries of type {X.dtype}.", "real numbers")
    if 0 in X.shape:
        raise InputError(
            f"{where} has {X.shape[0]} rows and {X.shape[1]} columns.", "at least one of each", "leave this party out"
        )
    if features is not None:
        names.check(features, X.shape[1], where)
    rows = as_rows(X, order="C")
    if not all(_finite(values) for values in rows.stored()):
        raise InputError(f"{where} has entries that are not finite{_where(rows, features)}.", "finite numbers", _IMPUTE)
    return Data(rows, features, source)


_IMPUTE = "fill in or drop missing values (NaN) and infinities first"


def _finite(values: Reals) -> bool:
    # A sum is finite only if every entry is; the exact search (which needs memory) is made only if it is not.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.all(np.isfinite(values)))


def _where(rows: Rows, features: Names | None) -> str:
    """The first entry that is not finite; of sparse rows, which are not searched for it, nothing."""
    for place, block in () if rows.sparse else rows.numbered_blocks():
        for row, j in np.argwhere(~np.isfinite(block)):
            name = "" if features is None else f" {features[j]!r}"
            return f" (the first in row {place.start + row + 1}, column {j + 1}{name})"
    return ""


# Columns that are probably not features: a party is warned of them, and nobody else hears of it.
SHARE = 0.99  # of all squares: a component of unit length is then nearly that column
LEAST_ROWS = 8  # by chance alone fewer numbers may go up by equal steps
IDENTIFIER = "looks like an identifier or a row number"
DOMINANT = "carries nearly all of the"
ID = re.compile(r"(?:.*[\W_])?(?:id|ID|Id|iD)|.*[a-z](?:Id|ID)")


def identifiers(data: Data) -> list[str]:
    """Warnings of columns that look like identifiers: integers by equal steps, or all different under such a name."""
    found = set(_counters(data.rows)) | {j for j in _called_id(data) if _all_different(_column(data.rows, j))}
    text = f"{IDENTIFIER}; leave it out if it is not a feature"
    return [f"{column(data.features, j)} {text}" for j in sorted(found)]


def dominant_column(data: Data, *, centred: bool) -> list[str]:
    """A warning of a column that has nearly all of the variance, or of the squares where rows are not centred."""
    rows = data.rows
    squares = rows.column_squares(rows.column_sums() / data.n if centred else None)
    j, total = int(np.argmax(squares)), float(squares.sum())
    if data.d < 2 or not total * SHARE < squares[j]:
        return []
    what = "variance" if centred else "sum of squares"
    text = f"{DOMINANT} {what} of this party's rows: the first vector will be that column"
    return [f"{column(data.features, j)} {text}; scale the features (--scale), or leave it out if it is not one"]


def warn_of_columns(said: Iterable[str], caller: int) -> None:
    """Those of a report's warnings that are about columns, as Python's: whoever calls a function does not see what
    parties print. caller : how many frames above this one
    """
    for text in said:
        if IDENTIFIER in text or DOMINANT in text:
            warnings.warn(text, UserWarning, stacklevel=caller + 1)


def _counters(X: Rows) -> list[int]:
    """Dense columns of integers that go up, or down, by equal steps."""
    if X.sparse or X.shape[0] < LEAST_ROWS:
        return []
    first = X[:LEAST_ROWS].dense()
    steps = np.diff(first, axis=0)
    candidates = np.flatnonzero((steps[0] != 0) & np.all(steps == steps[0], axis=0) & (first[0] == np.rint(first[0])))
    return [int(j) for j in candidates if _equal_steps(_column(X, int(j)))]


def _column(X: Rows, j: int) -> Reals:
    return X.columns([j]).dense()[:, 0]


def _equal_steps(x: Reals) -> bool:
    steps = np.diff(x)
    return bool(np.all(steps == steps[0]) and np.all(x == np.rint(x)))


def _called_id(data: Data) -> list[int]:
    return [j for j, name in enumerate(data.features or ()) if ID.fullmatch(name.strip())]


def _all_different(x: Reals) -> bool:
    return bool(len(x) > 1 and np.all(x == np.rint(x)) and len(np.unique(x)) == len(x))
