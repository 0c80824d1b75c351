"""Rows and the names of their columns, out of files.

Every reader returns an array, a sparse matrix or Rows as they are there and the names, or None; `data` checks both.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.registry import Line, Registry
from pdml_spdz.rows.base import BLOCK, Rows, RowsLike, as_rows, is_sparse
from pdml_spdz.rows.choosing import plan
from pdml_spdz.rows.frames import Loaded, block_of, read_table, table_plan, texts_of
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.reading import RowsWanted

Columns: TypeAlias = tuple[RowsLike, Names | None]
ROWS = 65_536  # of a batch, at most
STREAM = b"\xff\xff\xff\xff"  # with which a message of Arrow begins
PACKED = (".gz", ".bz2", ".zst", ".lz4")
RENAME = "call the file by what it is: .csv for a text with separators, .parquet for Parquet"
_SAVE = "save the sheet as CSV (UTF-8)"
_EXPORT = "export the table as CSV or Parquet"
OTHER_ENDINGS = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), _SAVE),
    **dict.fromkeys(
        (".sav", ".dta", ".sas7bdat", ".rds", ".rdata", ".mat", ".db", ".sqlite", ".json", ".xml"), _EXPORT
    ),
}


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


def read_parquet(path: Path, wanted: RowsWanted) -> Loaded:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        return _batches_read(file.schema_arrow, file.iter_batches, file.metadata.num_rows, str(path), wanted)


def read_feather(path: Path, wanted: RowsWanted) -> Loaded:
    """Arrow's own format, in a file of it or as a stream."""
    from pyarrow import feather

    with path.open("rb") as file:
        stream = file.read(len(STREAM)) == STREAM
    if stream:
        import pyarrow as pa

        with pa.ipc.open_stream(str(path)) as reader:
            return read_table(reader.read_all(), str(path), wanted)
    return read_table(feather.read_table(path, memory_map=True), str(path), wanted)


def _batches_read(schema: Any, batches: Callable[..., Iterator[Any]], n: int, where: str, wanted: RowsWanted) -> Loaded:
    """Rows that come in batches, into one array: there is no second copy of them."""
    made = table_plan(schema, wanted, where)
    X, aside, at = np.empty((n, made.d)), [], 0
    inner = made.within()
    whole = made.read == tuple(range(len(schema.names)))
    chosen = None if whole else [made.names[j] for j in made.read]
    for batch in batches(batch_size=max(1, min(ROWS, BLOCK // made.d)), columns=chosen):
        # Of a name with a dot in it Parquet finds more than was asked for, and all in the order of the file.
        block, texts = block_of(batch if chosen is None else batch.select(chosen), inner)
        X[at : at + len(block)] = block
        at += len(block)
        aside += [] if texts is None else [texts]
    return Loaded(X, made.features, np.concatenate(aside) if aside else None)


def read_h5ad(path: Path, wanted: RowsWanted) -> Loaded:
    """The matrix X of AnnData: observations are rows, variables are columns."""
    try:
        import anndata
    except ImportError:
        raise needs("anndata", path) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of names that are there twice, which are refused
        held = anndata.read_h5ad(path)
    if held.X is None:
        raise InputError(f"{path} has no matrix X.", "observations x variables in X")
    X = held.X.tocsr() if is_sparse(held.X) else np.asarray(held.X)
    names = tuple(map(str, held.var_names))
    return chosen(Loaded(X, names, np.array([[str(n)] for n in held.obs_names], dtype=object)), wanted, str(path))


def chosen(loaded: Loaded, wanted: RowsWanted, where: str) -> Loaded:
    """Some columns of what has been read as a whole."""
    own, agreed = wanted.reading, wanted.agreed
    if agreed.plain and not own.id_column:
        return loaded
    if loaded.features is None:
        found = f"{where} has no names for its columns."
        raise InputError(found, "names, by which columns are chosen", "leave --columns, --drop and --id-column out")
    if agreed.encode:
        found = f"{where} holds an array of numbers, and `encode` is for tables."
        raise InputError(found, "a table (.csv, .parquet, ...)")
    made = plan(loaded.features, wanted, where)
    rows = as_rows(loaded.X)
    aside = loaded.aside
    for j in made.aside:
        aside = texts_of(rows.columns([j]).dense()[:, 0])[:, None]
    return Loaded(rows.columns([source.j for source in made.sources]), made.features, aside)


def needs(package: str, path: Path) -> InputError:
    found = f"{path} needs the package {package}, which is not installed."
    return InputError(found, do=f"pip install {package}")


_HERE = "pdml_spdz.rows.formats:read_"
READERS: Registry[Callable[[Path], Columns]] = Registry(
    "reader", {ending: Line(f"{_HERE}{ending[1:]}") for ending in (".npy", ".npz", ".mtx")}
)
# Of tables whose columns are chosen while they are read.
_TEXT = "pdml_spdz.rows.delimited:read_delimited"
TABLES: Registry[Callable[[Path, RowsWanted], Loaded]] = Registry(
    "table",
    {
        **{f"{ending}{packed}": Line(_TEXT) for ending in (".csv", ".tsv") for packed in ("", *PACKED)},
        ".parquet": Line(f"{_HERE}parquet"),
        ".feather": Line(f"{_HERE}feather"),
        ".arrow": Line(f"{_HERE}feather"),
        ".h5ad": Line(f"{_HERE}h5ad"),
    },
)
