"""Populations for the privacy experiments, from the data sets of the other experiments."""

from __future__ import annotations

from pathlib import Path

from benchmarks.experiments import datasets, official, uplift
from pdml_spdz.rows.base import RowsLike


def has(directory: Path, name: str) -> bool:
    return official.has(directory, name)


def texts(directory: Path, name: str, terms: int, limit: int) -> RowsLike:
    """TF-IDF rows of a corpus."""
    return uplift.texts(directory, name, terms, limit)


def ratings(directory: Path) -> RowsLike:
    return datasets.ratings(directory)
