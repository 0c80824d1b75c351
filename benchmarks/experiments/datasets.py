"""Rows for the experiments from the official data sets. Nothing of them is part of this project."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.experiments import official
from pdml_spdz.applications.recommender import RatingScale
from pdml_spdz.applications.text import Columns, Terms, Vocabulary, columns
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.system.files import replaced

CACHE = Path("runs/experiments/cache")
HELD_OUT = 0.2
STARS = RatingScale(1.0, 5.0)


@dataclass(frozen=True)
class Corpus:
    """documents : each as the columns of its terms, in their order; d : number of terms"""

    documents: list[Columns]
    d: int


@cache
def corpus(directory: Path, name: str, terms: int, limit: int) -> Corpus:
    """Stemmed words without stop words; the vocabulary is the most frequent ones, a public list. Kept in runs/, since
    stemming takes longer than most experiments.

    limit : so many documents at most, spread over the file; 0: all
    """
    kept = kept_corpus(directory, name, terms, limit)
    if not kept.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = _stemmed(directory, name, terms, limit)
        with replaced(kept) as temporary, temporary.open("wb") as file:
            ends = np.cumsum([len(document) for document in made.documents])
            np.savez(file, columns=np.concatenate(made.documents), ends=ends, d=made.d)
    with np.load(kept) as found:
        return Corpus(np.split(found["columns"], found["ends"][:-1]), int(found["d"]))


def kept_corpus(directory: Path, name: str, terms: int, limit: int) -> Path:
    return CACHE / f"{name}-{terms}-{limit}-{official.version(directory, name)}-terms.npz"


def _stemmed(directory: Path, name: str, terms: int, limit: int) -> Corpus:
    make = Terms()
    texts = [text for text in official.texts(directory, name) if text.strip()]
    step = max(1, len(texts) // limit) if limit else 1
    documents = [make(text) for text in texts[::step]]
    frequency = Counter(term for document in documents for term in set(document))
    # Terms of one document only say nothing of a topic, those of every second one neither.
    # Of terms in as many documents the first by name: another process has another order of sets.
    by_frequency = sorted(frequency.items(), key=lambda item: (-item[1], item[0]))
    kept = [t for t, c in by_frequency if 3 <= c <= len(documents) / 2][:terms]
    found = columns(documents, Vocabulary(tuple(kept)))
    return Corpus([document for document in found if np.sum(document >= 0) >= 10], len(kept))


@cache
def ratings(directory: Path) -> RowsLike:
    """(users, movies) CSR; what is not stored was not rated."""
    lines = official.table(directory, "ML-1M")
    numbers = np.array([line[:3] for line in lines if line[0].isdigit()], np.int64)
    users, rows = np.unique(numbers[:, 0], return_inverse=True)
    movies, places = np.unique(numbers[:, 1], return_inverse=True)
    return sp.csr_array((numbers[:, 2].astype(np.float64), (rows, places)), shape=(len(users), len(movies)))


@cache
def regression_table(directory: Path, name: str) -> tuple[Reals, Reals]:
    """(X, y) as they are in the file, but for columns that are constant, or no features (url, timedelta)."""
    lines = official.table(directory, name)
    if name == "Blogs":
        numbers = np.array(lines, np.float64)
        X, y = numbers[:, :-1], numbers[:, -1]
    elif name == "Songs" and lines[0][0] != "year":
        numbers = np.array(lines, np.float64)
        X, y = numbers[:, 1:], numbers[:, 0]
    else:
        head = [c.strip() for c in lines[0]]
        target = {"News": "shares", "Songs": "year"}[name]
        used = [i for i, c in enumerate(head) if c not in ("source", "url", "timedelta", target)]
        X = np.array([[float(line[i]) for i in used] for line in lines[1:]])
        y = np.array([float(line[head.index(target)]) for line in lines[1:]])
    return X[:, X.std(axis=0) > 0], y


def parties(n: int, share: float, M: int, seed: int) -> tuple[list[Any], Any]:
    """Row numbers of M parties, each a share of all rows without duplicates of its own, and held-out rows of none."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    held, rest = order[: int(HELD_OUT * n)], order[int(HELD_OUT * n) :]
    size = max(2, int(share * n))
    return [rng.choice(rest, min(size, len(rest)), replace=False) for _ in range(M)], held
