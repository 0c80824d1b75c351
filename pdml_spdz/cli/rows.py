"""Rows of one's own, for commands that send nothing, and what they are called."""

from __future__ import annotations

from pathlib import Path

from pdml_spdz.rows import data as data_files
from pdml_spdz.rows.data import Data


def read_rows(path: Path) -> Data:
    return data_files.load(path)


def row_names(data: Data) -> list[str]:
    """Ids of the rows, or their numbers from 0."""
    ids = getattr(data, "ids", None)
    return [str(i) for i in range(data.n)] if ids is None else [str(name) for name in ids]
