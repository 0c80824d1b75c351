"""A party's rows: numbers that can be used, and the names of their columns where they have some."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics import sparse as sp
from pdml_spdz.numerics.linalg import Rows, as_rows, dense, entries
from pdml_spdz.rows import names
from pdml_spdz.rows.formats import READERS, Columns, is_series, is_table, read_table
from pdml_spdz.rows.names import Names


@dataclass(frozen=True)
class Data:
    """Rows X of shape (n, d), float64, dense (C order) or CSR, and the names of their columns where they have some;
    warnings : what this party, and nobody else, should know of them
    """

    X: Rows
    features: Names | None
    source: str
    warnings: Names = ()

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def nbytes(self) -> int:
        if sp.issparse(self.X):
            return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)
        return int(self.X.nbytes)

    @property
    def density(self) -> float:
        nonzero = self.X.nnz if sp.issparse(self.X) else np.count_nonzero(self.X)
        return float(nonzero) / (self.n * self.d)

    def summary(self) -> str:
        kind = "sparse" if sp.issparse(self.X) else "dense"
        return (
            f"{self.source}: {self.n:,} rows x {self.d:,} columns, {kind}, "
            f"{self.nbytes / 1e6:,.1f} MB, density {self.density:.3g}"
        )

    def digest(self, salt: bytes) -> str:
        """A salted digest by which a party recognises its own data; it never leaves the party."""
        h = hashlib.blake2b(salt, digest_size=32)
        h.update(json.dumps([self.n, self.d, self.features]).encode())
        arrays = [self.X.data, self.X.indices, self.X.indptr] if sp.issparse(self.X) else [self.X]
        for array in arrays:
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
        X = as_rows(self.X[:, order])
        if sp.issparse(X):
            X.sort_indices()  # as a file in this order would have them: the digest is the same
        return replace(self, X=X, features=None if self.features is None else tuple(self.features[j] for j in order))

    def as_in(self, report: Mapping[str, Any]) -> Data:
        """The columns in the order of the run that the report is of."""
        if report.get("columns") != "name" or not report.get("features"):
            return self
        return self.in_order(tuple(report["features"]), "the run")


@dataclass(frozen=True)
class Vector:
    """One number for each feature, and their names; no names: in the order of the result."""

    values: tuple[float, ...]
    features: Names = ()


def vector(given: Any, what: str) -> Vector:
    """A file with a single row, a table with one, a column of pandas whose labels are names, or plain numbers."""
    found = load(Path(given), vector=True) if isinstance(given, str | Path) else from_rows(given, what, vector=True)
    return Vector(tuple(float(x) for x in dense(found.X)[0]), found.features or ())


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
    reader = READERS.get(suffix.lower())
    if reader is None:
        raise InputError(
            f"{path} has an ending that is not known ({suffix or 'none'!r}).", f"one of {', '.join(READERS)}"
        )
    if not path.is_file():
        raise InputError(f"{path} is not there.", "a file with this party's rows", "check the path after --data")
    try:
        columns = reader(path)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - five libraries' words for a file that is broken
        raise InputError(f"{path} cannot be read as {suffix}: {error}.", "a table of numbers") from None
    return _checked(columns, str(path), path.name, vector=vector)


def from_rows(given: Any, source: str, *, vector: bool = False) -> Data:
    """Rows that are in memory: an array, a sparse matrix, or a table of pandas or Arrow, whose columns have names."""
    if isinstance(given, Data):
        return given
    return _checked(columns_of(given, source), source, source, vector=vector)


def columns_of(given: Any, source: str) -> Columns:
    """The numbers, unchecked, and names of rows that are in memory."""
    if is_table(given) or is_series(given):
        return read_table(given, source)
    if np.ma.is_masked(given):
        raise InputError(f"{source} have masked entries.", "finite numbers", _IMPUTE)
    array = given if sp.issparse(given) else np.asarray(given)
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
    X = as_rows(X)
    values = entries(X)
    # A sum is finite only if every entry is; the exact search (which needs memory) is made only if it is not.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious and not np.all(np.isfinite(values)):
        raise InputError(f"{where} has entries that are not finite{_where(X, features)}.", "finite numbers", _IMPUTE)
    return Data(X, features, source)


_IMPUTE = "fill in or drop missing values (NaN) and infinities first"


def _where(X: Rows, features: Names | None) -> str:
    if sp.issparse(X):
        return ""
    row, j = np.argwhere(~np.isfinite(X))[0]
    name = "" if features is None else f" {features[j]!r}"
    return f" (the first in row {row + 1}, column {j + 1}{name})"
