"""A file with one entry a line (row, feature, value: who rated what how) as sparse rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.rows.formats import TABLES
from pdml_spdz.rows.frames import Loaded
from pdml_spdz.rows.names import Names, listed
from pdml_spdz.rows.reading import Reading, RowsWanted


def read_triplets(path: Path, ending: str, wanted: RowsWanted) -> Loaded:
    """Rows are users, in the order in which they come, and stay here; columns are the study's features.

    Entries that the file has twice, and features that the study does not list, are refused by count.
    """
    if not wanted.features:
        raise InputError(
            f"{path} is read as triplets, and the parties have not agreed on a list of features.",
            "`features` in the study: the same columns at every party",
            "--features-from FILE makes such a list, for `init` too",
        )
    users, items, values = entries(path, ending, wanted.reading)
    place = {name: j for j, name in enumerate(wanted.features)}
    unknown = [item for item in items if item not in place]
    if unknown:
        raise InputError(
            f"{path} has {len(unknown):,} entries of {len(set(unknown)):,} features that the study does not list: "
            f"{listed(sorted(set(unknown)))}.",
            "features of the study's list",
            "leave these entries out, or agree on a longer list",
        )
    ids, rows = _numbered(users)
    columns = np.array([place[item] for item in items], np.int64)
    _refuse_twice(rows * len(place) + columns, path, users, items)
    import scipy.sparse as sp

    X = sp.csr_array((values, (rows, columns)), shape=(len(ids), len(place)))
    return Loaded(X, wanted.features, ids[:, None])


def entries(path: Path, ending: str, reading: Reading) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """(users, items, values) of every line."""
    if ending not in TABLES.lines:
        raise InputError(f"{path} is read as triplets.", "a table with a column for each (.csv, .tsv, .parquet, ...)")
    loaded = TABLES[ending](path, RowsWanted(reading))
    values, texts = np.asarray(loaded.X, np.float64)[:, 0], loaded.aside
    assert texts is not None  # what triplets are read for
    absent_texts = [np.array([text is None for text in column]) for column in texts.T]
    for name, absent in zip(reading.triplets, (*absent_texts, ~np.isfinite(values)), strict=True):
        if absent.any():
            raise InputError(
                f"{path}: column {name!r} has {int(absent.sum()):,} values that are missing or not finite, the first "
                f"in row {int(np.argmax(absent)) + 1}.",
                "all three in every line",
                "leave such lines out: what is not there is missing",
            )
    return texts[:, 0], texts[:, 1], values


def items_of(path: Path, ending: str, reading: Reading) -> Names:
    """The features of a file of triplets, in alphabetical order."""
    return tuple(sorted(set(entries(path, ending, reading)[1])))


def _numbered(texts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different texts in the order in which they come, and for each text which of them it is."""
    place: dict[str, int] = {}
    numbers = np.array([place.setdefault(text, len(place)) for text in texts], np.int64)
    return np.array(list(place), dtype=object), numbers


def _refuse_twice(keys: NDArray[np.int64], path: Path, users: NDArray[Any], items: NDArray[Any]) -> None:
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(again):
        second = int(np.min(order[again + 1]))
        raise InputError(
            f"{path} has {len(again):,} entries more than once, the first in row {second + 1} "
            f"({users[second]!r}, {items[second]!r}).",
            "one value for each pair",
            "keep the last one, or their mean",
        )
