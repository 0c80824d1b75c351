"""What a party gains by joining, by its size: low rank, topics, ratings. [PDML Fig. learning uplift]"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import datasets, official, search
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.applications import uplift
from pdml_spdz.applications.recommender import hold_out
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.study.model import NmfSettings


def summary(gains: list[uplift.Uplift]) -> list[Row]:
    return [
        {
            "local": float(np.mean([g.local for g in gains])),
            "joint": float(np.mean([g.joint for g in gains])),
            "uplift_percent": float(np.mean([g.percent for g in gains])),
        }
    ]


def lra(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = tf_idf_rows(datasets.corpus(directory, name, terms, limit))
    rows, held = datasets.parties(X.shape[0], share, M, trial)
    study = local_study(M, algorithm="svd", rank=k, engine="secsum", iterations=300, tol=1e-5)
    V = run_in_threads([X[r] for r in rows], study).V
    return summary([uplift.low_rank_uplift(X[r], X[held], V) for r in rows])


def topics(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = tf_idf_rows(datasets.corpus(directory, name, terms, limit))
    rows, held = datasets.parties(X.shape[0], share, M, trial)
    return summary([topics_gain([X[r] for r in rows], X[held], k)])


def topics_gain(tables: list[RowsLike], held: RowsLike, k: int) -> uplift.Uplift:
    """Of PD-NMF; the paper compares with the best local topics: the smallest error of any party's own."""
    study = local_study(len(tables), algorithm="nmf", rank=k, iterations=50, tol=1e-5, nmf=NmfSettings())
    T = run_in_threads(tables, study).V
    own = [uplift.topics_uplift(X_m, held, T, tau=50, tol=1e-5) for X_m in tables]
    return uplift.Uplift(min(gain.local for gain in own), own[0].joint)


def recommender(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = datasets.ratings(directory)
    rows, _ = datasets.parties(X.shape[0], share, M, trial)
    split = [hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]
    penalties = search.tuned(directory, k)
    settings = NmfSettings(init="random", weighted=True, w_start="nnls", **asdict(penalties))
    study = local_study(M, algorithm="nmf", rank=k, iterations=30, tol=1e-4, nmf=settings)
    T = run_in_threads([known for known, _ in split], study).V
    gains = [uplift.recommender_uplift(known, held, T, datasets.STARS, penalties, tau=30) for known, held in split]
    return summary(gains)


def tf_idf_rows(corpus: datasets.Corpus) -> RowsLike:
    """With the IDF of all documents, as SecSum gives it."""
    counts = term_counts(corpus.documents, corpus.d)
    return tf_idf(counts, idf(*document_frequencies(counts)))


def cells(directory: Path, *, full: bool) -> dict[str, list[Cell]]:
    """The grids, of what data there is: small ones, or the paper's."""
    shares = (0.01, 0.03, 0.1, 0.3) if full else (0.01, 0.05, 0.2)
    trials = 5 if full else 2
    ks = (7, 14, 28) if full else (7, 14)
    limit, terms = (0, 10_000) if full else (4000, 2000)
    M = 3
    found: dict[str, list[Cell]] = {}

    def grid(experiment: str, name: str, compute: Any, *arguments: Any, shares: tuple[float, ...] = shares) -> None:
        if official.has(directory, name):
            found.setdefault(experiment, []).extend(
                Cell(
                    {"data": name, "k": k, "party_share": share, "M": M, "limit": limit, "trial": trial},
                    compute,
                    (directory, *arguments, k, share, M, trial),
                )
                for k in ks
                for share in shares
                for trial in range(trials)
            )

    for name in ("20NG", "Enron"):
        grid("lra", name, lra, name, limit, terms)
    grid("topics", "Enron", topics, "Enron", limit, terms)
    grid("recommender", "ML-1M", recommender, shares=shares if full else (0.01, 0.03, 0.1))
    return found
