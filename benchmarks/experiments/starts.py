"""Where should PD-NMF start? PD-NMF-Init against its rivals, on documents and on ratings. [PDML Table 1]

The errors of a start after 5, 10, 20 and 50 sweeps come from one run; `random 2x` is the run of `random` after twice
as many.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compiled.parts import part
from benchmarks.experiments import datasets, joined, official, search
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.applications import recommender, topics
from pdml_spdz.applications.low_rank import Score
from pdml_spdz.applications.text import document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.applications.uplift import local_topics, own_settings, topics_error
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.run.checkpoints import Checkpoints
from pdml_spdz.study.model import NmfSettings

TAUS = (5, 10, 20, 50)
INITS = {"best_of_M": "best_of_M", "nnsvd": "nnsvd", "random": "random", "PD-NMF-Init": "pd"}

Sweeps = dict[int, Reals]  # T by number of sweeps


def path(tables: list[RowsLike], k: int, start: str, **nmf: Any) -> Sweeps:
    """T after every number of sweeps that is asked for, by the private protocol."""
    sweeps = sorted({*TAUS, *(2 * tau for tau in TAUS if start == "random")})
    study = local_study(
        len(tables), algorithm="nmf", rank=k, iterations=sweeps[-1], tol=0.0, nmf=NmfSettings(init=INITS[start], **nmf)
    )
    kept: Sweeps = {}
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory:
        checkpoints = Checkpoints(Path(directory) / "party-0" / "checkpoint")

        def keep(party: int, event: dict[str, Any]) -> None:
            if party == 0 and event["event"] == "iteration" and event["t"] in sweeps:
                kept[event["t"]] = checkpoints.load()[event["t"]].V

        run_local(LocalRun(tables, study, Path(directory), notify=keep, transport="threads"))
    return kept


def paths(tables: list[RowsLike], k: int, **nmf: Any) -> Iterator[tuple[str, int, Reals]]:
    """(start, tau, T) of all starts that work on these rows."""
    for start in INITS:
        kept = path(tables, k, start, **nmf)
        yield from ((start, tau, kept[tau]) for tau in TAUS)
        if start == "random":
            yield from (("random 2x", tau, kept[2 * tau]) for tau in TAUS)


def documents(
    directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int
) -> list[Row]:
    """Error on the training rows, coherence and perplexity on held-out documents, for every start and tau."""
    corpus = datasets.corpus(directory, name, terms, limit)
    counts = term_counts(corpus.documents, corpus.d)
    rows, held = datasets.parties(counts.shape[0], share, M, trial)
    # IDF weights are each party's own; the paper's nnsvd has global ones, so that its rows are others.
    local = [tf_idf(counts[r], idf(*document_frequencies(counts[r]))) for r in rows]
    weights = idf(*document_frequencies(counts[np.concatenate(rows)]))
    common = [tf_idf(counts[r], weights) for r in rows]
    seen, scored = topics.split_documents(counts[held], trial)
    held_documents = [corpus.documents[i] for i in held]

    def measured(start: str, tau: int, T: Reals, tables: list[RowsLike]) -> Row:
        words = topics.top_words(T)
        windows = topics.occurrences(held_documents, words, topics.C_V_WINDOW)
        return {
            "start": start,
            "tau": tau,
            "error": float(np.sqrt(sum(topics_error(X, T) ** 2 for X in tables))),
            "npmi": float(np.mean(topics.npmi(words, topics.occurrences(held_documents, words)))),
            "c_v": float(np.mean(topics.c_v(words, windows))),
            "perplexity": topics.perplexity(topics.log_likelihood(seen, scored, T, weights=weights)),
        }

    found = [measured(start, tau, T, local) for start, tau, T in paths(local, k)]
    found += [measured("nnsvd, global IDF", tau, T, common) for tau, T in path(common, k, "nnsvd").items()]
    # The best party's own topics as they are, without a sweep together.
    for tau in TAUS:
        own = [local_topics(X, k, own_settings(X, tau, 0.0, None, False)) for X in local]
        best = min(own, key=lambda T: sum(topics_error(X, T) ** 2 for X in local))
        found.append(measured("best local topics", tau, best, local))
    return found


def ratings(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    """RMSE on the held-out ratings of all parties' users, for every start and tau; on pooled rows (`joined`)."""
    X = datasets.ratings(directory)
    rows, _ = datasets.parties(X.shape[0], share, M, trial)
    split = [recommender.hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]

    penalties = search.tuned(directory, k)
    begin = time.process_time()

    def rmse(T: Reals) -> float:
        total = Score(0.0, 0)
        for known, held in split:
            W = recommender.fit_users(known, T, penalties, make=part)
            total += recommender.squared_error(W, T, held, datasets.STARS)
        return total.rmse

    found = joined.rated_paths([known for known, _ in split], k, penalties, TAUS, trial)
    rows_of = [
        {"start": start, "tau": tau, "rmse": rmse(T), "topics": int(np.sum(T.any(axis=1)))} for start, tau, T in found
    ]
    seconds = f"{time.process_time() - begin:.1f}"
    return [row | {"cpu_seconds": seconds} for row in rows_of]


def cells(directory: Path, *, full: bool) -> dict[str, list[Cell]]:
    """A small grid; or the paper's, of ratings alone: that of documents is `pooled`, on pooled rows."""
    grid: dict[str, Any] = (
        {"M": (3, 5, 30), "share": (0.03, 0.1, 0.3), "trials": 5, "ratings_k": (7, 14, 28)}
        if full
        else {"M": (3, 5), "share": (0.1,), "k": (20,), "trials": 3, "ratings_k": (7,)}
    )
    limit, terms = 3000, 2000
    found: dict[str, list[Cell]] = {}
    for name in ("ML-1M",) if full else ("20NG", "Enron", "Reuters", "ML-1M"):
        if not official.has(directory, name):
            continue
        rated = name == "ML-1M"
        found.setdefault("starts_ratings" if rated else "starts", []).extend(
            Cell(
                {"data": name, "M": M, "party_share": share, "k": k, "limit": 0 if rated else limit, "trial": trial},
                ratings if rated else documents,
                (directory, k, share, M, trial) if rated else (directory, name, limit, terms, k, share, M, trial),
            )
            for M in grid["M"]
            for share in (grid["share"] if full or not rated else (0.03,))
            for k in grid["ratings_k" if rated else "k"]
            for trial in range(grid["trials"])
        )
    for experiment in found.values():  # what takes least first: a run may be stopped
        experiment.sort(key=lambda c: (_size(c) > 1, c.settings["trial"], _size(c) * c.settings["k"]))
    return found


def _size(cell: Cell) -> float:
    """How many times the data set all parties have together."""
    return float(cell.settings["M"] * cell.settings["party_share"])
