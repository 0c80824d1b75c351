"""Where should PD-NMF start? PD-NMF-Init against its rivals. [PDML Table "topic modelling"]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import datasets
from benchmarks.experiments.cells import Cell, Row
from benchmarks.experiments.uplift import parties
from pdml_spdz.algorithms.nmf_start import nnsvd, rri_nmf
from pdml_spdz.applications import topics
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.applications.uplift import own_settings, topics_error
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.linalg import Rows
from pdml_spdz.local import local_study
from pdml_spdz.study import NmfSettings
from pdml_spdz.threads_run import run_in_threads

# best_of_M publishes one party's topics: it is NOT private, and here for comparison only.
RIVALS = ("best_of_M", "nnsvd", "random", "random 2x", "PD-NMF-Init")


def cell(
    directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, tau: int, trial: int
) -> list[Row]:
    """Error on the training rows, coherence and perplexity on held-out documents, for every start."""
    corpus = datasets.corpus(directory, name, terms, limit)
    counts = term_counts(corpus.documents, corpus.d)
    rows, held = parties(counts.shape[0], share, M, trial)
    # IDF weights are each party's own, but for the start from singular vectors, which has global ones.
    local = [tf_idf(counts[r], idf(*document_frequencies(counts[r]))) for r in rows]
    everyone = np.concatenate(rows)
    weights = idf(*document_frequencies(counts[everyone]))
    common = [tf_idf(counts[r], weights) for r in rows]
    seen, scored = topics.split_documents(counts[held], trial)
    results = []
    for rival in RIVALS:
        tables = common if rival == "nnsvd" else local
        T = fitted(rival, tables, k, M, tau)
        likelihood = topics.log_likelihood(seen, scored, T, weights=weights)
        words = topics.top_words(T)
        held_documents = [corpus.documents[i] for i in held]
        results.append(
            {
                "start": rival,
                "error": float(np.sqrt(sum(topics_error(X, T) ** 2 for X in tables))),
                "npmi": float(np.mean(topics.npmi(words, topics.occurrences(held_documents, words)))),
                "perplexity": topics.perplexity(likelihood),
            }
        )
    return results


def fitted(rival: str, tables: list[Rows], k: int, M: int, tau: int) -> Reals:
    """T after tau sweeps of PD-NMF-Iter from the rival's start."""
    if rival == "best_of_M":
        own = [rri_nmf(X, nnsvd(X, k), own_settings(X, tau, 0.0, None, False))[1] for X in tables]
        return min(own, key=lambda T: sum(topics_error(X, T) ** 2 for X in tables))
    init = {"nnsvd": "nnsvd", "random": "random", "random 2x": "random", "PD-NMF-Init": "pd"}[rival]
    sweeps = 2 * tau if rival == "random 2x" else tau
    study = local_study(M, algorithm="nmf", rank=k, iterations=sweeps, tol=0.0, nmf=NmfSettings(init=init))
    return run_in_threads(tables, study).result


def cells(directory: Path, *, full: bool) -> list[Cell]:
    grid: dict[str, Any] = (
        {"M": (3, 5, 30), "share": (0.03, 0.1, 0.3), "k": (20, 40, 60), "tau": (5, 10, 20, 50), "trials": 5}
        if full
        else {"M": (3,), "share": (0.1,), "k": (20,), "tau": (5, 20), "trials": 3}
    )
    limit, terms = (0, 10_000) if full else (3000, 2000)
    return [
        Cell(
            {"data": name, "M": M, "party_share": share, "k": k, "tau": tau, "limit": limit, "trial": trial},
            cell,
            (directory, name, limit, terms, k, share, M, tau, trial),
        )
        for name in ("20NG", "Enron", "Reuters")
        if datasets.has(directory, name)
        for M in grid["M"]
        for share in grid["share"]
        for k in grid["k"]
        for tau in grid["tau"]
        for trial in range(grid["trials"])
    ]
