"""A party's rows: numbers that can be used, and the names of their columns where they have some."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.rows import missing, names
from pdml_spdz.rows.base import Rows, RowsLike, as_rows, is_sparse
from pdml_spdz.rows.formats import OTHER_ENDINGS, PACKED, READERS, RENAME, TABLES, chosen
from pdml_spdz.rows.frames import Loaded, is_series, is_table, read_table
from pdml_spdz.rows.missing import IMPUTE, finite
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.reading import Reading, RowSettings, RowsWanted
from pdml_spdz.rows.triplets import read_triplets

MOST_COLUMNS = 10**8  # one number for each of them is 0.8 GB


@dataclass(frozen=True, repr=False)
class Data:
    """Rows of whatever kind, and the names of their columns where they have some;
    warnings : what this party, and nobody else, should know of them
    ids : (n,) texts, whose rows these are, where the file says so: kept aside, never sent, never a feature
    kept : numbers of the file's rows that these are, if some were left out
    holes : whether entries are missing (NaN), to be filled in when all parties have met
    off : how far what was filled in may put S off, over its largest eigenvalue
    """

    rows: Rows
    features: Names | None
    source: str
    warnings: Names = ()
    ids: NDArray[Any] | None = None
    holes: bool = False
    kept: NDArray[np.int64] | None = None
    off: float = 0.0

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
    def known(self) -> Rows:
        """The rows, with zeros for what is missing: for a party's own eyes, and for bounds."""
        return self.rows.filled(np.zeros(self.d)) if self.holes else self.rows

    def looked_at(self, setting: str) -> Data:
        """The rows after a first pass, if there was none: what is missing is dealt with as the parties agreed."""
        if not self.rows.lazy or self.holes:
            return self
        return missing.of_pass(self, self.source, setting)

    def missing(self) -> NDArray[np.int64]:
        """(d,) how many entries of each column are missing."""
        if not self.holes:
            return np.zeros(self.d, np.int64)
        if self.rows.lazy:
            counted: NDArray[np.int64] = self.rows.missing  # type: ignore[attr-defined]
            return counted
        return missing.holes(self.rows, self.source, self.features)[0].by_column

    def names(self) -> list[str]:
        """What the rows are called: their ids, or their numbers in the file, from 0."""
        if self.ids is not None:
            return [str(name) for name in self.ids]
        return [str(i) for i in (range(self.n) if self.kept is None else self.kept.tolist())]

    def without(self, names: Sequence[str], where: str) -> Data:
        """All rows but those that are called so. where : who says it, for messages"""
        out = np.isin(np.array(self.names(), dtype=object).astype(str), np.array(sorted(set(names)), dtype=str))
        if out.all():
            raise InputError(f"{where} leaves no row of {self.source}.", "at least one that stays")
        left = np.flatnonzero(~out)
        said = f"left out {int(out.sum()):,} of {self.n:,} rows, which {where} names"
        if (unknown := len(set(names)) - int(out.sum())) > 0:
            said += f"; {unknown:,} of its names are not here"
        return replace(self.of_rows(left), warnings=(*self.warnings, said))

    def of_rows(self, numbers: NDArray[np.int64]) -> Data:
        """Only the rows of these numbers, which go up."""
        return replace(
            self,
            rows=self.rows.selected(numbers),
            ids=None if self.ids is None else self.ids[numbers],
            kept=numbers if self.kept is None else self.kept[numbers],
        )

    @property
    def density(self) -> float:
        return self.rows.nonzero / (self.n * self.d)

    def summary(self) -> str:
        kind = "sparse" if self.rows.sparse else "dense"
        if self.rows.lazy:
            return f"{self.source}: {self.n:,} rows x {self.d:,} columns, {kind}, not loaded whole"
        return (
            f"{self.source}: {self.n:,} rows x {self.d:,} columns, {kind}, "
            f"{self.rows.nbytes / 1e6:,.1f} MB, density {self.density:.3g}"
        )

    def digest(self, salt: bytes) -> str:
        """A salted digest by which a party recognises its own data; it never leaves the party."""
        h = hashlib.blake2b(salt, digest_size=32)
        h.update(json.dumps([self.n, self.d, self.features]).encode())
        for digest in self.rows.group_digests():
            h.update(digest)
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


def load(path: Path, *, vector: bool = False, wanted: RowsWanted | None = None) -> Data:
    """Read a party's rows and check that they are numbers; with `vector` one row, which may be a plain vector."""
    wanted = wanted or RowsWanted()
    if in_pieces(path, wanted.reading):
        from pdml_spdz.rows.piecewise import read_pieces  # with Dask

        try:
            loaded = read_pieces(path, wanted)
        except RecursionError:
            found = f"{path} cannot be read: what describes it is nested thousands deep."
            raise InputError(found, "a directory as its library writes it", "write or copy it again") from None
        return _left(_checked(loaded, str(path), path.name, wanted.agreed, vector=vector), wanted)
    if not path.is_file():
        raise InputError(f"{path} is not there.", "a file with this party's rows", "check the path after --data")
    ending = ending_of(path)
    try:
        if wanted.reading.triplets:
            loaded = read_triplets(path, ending, wanted)
        elif ending in TABLES.lines:
            loaded = TABLES[ending](path, wanted)
        else:
            loaded = chosen(Loaded(*READERS[ending](path)), wanted, str(path))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - many libraries' words for a file that is broken
        raise InputError(
            f"{path} cannot be read as {ending}: {(str(error) or type(error).__name__).rstrip('.')}.",
            "a file that is whole, of the kind that its ending says",
            "write or copy the file again",
        ) from None
    return _left(_checked(loaded, str(path), path.name, wanted.agreed, vector=vector), wanted)


def _left(data: Data, wanted: RowsWanted) -> Data:
    """The rows that their party wants to be there."""
    for path in wanted.reading.exclude:
        data = data.without(read_names(Path(path)), Path(path).name)
    return data


def read_names(path: Path) -> list[str]:
    """What rows are called, one a line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}).", "ids of rows, or their numbers from 0, one a line"
        ) from None
    return [line.strip() for line in lines if line.strip()]


def in_pieces(path: Path, reading: Reading) -> bool:
    """Whether this names rows that are not loaded whole: a directory, a pattern, a Zarr array, Parquet on a cluster."""
    pattern = any(sign in path.name for sign in "*?") and not path.is_file()
    there = bool(reading.dask) and (path.suffix == ".parquet" or not path.exists())  # maybe at the workers only
    return there or path.suffix == ".zarr" or path.is_dir() or pattern


def is_collection(given: Any) -> bool:
    """An array or data frame of Dask."""
    return hasattr(given, "__dask_graph__") and hasattr(given, "to_delayed")


def ending_of(path: Path) -> str:
    """By which a file's reader is known: with what was packed, if it is packed."""
    suffix = path.suffix.lower()
    ending = "".join(path.suffixes[-2:]).lower() if suffix in PACKED else suffix
    if ending in READERS.lines or ending in TABLES.lines:  # to look for those of other packages takes long
        return ending
    known = {name.lower() for name in (*READERS.names(), *TABLES.lines)}
    if ending not in known:
        found = f"{path} has an ending that is not known ({ending or 'none'!r})."
        raise InputError(found, f"one of {', '.join(sorted(known))}", OTHER_ENDINGS.get(ending, RENAME))
    return ending


def from_rows(given: Any, source: str, *, vector: bool = False, wanted: RowsWanted | None = None) -> Data:
    """Rows that are there: an array, a sparse matrix, a table of pandas, polars or Arrow, whose columns have names, or
    Rows.
    """
    if isinstance(given, Data):
        return given
    wanted = wanted or RowsWanted()
    return _left(_checked(_in_memory(given, source, wanted), source, source, wanted.agreed, vector=vector), wanted)


def _in_memory(given: Any, source: str, wanted: RowsWanted) -> Loaded:
    if is_collection(given):
        from pdml_spdz.rows.piecewise import of_collection  # with Dask

        return of_collection(given, source, wanted)
    if is_table(given) or is_series(given):
        return read_table(given, source, wanted)
    if np.ma.is_masked(given):
        raise InputError(f"{source} has masked entries.", "finite numbers", IMPUTE)
    if hasattr(given, "collect_schema"):
        raise InputError(f"{source} is a query of polars that has not run.", "a table", "call its collect() first")
    try:
        array = given if isinstance(given, Rows) or is_sparse(given) else np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise InputError(
            f"{source} is not an array: {error}.", "an array of shape (n, d), a table, or a path"
        ) from None
    if array.dtype == object:
        raise InputError(f"{source} is not an array of numbers.", "an array of shape (n, d), a table, or a path")
    return chosen(Loaded(array, None), wanted, source)


def _checked(loaded: Loaded, where: str, source: str, agreed: RowSettings, *, vector: bool) -> Data:
    X, features, aside = loaded
    if vector:
        X = X[None, :] if X.ndim == 1 and X.size else X
        if X.ndim == 2 and X.shape[0] != 1 and not getattr(X, "lazy", False):  # of which the column sums are taken
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
    if X.shape[1] > MOST_COLUMNS:  # a sparse file of some bytes can say that it has any number
        raise InputError(f"{where} has {X.shape[1]:,} columns.", f"at most {MOST_COLUMNS:,}", "look at the file's head")
    if features is not None:
        names.check(features, X.shape[1], where)
    rows = as_rows(X, order="C")
    whole = Data(rows, features, source, ids=None if aside is None else _identifiers(aside[:, 0], where))
    if rows.lazy or all(finite(values) for values in rows.stored()):
        return whole
    return missing.handled(whole, where, agreed.missing)


def _identifiers(ids: NDArray[Any], where: str) -> NDArray[Any]:
    """One for each row, all different."""
    absent = [row for row, text in enumerate(ids) if text is None]
    if absent:
        found = f"{where}: {len(absent):,} rows have no identifier, the first of them row {absent[0] + 1}."
        raise InputError(found, "one for each row")
    different, first, counts = np.unique(ids.astype(str), return_index=True, return_counts=True)
    if len(different) < len(ids):
        row = int(np.min(first[counts > 1]))
        raise InputError(
            f"{where}: {int(np.sum(counts > 1)):,} identifiers are there more than once, that of row {row + 1} first.",
            "one row for each",
            "leave the others out, make them different, or choose another --id-column",
        )
    return ids
