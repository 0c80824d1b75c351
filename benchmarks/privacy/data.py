"""Populations for the privacy experiments, from the data sets of the other experiments."""

from __future__ import annotations

from pathlib import Path

import scipy.sparse as sp

from benchmarks.experiments import datasets, official
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows
from pdml_spdz.storage import replaced

CACHE = Path("runs/privacy/cache")


def has(directory: Path, name: str) -> bool:
    return official.has(directory, name)


def texts(directory: Path, name: str, terms: int, limit: int) -> Rows:
    """TF-IDF rows of a corpus; kept in runs/, since stemming takes longer than most experiments."""
    kept = CACHE / f"{name}-{terms}-{limit}.npz"
    if not kept.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        with replaced(kept) as temporary, temporary.open("wb") as file:
            sp.save_npz(file, _texts(directory, name, terms, limit))
    return sp.csr_array(sp.load_npz(kept))


def _texts(directory: Path, name: str, terms: int, limit: int) -> Rows:
    corpus = datasets.corpus(directory, name, terms, limit)
    counts = term_counts(corpus.documents, corpus.d)
    return tf_idf(counts, idf(*document_frequencies(counts)))


def ratings(directory: Path) -> Rows:
    return datasets.ratings(directory)


def table(directory: Path, name: str) -> tuple[Reals, Reals]:
    """(X, y), columns of deviation 1."""
    X, y = datasets.regression_table(directory, name)
    deviation = X.std(axis=0)
    return X[:, deviation > 0] / deviation[deviation > 0], y
