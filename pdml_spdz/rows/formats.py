"""Rows and the names of their columns, out of files and out of tables of other libraries.

Every reader returns an array, a sparse matrix or Rows as they are there and the names, or None; `data` checks both.
Tables of pandas and Arrow are known by what they offer: neither library is imported for them. Only columns of integers,
floating-point numbers, booleans and decimals are numbers; dates and texts would turn into some.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.registry import Line, Registry
from pdml_spdz.rows.base import Rows, RowsLike, is_sparse
from pdml_spdz.rows.names import Names, listed, refuse_index

Columns: TypeAlias = tuple[RowsLike, Names | None]
ARROW_NUMBER = re.compile(r"u?int\d+|halffloat|float|double|bool|decimal\d+\(.*\)")
MISSING = {"", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "null", "none", "?", "-", "--", "."}  # in lower case
CONVERT = "drop these columns, or make numbers of them first"


def read_npy(path: Path) -> Columns:
    return np.load(path, allow_pickle=False), None


def read_npz(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as archive:
        names = _stored_names(archive, path) if "features" in archive else None
        if "format" in archive:
            import scipy.sparse as sp

            return _trusted(sp.load_npz(path)), names
        keys = [key for key in archive.files if key != "features"]
        if "X" not in keys and len(keys) != 1:
            raise InputError(f"{path} holds {keys}.", 'one array, or one called "X" (and maybe "features")')
        X = archive["X" if "X" in keys else keys[0]]
    if not isinstance(X, np.ndarray):  # NumPy hands out the bytes of whatever else is in an archive
        raise InputError(f"{path} holds something that is no array.", 'one array, or one called "X"')
    return X, names


def _stored_names(archive: Any, path: Path) -> Names:
    try:
        stored = archive["features"]
    except ValueError:  # an array of objects, which only pickle could read
        stored = np.zeros(())
    if not isinstance(stored, np.ndarray) or stored.ndim != 1 or stored.dtype.kind != "U":
        raise InputError(
            f"{path} has `features` that are not a list of texts.",
            "an array of one dimension with one text for each column",
            "save features=np.array(names, dtype=str)",
        )
    return tuple(str(name) for name in stored)


def save(stem: Path, X: RowsLike, names: Names | None) -> Path:
    """A file with this stem from which its reader has the same rows and names."""
    X = X.unwrapped() if isinstance(X, Rows) else X
    if names is None and not is_sparse(X):
        np.save(path := stem.with_suffix(".npy"), X)
    else:
        save_npz(path := stem.with_suffix(".npz"), X, names)
    return path


def save_npz(path: Path, X: RowsLike, names: Names | None) -> None:
    """A file from which `read_npz` has the same rows and names."""
    with path.open("wb") as file:
        if is_sparse(X):
            import scipy.sparse as sp

            sp.save_npz(file, sp.csr_array(X))
        else:
            np.savez(file, X=X)
    if names is not None:
        held = io.BytesIO()
        np.save(held, np.array(names, dtype=str), allow_pickle=False)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("features.npy", held.getvalue())


def _trusted(X: Any) -> Any:
    """X in CSR, after a look at what compiled code would take on trust: indices in range, each entry once."""
    if hasattr(X, "check_format"):
        X.check_format(full_check=True)
    X = X.tocsr()
    X.sum_duplicates()
    return X


def read_csv(path: Path) -> Columns:
    with _text(path) as file:
        names = tuple(name.strip() for name in next((line for line in csv.reader(file) if line), []))
        _check_header(names, path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there is nothing to read
                X = np.loadtxt(file, delimiter=",", ndmin=2, dtype=np.float64, quotechar='"', comments=None)
        except ValueError as error:
            raise _no_number(error, names, path) from None
    if not X.size:
        raise InputError(f"{path} has a header and no rows.", "at least one row", "leave this party out")
    return X, names


def _text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open("r", encoding="utf-8-sig", newline="")


def _check_header(names: Names, path: Path) -> None:
    """A line that could be a row is not taken for the header: that row would be lost."""
    if not names:
        raise InputError(f"{path} is empty.", "a header line and one line for each row")
    numbers = [name for name in names if _is_number(name)]
    if numbers or {name.lower() for name in names} <= MISSING:
        found = f"there are numbers in its first line ({listed(numbers)})" if numbers else "its first line has no names"
        raise InputError(
            f"{path} has no header: {found}.",
            "the names of the features in the first line, none of them a number",
            "put the same header line into every party's file",
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _no_number(error: ValueError, names: Names, path: Path) -> InputError:
    """NumPy's message, with the column's name."""
    found = re.search(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", str(error))
    if found is None or not 0 < int(found[3]) <= len(names):
        return InputError(f"{path} cannot be read as .csv: {error}.", "a table of numbers")
    name, row = names[int(found[3]) - 1], int(found[2]) + 1
    return InputError(
        f"{path} cannot be read as .csv: column {name!r} has {found[1]} in row {row}.",
        "a table of numbers",
        "drop columns of texts and dates, or make numbers of them; fill in or drop missing values first",
    )


def read_mtx(path: Path) -> Columns:
    import scipy.io  # which takes long, and few have such files

    _check_mtx(path, *scipy.io.mminfo(path)[:4])
    matrix = scipy.io.mmread(path, spmatrix=False)
    return (matrix.tocsr() if is_sparse(matrix) else matrix), None


def _check_mtx(path: Path, rows: int, columns: int, entries: int, form: str) -> None:
    """Lines of numbers, no more than were promised: on others SciPy's reader goes beyond its memory."""
    with path.open(errors="replace") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there is nothing to read
        next((line for line in file if line.strip() and line[0] != "%"), None)  # the sizes
        found = len(np.loadtxt(file, comments="%", ndmin=2))
    most = rows * columns if form == "array" else entries
    if found > most:
        raise InputError(f"{path} has {found} entries.", f"{most}, as its head says")


def read_parquet(path: Path) -> Columns:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise _needs_pyarrow(str(path)) from None
    return read_table(pq.read_table(path), str(path))


def _needs_pyarrow(where: str) -> InputError:
    found = f"{where} needs the package pyarrow, which is not installed."
    return InputError(found, do="pip install pyarrow")


_HERE = "pdml_spdz.rows.formats:read_"
READERS: Registry[Callable[[Path], Columns]] = Registry(
    "reader",
    {
        ".npy": Line(f"{_HERE}npy"),
        ".npz": Line(f"{_HERE}npz"),
        ".csv": Line(f"{_HERE}csv"),
        ".csv.gz": Line(f"{_HERE}csv"),
        ".mtx": Line(f"{_HERE}mtx"),
        ".parquet": Line(f"{_HERE}parquet"),
    },
)


def is_table(value: Any) -> bool:
    """A data frame, or anything that hands out its columns by Arrow's C interface."""
    arrow = hasattr(value, "__arrow_c_stream__") and (hasattr(value, "columns") or hasattr(value, "schema"))
    return _is_frame(value) or hasattr(value, "column_names") or arrow


def is_series(value: Any) -> bool:
    """One column of pandas, whose labels name a vector's numbers."""
    return hasattr(value, "iloc") and hasattr(value, "index") and not hasattr(value, "columns")


def _is_frame(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("iloc", "columns", "dtypes"))


def read_table(value: Any, where: str) -> Columns:
    """The numbers and names of a table (`is_table`), or of a vector (`is_series`)."""
    table = check_table(value, where)
    if is_series(table):
        return table.to_numpy(dtype=np.float64, na_value=np.nan), _labels(table.index, where)
    names = column_names(table, where)
    if _is_frame(table):
        return table.to_numpy(dtype=np.float64, na_value=np.nan), names
    columns = [column.to_numpy(zero_copy_only=False).astype(np.float64) for column in table.columns]
    return (np.column_stack(columns) if columns else np.empty((0, 0))), names


def check_table(value: Any, where: str) -> Any:
    """The table, if all of its columns are numbers and none is an index; of an unknown library, as Arrow's."""
    if is_series(value):
        found = [] if _is_number_type(value.dtype) or _are_decimals(value) else [("values", value.dtype)]
    elif _is_frame(value):
        kinds = enumerate(zip(value.columns, value.dtypes, strict=True))
        odd = [(j, repr(label), kind) for j, (label, kind) in kinds if not _is_number_type(kind)]
        found = [(label, kind) for j, label, kind in odd if not _are_decimals(value.iloc[:, j])]
    else:
        value = value if hasattr(value, "to_batches") else _as_arrow(value, where)
        described = json.loads((value.schema.metadata or {}).get(b"pandas", b"{}"))
        refuse_index([name for name in described.get("index_columns", []) if name in value.column_names], where)
        types = [(repr(name), str(c.type)) for name, c in zip(value.column_names, value.columns, strict=True)]
        found = [(name, kind) for name, kind in types if not ARROW_NUMBER.fullmatch(kind)]
    if found:
        said = listed(f"{name} ({kind})" for name, kind in found)
        wanted = "integers, floating-point numbers, booleans or decimals in every column"
        raise InputError(f"{where} has columns that are not numbers: {said}.", wanted, CONVERT)
    return value


def _as_arrow(value: Any, where: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise _needs_pyarrow(where) from None
    return pa.Table.from_batches([value]) if isinstance(value, pa.RecordBatch) else pa.table(value)


def _is_number_type(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "iufb" or str(dtype).startswith("decimal")


def _are_decimals(column: Any) -> bool:
    """What pandas makes of decimals: objects."""
    return len(column) > 0 and all(isinstance(x, Decimal) for x in column)


def column_texts(table: Any, where: str) -> Names:
    """What a table (`check_table`) calls its columns, numbers as texts."""
    return _texts(table.columns, where) if _is_frame(table) else tuple(table.column_names)


def column_names(table: Any, where: str) -> Names | None:
    """The same where these are names."""
    return _labels(table.columns, where) if _is_frame(table) else tuple(table.column_names)


def _labels(labels: Any, where: str) -> Names | None:
    """Texts and whole numbers are names, but 0, 1, 2, ... is what pandas calls columns that have none."""
    texts = _texts(labels, where)
    return None if list(labels) == list(range(len(texts))) else texts


def _texts(labels: Any, where: str) -> Names:
    found = list(labels)
    if not all(isinstance(label, str | int | np.integer) and not isinstance(label, bool) for label in found):
        raise InputError(
            f"{where} has columns whose names are not texts: {listed(x for x in found if not isinstance(x, str))}.",
            "a text for each column",
        )
    return tuple(str(label) for label in found)
