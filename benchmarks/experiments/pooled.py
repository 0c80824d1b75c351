"""Table 1 at the paper's size: M = 3, 5, 30; 3, 10, 30 %; k = 20, 40, 60; three corpora, five trials. [PDML Table 1]

PD-NMF between M parties has the sums, and so the topics, of RRI-NMF on all their rows (Theorem 1): a cell is computed
on the pooled rows, each with its party's own IDF weights. What parties do alone (their own topics) is computed party by
party. `benchmarks.paper.theorems` makes some cells between parties and compares.

What cells of a corpus have in common is computed once: terms, held-out documents, windows of words.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled.entries import Entries, of_counts
from benchmarks.compiled.parts import Full, Observed, own_topics, part, swept
from benchmarks.experiments import datasets, official, windows
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import nnsvd
from pdml_spdz.algorithms.rri import Part, Penalties
from pdml_spdz.applications import topics
from pdml_spdz.applications.text import Columns, document_frequencies, idf, term_counts, tf_idf
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike

SWEEPS = 20  # the paper does not say how many; `random 2x` makes twice as many
TERMS = 10_000
FITTED = 1e-3  # coefficients of an error change by less, relative to the largest: 1e-10 of the error
FEW = 8000  # rows that candidates are compared on before the best of them are on all


@dataclass(frozen=True)
class HeldOut:
    """What all cells of a corpus and a trial are scored on."""

    first: RowsLike
    second: RowsLike
    documents: windows.Windows
    windows: windows.Windows


@cache
def counts(directory: Path, name: str) -> RowsLike:
    corpus = datasets.corpus(directory, name, TERMS, 0)
    return term_counts(corpus.documents, corpus.d)


@cache
def held_out(directory: Path, name: str, trial: int) -> HeldOut:
    """The held-out documents of a trial are the same for every M and party size (`datasets.parties`)."""
    corpus, X = datasets.corpus(directory, name, TERMS, 0), counts(directory, name)
    held = datasets.parties(X.shape[0], 0.0, 1, trial)[1]
    documents = [corpus.documents[i] for i in held]
    seen = [windows.counted(documents, corpus.d, size, datasets.CACHE) for size in (None, topics.C_V_WINDOW)]
    return HeldOut(*topics.split_documents(X[held], trial), *seen)


@dataclass(frozen=True)
class Pool:
    """tables : the parties' rows, each with its own IDF weights; X : all of them; once : every document once, with the
    weights of all, times the root of how many parties have it: the sums over its rows are those over all rows;
    weights : of all, (d,); entries, entries_once : of X and `once`, as counts and weights
    """

    tables: list[RowsLike]
    X: RowsLike
    once: RowsLike
    weights: Reals
    entries: Entries
    entries_once: Entries


def pool(directory: Path, name: str, share: float, M: int, trial: int) -> Pool:
    X = counts(directory, name)
    rows, _ = datasets.parties(X.shape[0], share, M, trial)
    own = [idf(*document_frequencies(X[r])) for r in rows]
    tables = [tf_idf(X[r], w) for r, w in zip(rows, own, strict=True)]
    weights = idf(*document_frequencies(X[np.concatenate(rows)]))
    documents, times = np.unique(np.concatenate(rows), return_counts=True)
    once = tf_idf(X[documents], weights)
    once.data *= np.repeat(np.sqrt(times), np.diff(once.indptr))
    return Pool(
        tables,
        sp.csr_array(sp.vstack(tables)),
        once,
        weights,
        entries=of_counts([X[r] for r in rows], own),
        entries_once=of_counts([X[documents]], [weights], [np.sqrt(times)]),
    )


class Sweeps:
    """RRI-NMF on these rows, from T; it can go on."""

    def __init__(self, X: RowsLike, T: Reals, entries: Entries | None = None) -> None:
        self.part, self.T = Full(X, len(T), entries), T

    def go(self, sweeps: int) -> Sweeps:
        self.T = swept(self.part, self.T, _settings(sweeps))
        return self

    def error(self) -> float:
        """||X - W T||_F for the W >= 0 that fits best; the sweeps go on from their own W."""
        W = self.part.W.copy()
        found = fitted(self.part, self.T)
        self.part.restore(W, self.T)
        return found


def _settings(sweeps: int) -> SweepSettings:
    return SweepSettings(sweeps, 0.0, 1.0)  # nothing is sent: there is nothing to bound


def fitted(local: Part, T: Reals) -> float:
    if isinstance(local, Full | Observed):
        local.fit(T, Penalties(), tol=FITTED)
    else:
        local.fit(T, Penalties())
    return float(np.sqrt(local.error(T)))


def noise(d: int, k: int, M: int, seed: Any) -> Reals:
    """T_0 as M parties make it (`nmf.start_by_sec_sum`): the mean of their numbers, rows of sum 1."""
    rng = np.random.default_rng(seed)
    T = np.mean([rng.uniform(size=(k, d)) for _ in range(M)], axis=0)
    return np.asarray(T / T.sum(axis=1, keepdims=True))


def best_of(candidates: list[Reals], X: RowsLike) -> Reals:
    """Those topics that explain all rows best; where there are many rows, of the best three on some of them."""
    n = X.shape[0]
    if n > FEW:
        some = X[np.linspace(0, n - 1, FEW).astype(int)]
        errors = [fitted(Full(some, len(T)), T) for T in candidates]
        candidates = [candidates[i] for i in np.argsort(errors)[:3]]
    return min(candidates, key=lambda T: fitted(Full(X, len(T)), T))


def merged(own: list[tuple[Reals, Reals]], trial: int) -> Reals:
    """T of PD-NMF-Init, from the parties' own topics and how long their coefficients are."""
    That = np.concatenate([lengths[:, None] * T for lengths, T in own])
    start = noise(That.shape[1], len(own[0][1]), len(own), (trial, 1))
    return Sweeps(That, start).go(SWEEPS).T


def started(rows: Pool, k: int, trial: int) -> Iterator[tuple[str, Reals, float, float]]:
    """(start, T, error on the parties' rows, error on the rows that T is of) of every start."""
    X, (_, d), M = rows.X, rows.X.shape, len(rows.tables)
    run = Sweeps(X, noise(d, k, M, (trial, 0)), rows.entries)
    for name in ("random", "random 2x"):
        error = run.go(SWEEPS).error()
        yield name, run.T, error, error
    own = [own_topics(X_m, k, _settings(SWEEPS)) for X_m in rows.tables]
    best = best_of([T for _, T in own], X)
    error = fitted(Full(X, k), best)
    yield "best local topics", best, error, error
    starts = {
        "best_of_M": best,
        "PD-NMF-Init": merged(own, trial),
        "nnsvd, local IDF": nnsvd(X, k),
    }
    for name, T in starts.items():
        run = Sweeps(X, T, rows.entries).go(SWEEPS)
        error = run.error()
        yield name, run.T, error, error
    run = Sweeps(rows.once, nnsvd(rows.once, k), rows.entries_once).go(SWEEPS)
    yield "nnsvd", run.T, fitted(Full(X, k), run.T), run.error()


def cell(directory: Path, name: str, k: int, share: float, M: int, trial: int) -> list[Row]:
    held = held_out(directory, name, trial)
    begin = time.process_time()
    rows = pool(directory, name, share, M, trial)
    found = []
    for start, T, error, own_error in started(rows, k, trial):
        words: Columns = topics.top_words(T)
        likelihood = topics.log_likelihood(held.first, held.second, T, weights=rows.weights, make=part)
        measured = {
            "error": error,
            "own_error": own_error,
            "c_v": float(np.mean(topics.c_v(words, held.windows.of(words)))),
            "npmi": float(np.mean(topics.npmi(words, held.documents.of(words)))),
            "perplexity": topics.perplexity(likelihood),
        }
        found.append({"start": start} | {n: f"{value:.8g}" for n, value in measured.items()})
    seconds = f"{time.process_time() - begin:.1f}"
    return [row | {"cpu_seconds": seconds} for row in found]


def cells(directory: Path) -> list[Cell]:
    """All 405: a run may be stopped. First those of at most half the corpus, 180 for a tenth of the work; then trial by
    trial, what takes least first. Last is M = 30 with 30 % each, half of all work.
    """
    grid: list[dict[str, Any]] = [
        {"data": name, "M": M, "party_share": share, "k": k, "trial": trial}
        for name in ("20NG", "Enron", "Reuters")
        if official.has(directory, name)
        for M in (3, 5, 30)
        for share in (0.03, 0.1, 0.3)
        for k in (20, 40, 60)
        for trial in range(5)
    ]

    def turn(c: dict[str, Any]) -> tuple[Any, ...]:
        size = c["M"] * c["party_share"]
        return size > 0.5, size > 5, c["trial"], size * c["k"]

    grid.sort(key=turn)
    return [Cell(c, cell, (directory, c["data"], c["k"], c["party_share"], c["M"], c["trial"])) for c in grid]
