"""A party's rows: .npy, .npz (dense or scipy.sparse), .csv/.csv.gz, .mtx, .parquet."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import scipy.io
import scipy.sparse as sp

from pdml_spdz.errors import InputError
from pdml_spdz.linalg import Rows, as_rows, dense, entries


@dataclass(frozen=True)
class Data:
    """Rows X of shape (n, d), float64, dense (C order) or CSR,
    and the names of their columns where the file has them.
    """

    X: Rows
    features: tuple[str, ...] | None
    source: str

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


def read_vector(path: Path) -> tuple[float, ...]:
    """The numbers of a file with a single row."""
    X = load(path, vector=True).X
    return tuple(float(x) for x in dense(X)[0])


def feature_digest(d: int, features: tuple[str, ...] | None) -> str:
    """Names and order of the features (or only their number), to be compared between parties."""
    return hashlib.sha256(json.dumps([d, features]).encode()).hexdigest()


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
        X, features = reader(path)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - five libraries' words for a file that is broken
        raise InputError(f"{path} cannot be read as {suffix}: {error}.", "a table of numbers") from None
    if vector:
        X = X[None, :] if X.ndim == 1 and X.size else X
        if X.ndim == 2 and X.shape[0] != 1:
            raise InputError(
                f"{path} holds {X.shape[0]} rows.", "one vector: a single row, or an array of one dimension"
            )
    return _checked(X, features, path)


def _checked(X: Rows, features: tuple[str, ...] | None, path: Path) -> Data:
    if X.ndim != 2:
        raise InputError(f"{path} holds an array of shape {X.shape}.", "a table: rows x columns (two dimensions)")
    if X.dtype.kind not in "fiub":
        raise InputError(f"{path} holds entries of type {X.dtype}.", "real numbers")
    if 0 in X.shape:
        raise InputError(
            f"{path} has {X.shape[0]} rows and {X.shape[1]} columns.", "at least one of each", "leave this party out"
        )
    X = as_rows(X)
    values = entries(X)
    # A sum is finite only if every entry is; the exact search (which needs memory) is made only if it is not.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious and not np.all(np.isfinite(values)):
        raise InputError(f"{path} has entries that are not finite{_where(X)}.", "finite numbers", _IMPUTE)
    if features is not None and len(features) != X.shape[1]:
        raise InputError(f"{path} names {len(features)} features for {X.shape[1]} columns.", "one name for each column")
    if features is not None and len(set(features)) != len(features):
        twice = sorted({name for name in features if features.count(name) > 1})[:3]
        raise InputError(f"{path} names features twice: {', '.join(twice)}.", "distinct names")
    return Data(X, features, path.name)


_IMPUTE = "fill in or drop missing values (NaN) and infinities first"


def _where(X: Rows) -> str:
    if sp.issparse(X):
        return ""
    row, column = np.argwhere(~np.isfinite(X))[0]
    return f" (the first in row {row + 1}, column {column + 1})"


def _read_npy(path: Path) -> tuple[Rows, None]:
    return np.load(path, allow_pickle=False), None


def _read_npz(path: Path) -> tuple[Rows, tuple[str, ...] | None]:
    with np.load(path, allow_pickle=False) as archive:
        names = tuple(str(name) for name in archive["features"]) if "features" in archive else None
        if "format" in archive:
            return _trusted(sp.load_npz(path)), names
        keys = [key for key in archive.files if key != "features"]
        if "X" not in keys and len(keys) != 1:
            raise InputError(f"{path} holds {keys}.", 'one array, or one called "X" (and maybe "features")')
        return archive["X" if "X" in keys else keys[0]], names


def _trusted(X: Rows) -> Rows:
    """X in CSR, after a look at what compiled code would take on trust: indices in range, each entry once."""
    if hasattr(X, "check_format"):
        X.check_format(full_check=True)
    X = sp.csr_array(X)
    X.sum_duplicates()
    return X


def _read_csv(path: Path) -> tuple[Rows, tuple[str, ...]]:
    def text() -> IO[str]:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return path.open("r", encoding="utf-8-sig", newline="")

    with text() as file:
        names = tuple(name.strip() for name in next(csv.reader(file), ()))
    if not names:
        raise InputError(f"{path} is empty.", "a header line and one line for each row")
    if all(_is_number(name) for name in names):
        raise InputError(
            f"{path} has no header: its first line is all numbers.",
            "the names of the features in the first line",
            "put the same header line into every party's file",
        )
    with text() as file:
        next(file)
        first = next(file, None)
    if first is None:
        raise InputError(f"{path} has a header and no rows.", "at least one row", "leave this party out")
    with text() as file:
        X = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2, dtype=np.float64, quotechar='"', comments=None)
    return X, names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_mtx(path: Path) -> tuple[Rows, None]:
    matrix = scipy.io.mmread(path, spmatrix=False)
    return (sp.csr_array(matrix) if sp.issparse(matrix) else matrix), None


def _read_parquet(path: Path) -> tuple[Rows, tuple[str, ...]]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"{path} needs the package pyarrow, which is not installed.", do="pip install 'pdml-spdz[parquet]'"
        ) from None
    table = pq.read_table(path)
    try:
        columns = [column.to_numpy().astype(np.float64) for column in table.columns]
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} has a column that is not numeric ({error}).", "numbers in every column") from None
    X = np.column_stack(columns) if columns else np.empty((0, 0))
    return X, tuple(table.column_names)


READERS: dict[str, Callable[[Path], tuple[Rows, tuple[str, ...] | None]]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".mtx": _read_mtx,
    ".parquet": _read_parquet,
}
