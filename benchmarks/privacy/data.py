"""Populations for the privacy experiments, from the data sets of the other experiments."""

from __future__ import annotations

from pathlib import Path

import scipy.sparse as sp

from benchmarks.experiments import datasets, official, uplift
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.system.files import replaced

CACHE = Path("runs/privacy/cache")


def has(directory: Path, name: str) -> bool:
    return official.has(directory, name)


def texts(directory: Path, name: str, terms: int, limit: int) -> RowsLike:
    """TF-IDF rows of a corpus; kept in runs/, since stemming takes longer than most experiments."""
    kept = CACHE / f"{name}-{terms}-{limit}.npz"
    if not kept.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with replaced(kept) as temporary, temporary.open("wb") as file:
            sp.save_npz(file, uplift.tf_idf_rows(datasets.corpus(directory, name, terms, limit)))
    return sp.csr_array(sp.load_npz(kept))


def ratings(directory: Path) -> RowsLike:
    return datasets.ratings(directory)
