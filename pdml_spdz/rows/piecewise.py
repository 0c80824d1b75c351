"""Rows that are not loaded whole, of what people have: directories and patterns of Parquet files, Zarr, Dask's
collections.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.rows.blocked import Blocked, BlockStore
from pdml_spdz.rows.choosing import ColumnPlan
from pdml_spdz.rows.copies import refuse_copies
from pdml_spdz.rows.frames import Loaded, table_plan
from pdml_spdz.rows.names import Names, listed, positions, quoted
from pdml_spdz.rows.pieces import ParquetPiece, Unseen, ValuePiece, unreadable
from pdml_spdz.rows.reading import Reading, RowsWanted
from pdml_spdz.rows.workers import Workers, workers_of

BESIDE = (
    ".csv",
    ".tsv",
    ".feather",
    ".arrow",
    ".npy",
    ".npz",
    ".h5ad",
    ".mtx",
    ".parq",
    ".pq",
    ".orc",
    ".avro",
    ".xlsx",
)
PARQUET = ".parquet"


def read_pieces(path: Path, wanted: RowsWanted) -> Loaded:
    """A directory or pattern of Parquet files, or a Zarr array: only their heads are read now."""
    workers = workers_of(wanted.reading)
    refuse_triplets(wanted.reading, str(path))
    if path.suffix == ".zarr":
        return _zarr(path, wanted, workers)
    pieces: list[ParquetPiece] = workers.call(parquet_pieces, str(path), wanted)
    return _loaded(workers, pieces, [piece.n for piece in pieces], pieces[0].plan)


def _loaded(workers: Workers, pieces: Sequence[Any], lengths: Sequence[int], plan: ColumnPlan) -> Loaded:
    """Of all rows nothing is read but what is kept aside."""
    store = BlockStore(workers, pieces, lengths, plan.d, False)
    aside = [*workers.each(_aside, pieces, [()] * len(pieces))] if plan.aside else None
    return Loaded(Blocked(store), plan.features, None if aside is None else np.concatenate(aside))


def _aside(piece: Any) -> Any:
    return piece.aside()


def refuse_triplets(reading: Reading, where: str) -> None:
    if reading.triplets:
        raise InputError(
            f"{where} is not loaded whole, and a user's entries may be in any of its files.",
            "a single file of triplets, or one row for each user",
        )


def parquet_pieces(pattern: str, wanted: RowsWanted) -> list[ParquetPiece]:
    """Each row group of all files, in the order of their names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = _within(pattern) if Path(pattern).is_dir() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not paths:
        raise InputError(
            f"{pattern} has no Parquet files.", "at least one .parquet file", "check the path after --data"
        )
    found: list[ParquetPiece] = []
    first = None
    for path in paths:
        try:
            heads = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from None
        made = table_plan(heads.schema.to_arrow_schema(), wanted, path)
        first = first or made
        made = _in_order_of(first, made)
        groups = [heads.row_group(g).num_rows for g in range(heads.num_row_groups)]
        columns = Unseen(made)
        found += [ParquetPiece(path, g, columns, n) for g, n in enumerate(groups) if n]
    if not found:
        raise InputError(f"{pattern} has files and no rows.", "at least one row", "leave this party out")
    try:
        refuse_copies(dict.fromkeys(piece.path for piece in found))
    except OSError as error:
        raise unreadable(error.filename, error) from None
    return found


def _in_order_of(first: ColumnPlan, made: ColumnPlan) -> ColumnPlan:
    """The same plan with its features in the order of the first file's."""
    names, wanted = ([plan.names[source.j] for source in plan.sources] for plan in (made, first))
    order = positions(tuple(names), tuple(wanted), made.where, first.where)
    return replace(made, sources=tuple(made.sources[j] for j in order))


def _within(directory: str) -> list[str]:
    """The Parquet files of a directory and of those in it; names that begin with _ or . are, as elsewhere, those of
    programs that write such files. Tables that would be left out without a word are refused.
    """
    found = glob.glob(os.path.join(glob.escape(directory), "**", "*"), recursive=True)  # noqa: PTH118, PTH207 - links
    inner = {path: Path(path).relative_to(directory) for path in sorted(found) if Path(path).is_file()}
    inner = {path: name for path, name in inner.items() if not any(part[0] in "_." for part in name.parts)}
    paths = [path for path, name in inner.items() if name.suffix.lower() == PARQUET]
    beside = [str(name) for path, name in inner.items() if path not in paths and _is_table(name)]
    if beside and paths:
        raise InputError(
            f"{directory} has other tables beside its Parquet files: {listed(beside)}.",
            "files of one format",
            f"name the files by a pattern: --data '{Path(directory) / '*.parquet'}'",
        )
    if beside:
        raise InputError(
            f"{directory} has no Parquet files, but other tables: {listed(beside)}.",
            "a directory of .parquet files, or a single file of another format",
            "write the rows as Parquet, or put them into one file",
        )
    keys = sorted({part.partition("=")[0] for path in paths for part in inner[path].parts if "=" in part})
    if keys:
        raise InputError(
            f"{directory} has columns that are in the names of its directories only: {quoted(keys)}.",
            "all features in the files themselves",
            f"write them into the files, or leave them out by a pattern: --data '{Path(directory) / '*/*.parquet'}'",
        )
    return paths


def _is_table(name: Path) -> bool:
    """By its ending, whether it is packed, or being written."""
    return any(ending.lower() in (*BESIDE, PARQUET) for ending in name.suffixes)


def _zarr(path: Path, wanted: RowsWanted, workers: Workers) -> Loaded:
    try:
        import dask.array as da
        import zarr
    except ImportError:
        raise InputError(
            f"{path} needs the package zarr, which is not installed.", do="pip install zarr 'dask[array]'"
        ) from None
    if not path.is_dir():
        raise InputError(f"{path} is not there.", "a Zarr array with this party's rows", "check the path after --data")
    try:
        opened: Any = zarr.open(str(path), mode="r")
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read as Zarr: {error}.", "a Zarr array with this party's rows") from None
    if opened.attrs.get("encoding-type") == "anndata":
        return _annotated(opened, path, wanted, workers)
    held: Any = opened["X"] if hasattr(opened, "keys") and "X" in opened else opened
    if not hasattr(held, "shape"):
        raise InputError(f"{path} holds a group of arrays.", 'one array, or one called "X"')
    stored = held.attrs.get("features") or opened.attrs.get("features")
    return of_collection(da.from_zarr(held), str(path), wanted, workers, None if stored is None else tuple(stored))


def _annotated(opened: Any, path: Path, wanted: RowsWanted, workers: Workers) -> Loaded:
    """The matrix X of AnnData in a Zarr group; a sparse one is read whole, as from .h5ad."""
    import dask.array as da

    from pdml_spdz.rows.formats import chosen, needs

    try:
        from anndata.io import read_elem
    except ImportError:
        raise needs("anndata", path) from None
    if "X" not in opened:
        raise InputError(f"{path} has no matrix X.", "observations x variables in X")
    names = tuple(map(str, read_elem(opened["var"]).index))
    ids = np.array([[str(name)] for name in read_elem(opened["obs"]).index], dtype=object)
    held: Any = opened["X"]
    if hasattr(held, "shape"):
        X = of_collection(da.from_zarr(held), str(path), RowsWanted(), workers).X
    else:
        X = read_elem(held).tocsr()
    return chosen(Loaded(X, names, ids), wanted, str(path))


def of_collection(
    given: Any, where: str, wanted: RowsWanted, workers: Workers | None = None, names: Names | None = None
) -> Loaded:
    """Rows of an array or data frame of Dask, whose chunks stay where they are."""
    workers = workers or workers_of(wanted.reading)
    refuse_triplets(wanted.reading, where)
    if hasattr(given, "columns"):
        return _of_frame(given, where, wanted, workers)
    if given.ndim != 2:
        raise InputError(f"{where} holds an array of shape {given.shape}.", "a table: rows x columns (two dimensions)")
    if given.dtype.kind not in "fiub":
        raise InputError(f"{where} holds entries of type {given.dtype}.", "real numbers")
    array = given.rechunk({1: -1}) if len(given.chunks[1]) > 1 else given
    if any(np.isnan(n) for n in array.chunks[0]):
        array = array.compute_chunk_sizes()
    values = [ValuePiece(chunk) for chunk in array.to_delayed()[:, 0]]
    sparse = hasattr(array._meta, "tocsr")
    rows = Blocked(BlockStore(workers, values, list(map(int, array.chunks[0])), int(array.shape[1]), sparse))
    from pdml_spdz.rows.formats import chosen

    return chosen(Loaded(rows, names), wanted, where)


def _of_frame(given: Any, where: str, wanted: RowsWanted, workers: Workers) -> Loaded:
    from pdml_spdz.rows.choosing import plan
    from pdml_spdz.rows.frames import check_types, column_texts, column_types

    empty = given._meta
    made = plan(column_texts(empty, where), wanted, where)
    check_types(made, column_types(empty), where)
    parts = list(given.to_delayed())
    columns = Unseen(made)
    values = [ValuePiece(part, columns) for part in parts]
    lengths = list(workers.each(len, parts, [()] * len(parts)))
    return _loaded(workers, values, lengths, made)
