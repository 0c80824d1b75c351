"""What does a private sweep of PD-NMF cost beside a plain one, how much memory does a party need, and how many bytes?

    PDML_DATA=DIR python -m benchmarks.bench_nmf [users] [documents] [terms]

Ratings (weighted, k = 7, M = 3 processes with TLS) against the same sweep in one process on all rows; the peak memory
of a party on 20 Newsgroups (k = 20); bytes of a sweep for two numbers of rows. Sizes cut the data sets down; without
the official files (benchmarks.experiments names them) made-up rows of the same size and density are used, and it says
so.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.experiments import datasets, official
from benchmarks.parties import save
from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.text import term_counts
from pdml_spdz.bench.results import spread
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.study.model import NmfSettings
from pdml_spdz.transport.clock import Clock

M, SWEEPS, REPEATS = 3, 8, 5
GIB = 1 << 30


def ratings(directory: Path, users: int) -> tuple[RowsLike, str]:
    if official.has(directory, "ML-1M"):
        return datasets.ratings(directory)[:users], "ML-1M"
    return made_up(users, 3700, 165) * 5.0, "made up"


def documents(directory: Path, count: int, terms: int) -> tuple[RowsLike, str]:
    if official.has(directory, "20NG"):
        corpus = datasets.corpus(directory, "20NG", terms, count)
        return term_counts(corpus.documents, corpus.d), "20NG"
    return made_up(count, terms, 80), "made up"


def made_up(n: int, d: int, stored: int) -> RowsLike:
    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(n), stored), rng.integers(0, d, n * stored)
    X = sp.csr_array((rng.uniform(0.2, 1.0, n * stored), (rows, columns)), shape=(n, d))
    X.sum_duplicates()
    return X


def run(X: RowsLike, k: int, sweeps: int, directory: Path, **nmf: Any) -> list[dict[str, Any]]:
    """Reports of M processes, each with every third row."""
    files = []
    for m in range(M):
        sp.save_npz(path := directory / f"rows-{m}.npz", sp.csr_array(X[m::M]), compressed=False)
        files.append(path)
    study = local_study(
        M, algorithm="nmf", rank=k, iterations=sweeps, tol=0.0, engine="secsum", nmf=NmfSettings(init="random", **nmf)
    )
    return run_local(LocalRun(files, study, directory / "out", force=True)).party_reports


def plain_sweep(X: RowsLike, k: int) -> float:
    """Seconds of a sweep in this process, on all rows."""
    local, T = part(X, k, weighted=True), np.random.default_rng(0).uniform(size=(k, X.shape[1]))
    settings = SweepSettings(SWEEPS, 0.0, local.norm(), Penalties(beta=1.0, delta=1.0), weighted=True)
    began = time.perf_counter()
    pd_nmf_iter(local, SweepState(T / T.sum(axis=1, keepdims=True)), settings, own_sum, Alone(), clock=Clock())
    return (time.perf_counter() - began) / SWEEPS


def short_run(X: RowsLike, k: int, directory: Path) -> tuple[int, int]:
    """Bytes that all parties together send in a sweep, and the peak memory of the largest."""
    one, two = (run(X, k, sweeps, directory) for sweeps in (1, 2))
    sent = [sum(int(r["bytes_sent"]) for r in reports) for reports in (one, two)]
    return sent[1] - sent[0], max(int(r["peak_memory"]) for r in two)


def main() -> None:
    given = [int(a) for a in sys.argv[1:]]
    users, count, terms = given + [6040, 19_997, 20_000][len(given) :]
    directory = Path(os.environ.get("PDML_DATA", "data"))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        X, source = ratings(directory, users)
        print(f"ratings ({source}): {X.shape[0]:,} users, {X.shape[1]:,} items, {X.nnz:,} stored; k = 7, M = {M}")
        seconds: dict[str, list[float]] = {"private": [], "plain": []}
        for i in range(REPEATS):
            reports = run(X, 7, SWEEPS, place, weighted=True, beta=1.0, delta=1.0)
            seconds["private"].append(max(r["seconds"]["loop"] for r in reports) / SWEEPS)
            seconds["plain"].append(plain_sweep(X, 7))
            print(
                f"  {i + 1}/{REPEATS} " + ", ".join(f"{k} {1e3 * v[-1]:.0f} ms" for k, v in seconds.items()), flush=True
            )
        middle = {engine: spread(values) for engine, values in seconds.items()}
        for engine, (median, low, high, _) in middle.items():
            print(f"{engine:8} {1e3 * median:8.0f} ms a sweep ({1e3 * low:.0f} .. {1e3 * high:.0f})")
        ratio = middle["private"].median / middle["plain"].median
        print(f"private / plain: {ratio:.2f} (wanted: at most 3)\n")

        Y, text_source = documents(directory, count, terms)
        k = min(20, Y.shape[1])
        (few, _), (many, memory) = (short_run(Y[:n], k, place) for n in (M * k, Y.shape[0]))
        print(f"documents ({text_source}): {Y.shape[0]:,} with {Y.shape[1]:,} terms, {Y.nnz:,} stored; k = {k}")
        print(f"peak memory of a party: {memory / GIB:.2f} GiB (wanted: at most 2)\n")

        numbers = 8 * M * Y.shape[1] * k
        print(f"bytes of a sweep: {few:,} with {M * k} rows, {many:,} with {Y.shape[0]:,}: {many / few:.3f} times")
        print(f"                  {many / numbers:.2f} times 8 M d k")
    save(
        "nmf",
        {
            "ratings": {"source": source, "shape": list(X.shape), "seconds": seconds, "ratio": ratio},
            "documents": {"source": text_source, "shape": list(Y.shape), "peak_memory": memory},
            "bytes": {"few_rows": few, "many_rows": many, "over_8Mdk": many / numbers},
        },
    )


if __name__ == "__main__":
    main()
