"""Rows that are not loaded whole, of what people have: directories and patterns of Parquet files, Zarr, Dask's
collections.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.rows.blocked import Blocked, BlockStore
from pdml_spdz.rows.choosing import ColumnPlan
from pdml_spdz.rows.frames import Loaded, needs_pyarrow, table_plan
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.pieces import ParquetPiece, ValuePiece
from pdml_spdz.rows.reading import Reading, RowsWanted
from pdml_spdz.rows.workers import Workers, workers_of


def read_pieces(path: Path, wanted: RowsWanted) -> Loaded:
    """A directory or pattern of Parquet files, or a Zarr array: only their heads are read now."""
    workers = workers_of(wanted.reading)
    refuse_aside(wanted.reading, str(path))
    if path.suffix == ".zarr":
        return _zarr(path, wanted, workers)
    found: list[tuple[ParquetPiece, int]] = workers.call(parquet_pieces, str(path), wanted)
    plan = found[0][0].plan
    store = BlockStore(workers, [piece for piece, _ in found], [n for _, n in found], plan.d, False)
    return Loaded(Blocked(store), plan.features)


def refuse_aside(reading: Reading, where: str) -> None:
    if reading.id_column or reading.triplets:
        raise InputError(
            f"{where} is not loaded whole, and --id-column and --triplets need all rows at once.",
            "a single file for these",
            "leave identifiers out (--drop): coefficients come in the order of the files and their rows",
        )


def parquet_pieces(pattern: str, wanted: RowsWanted) -> list[tuple[ParquetPiece, int]]:
    """For each row group of all files, in the order of their names, where it is and how many rows it has."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise needs_pyarrow(pattern) from None
    within = os.path.join(glob.escape(pattern), "**", "*.parquet") if Path(pattern).is_dir() else pattern  # noqa: PTH118
    paths = sorted(glob.glob(within, recursive=True))  # noqa: PTH207 - a pattern with directories in it
    if not paths:
        raise InputError(
            f"{pattern} has no Parquet files.", "at least one .parquet file", "check the path after --data"
        )
    found, first = [], None
    for path in paths:
        with pq.ParquetFile(path) as file:
            schema, heads = file.schema_arrow, file.metadata
            made = table_plan(schema, wanted, path)
            first = first or made
            _refuse_other(made, first)
            whole = made.read == tuple(range(len(schema.names)))
            groups = [heads.row_group(g).num_rows for g in range(heads.num_row_groups)]
        found += [(ParquetPiece(path, g, made, whole), n) for g, n in enumerate(groups) if n]
    if not found:
        raise InputError(f"{pattern} has files and no rows.", "at least one row", "leave this party out")
    return found


def _refuse_other(made: ColumnPlan, first: ColumnPlan) -> None:
    if made.features != first.features:
        raise InputError(
            f"{made.where} has other columns, or another order of them, than {first.where}.",
            "the same columns in all files of a party",
        )


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
    opened: Any = zarr.open(str(path), mode="r")
    held: Any = opened["X"] if hasattr(opened, "keys") and "X" in opened else opened
    if not hasattr(held, "shape"):
        raise InputError(f"{path} holds a group of arrays.", 'one array, or one called "X"')
    listed = held.attrs.get("features") or opened.attrs.get("features")
    return of_collection(da.from_zarr(held), str(path), wanted, workers, None if listed is None else tuple(listed))


def of_collection(
    given: Any, where: str, wanted: RowsWanted, workers: Workers | None = None, names: Names | None = None
) -> Loaded:
    """Rows of an array or data frame of Dask, whose chunks stay where they are."""
    workers = workers or workers_of(wanted.reading)
    refuse_aside(wanted.reading, where)
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
    values = [ValuePiece(part, made) for part in parts]
    lengths = list(workers.each(len, parts, [()] * len(parts)))
    return Loaded(Blocked(BlockStore(workers, values, lengths, made.d, False)), made.features)
