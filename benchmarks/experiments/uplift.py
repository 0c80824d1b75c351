"""What a party gains by joining, by its size: low rank, topics, ratings. [PDML Fig. learning uplift]

What parties find together is computed on their pooled rows (`joined`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import datasets, joined, official, search
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.applications import low_rank, uplift
from pdml_spdz.applications.recommender import hold_out
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.rows.base import RowsLike

PARTIES = (2, 3, 5, 10, 30)  # of 3 % each, k = 7: "significant ..., especially for small M" [PDML §5.1]


def summary(gains: list[uplift.Uplift]) -> list[Row]:
    return [
        {
            "local": float(np.mean([g.local for g in gains])),
            "joint": float(np.mean([g.joint for g in gains])),
            "uplift_percent": float(np.mean([g.percent for g in gains])),
        }
    ]


def lra(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = texts(directory, name, terms, limit)
    rows, held = datasets.parties(X.shape[0], share, M, trial)
    joint = _low_rank_error(X[np.concatenate(rows)], X[held], k)
    return summary([uplift.Uplift(_low_rank_error(X[r], X[held], k), joint) for r in rows])


def _low_rank_error(X: RowsLike, held: RowsLike, k: int) -> float:
    return low_rank.reconstruction_error(held, joined.singular_vectors(X, k))


def topics(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = texts(directory, name, terms, limit)
    rows, held = datasets.parties(X.shape[0], share, M, trial)
    return summary([topics_gain([X[r] for r in rows], X[held], k, trial)])


def topics_gain(tables: list[RowsLike], held: RowsLike, k: int, seed: int = 0) -> uplift.Uplift:
    """Of PD-NMF; the paper compares with the best local topics: the smallest error of any party's own."""
    T = joined.topics(tables, k, tau=50, tol=1e-5, seed=seed)
    own = [uplift.local_topics(X_m, k, uplift.own_settings(X_m, 50, 1e-5, None, False)) for X_m in tables]
    local = min(uplift.topics_error(held, T_m) for T_m in own)
    return uplift.Uplift(local, uplift.topics_error(held, T))


def recommender(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = datasets.ratings(directory)
    rows, _ = datasets.parties(X.shape[0], share, M, trial)
    split = [hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]
    penalties = search.tuned(directory, k)
    T = joined.rated_topics([known for known, _ in split], k, penalties, tau=30, tol=1e-4, seed=trial)
    gains = [uplift.recommender_uplift(known, held, T, datasets.STARS, penalties, tau=30) for known, held in split]
    return summary(gains)


@cache
def texts(directory: Path, name: str, terms: int, limit: int) -> RowsLike:
    """TF-IDF rows of a corpus, with the IDF of all documents, as SecSum gives it."""
    corpus = datasets.corpus(directory, name, terms, limit)
    counts = term_counts(corpus.documents, corpus.d)
    return tf_idf(counts, idf(*document_frequencies(counts)))


def cells(directory: Path, *, full: bool) -> dict[str, list[Cell]]:
    """The grids, of what data there is: small ones, or the paper's."""
    shares = (0.01, 0.03, 0.1, 0.3) if full else (0.01, 0.05, 0.2)
    trials = 5 if full else 2
    ks = (7, 14, 28) if full else (7, 14)
    limit, terms = (0, 10_000) if full else (4000, 2000)
    found: dict[str, list[Cell]] = {}

    def grid(
        experiment: str,
        name: str,
        compute: Any,
        *arguments: Any,
        ks: tuple[int, ...] = ks,
        shares: tuple[float, ...] = shares,
        parties: tuple[int, ...] = (3,),
    ) -> None:
        if official.has(directory, name):
            found.setdefault(experiment, []).extend(
                Cell(
                    {"data": name, "k": k, "party_share": share, "M": M, "limit": limit, "trial": trial},
                    compute,
                    (directory, *arguments, k, share, M, trial),
                )
                for k in ks
                for share in shares
                for M in parties
                for trial in range(trials)
            )

    for name in ("20NG", "Enron"):
        grid("lra", name, lra, name, limit, terms)
    grid("topics", "Enron", topics, "Enron", limit, terms)
    grid("recommender", "ML-1M", recommender, shares=shares if full else (0.01, 0.03, 0.1))
    if full:
        one: Any = {"ks": (7,), "shares": (0.03,), "parties": PARTIES}
        grid("by_parties", "Enron", topics, "Enron", limit, terms, **one)
        grid("by_parties", "ML-1M", recommender, **one)
    return found
