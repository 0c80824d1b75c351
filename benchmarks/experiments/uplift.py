"""What a party gains by joining, by its size: regression, low rank, topics, ratings. [PDML Fig. learning uplift]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import datasets
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.applications import uplift
from pdml_spdz.applications.recommender import Scale, hold_out
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.linalg import Rows
from pdml_spdz.local import local_study
from pdml_spdz.study import NmfSettings
from pdml_spdz.threads_run import run_in_threads

HELD_OUT = 0.2


def parties(n: int, share: float, M: int, seed: int) -> tuple[list[Any], Any]:
    """Row numbers of M parties, each a share of all rows without duplicates of its own, and held-out rows of none."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    held, rest = order[: int(HELD_OUT * n)], order[int(HELD_OUT * n) :]
    size = max(2, int(share * n))
    return [rng.choice(rest, min(size, len(rest)), replace=False) for _ in range(M)], held


def summary(gains: list[uplift.Uplift]) -> Row:
    percents = [g.percent for g in gains]
    return {
        "local": float(np.mean([g.local for g in gains])),
        "joint": float(np.mean([g.joint for g in gains])),
        "uplift_percent": float(np.mean(percents)),
    }


def pcr(directory: Path, name: str, limit: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X, y = datasets.regression_table(directory, name, limit)
    rows, held = parties(len(X), share, M, trial)
    study = local_study(M, algorithm="pca", rank=k, engine="secsum", iterations=300, tol=1e-7)
    common = run_in_threads([X[r] for r in rows], study)
    gains = [uplift.regression_uplift(X[r], y[r], (X[held], y[held]), common.result, common.mean) for r in rows]
    return [summary(gains)]


def lra(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = _tf_idf(datasets.corpus(directory, name, terms, limit))
    rows, held = parties(X.shape[0], share, M, trial)
    study = local_study(M, algorithm="svd", rank=k, engine="secsum", iterations=300, tol=1e-5)
    V = run_in_threads([X[r] for r in rows], study).result
    return [summary([uplift.low_rank_uplift(X[r], X[held], V) for r in rows])]


def topics(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = _tf_idf(datasets.corpus(directory, name, terms, limit))
    rows, held = parties(X.shape[0], share, M, trial)
    study = local_study(M, algorithm="nmf", rank=k, iterations=50, tol=1e-5, nmf=NmfSettings())
    T = run_in_threads([X[r] for r in rows], study).result
    return [summary([uplift.topics_uplift(X[r], X[held], T, tau=50, tol=1e-5) for r in rows])]


def recommender(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = datasets.ratings(directory)
    rows, _ = parties(X.shape[0], share, M, trial)
    split = [hold_out(X[r], HELD_OUT, 1000 + trial) for r in rows]
    penalties, scale = Penalties(beta=1.0, delta=1.0), Scale(1.0, 5.0)
    settings = NmfSettings(init="random", weighted=True, w_start="nnls", beta=penalties.beta, delta=penalties.delta)
    study = local_study(M, algorithm="nmf", rank=k, iterations=30, tol=1e-4, nmf=settings)
    T = run_in_threads([known for known, _ in split], study).result
    gains = [uplift.recommender_uplift(known, held, T, scale, penalties, tau=30) for known, held in split]
    return [summary(gains)]


def _tf_idf(corpus: datasets.Corpus) -> Rows:
    counts = term_counts(corpus.documents, corpus.d)
    return tf_idf(counts, idf(*document_frequencies(counts)))


def cells(directory: Path, *, full: bool) -> dict[str, list[Cell]]:
    """The grids, of what data there is: small ones, or the paper's."""
    shares = (0.01, 0.03, 0.1, 0.3) if full else (0.01, 0.05, 0.2)
    trials = 5 if full else 2
    ks = (7, 14, 28) if full else (7,)
    limit, terms = (0, 10_000) if full else (4000, 2000)
    M = 3
    found: dict[str, list[Cell]] = {}

    def grid(experiment: str, name: str, compute: Any, *arguments: Any) -> None:
        if datasets.has(directory, name):
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

    for name in ("News", "Songs", "Blogs"):
        grid("pcr", name, pcr, name, limit)
    for name in ("20NG", "Enron"):
        grid("lra", name, lra, name, limit, terms)
    grid("topics", "Enron", topics, "Enron", limit, terms)
    grid("recommender", "ML-1M", recommender)
    return found
