"""Populations for the privacy experiments, from the data sets of the other experiments."""

from __future__ import annotations

from pathlib import Path

from benchmarks.experiments import datasets
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows


def has(directory: Path, name: str) -> bool:
    return datasets.has(directory, name)


def texts(directory: Path, name: str, terms: int, limit: int) -> Rows:
    """TF-IDF rows of a corpus."""
    corpus = datasets.corpus(directory, name, terms, limit)
    counts = term_counts(corpus.documents, corpus.d)
    return tf_idf(counts, idf(*document_frequencies(counts)))


def ratings(directory: Path) -> Rows:
    return datasets.ratings(directory)


def table(directory: Path, name: str) -> tuple[Reals, Reals]:
    """(X, y), columns of deviation 1."""
    X, y = datasets.regression_table(directory, name, 0)
    deviation = X.std(axis=0)
    return X[:, deviation > 0] / deviation[deviation > 0], y
