"""Theorems 1 and 3 in figures: what parties get together beside what one gets that has all rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compiled.parts import own_topics
from benchmarks.compiled.parts import part as compiled_part
from benchmarks.experiments import datasets, joined, pooled
from benchmarks.paper.errata import Figures, Kind, digits
from pdml_spdz.algorithms import nmf_start
from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.rri import FullPart, Penalties, part
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads

CELLS = (("Reuters", 20, 0.03, 3), ("Enron", 20, 0.03, 5), ("20NG", 20, 0.03, 30))  # of Table 1: data, k, size, M


def together(tables: list[RowsLike], T: Reals, sweeps: int, rated: Penalties | None = None) -> Reals:
    """T of PD-NMF-Iter between parties, each a thread, with SecSum between them.

    rated : where what is not stored is missing, with these penalties; W is fitted to T first
    """
    bound = sum(FullPart(X, 1).norm() for X in tables)

    def party(link: Link) -> Reals:
        sec_sum = SecSumEngine(link, b"theorem", "auto").sec_sum
        settings = SweepSettings(sweeps, 0.0, bound, rated or Penalties(), weighted=rated is not None)
        own = part(tables[link.me], len(T), weighted=settings.weighted)
        if rated is not None:
            own.fit(T, rated)
        return pd_nmf_iter(own, SweepState(T), settings, sec_sum, Agreement(link), clock=link.clock).T

    return between_threads(len(tables), party)[0]


def difference(tables: list[RowsLike], X: RowsLike, T: Reals, sweeps: int = pooled.SWEEPS) -> dict[str, float]:
    """Between parties and on all rows at once: the largest difference of an entry of T, relative to the largest; and
    the relative difference of the errors ||X - W T||_F.
    """
    by_parties, alone = together(tables, T, sweeps), pooled.Sweeps(X, T).go(sweeps).T
    errors = [pooled.fitted(FullPart(X, len(T)), found) for found in (by_parties, alone)]
    return {"T": float(np.abs(by_parties - alone).max() / alone.max()), "error": abs(errors[0] / errors[1] - 1.0)}


def theorem_1(parties: tuple[int, ...] = (2, 3, 5)) -> Figures:
    X, k = digits()[::3], 7
    T = pooled.noise(X.shape[1], k, 1, 0)
    found = [difference(list(np.array_split(X, M)), X, T) for M in parties]
    return {"M": [str(M) for M in parties], "T": max(one["T"] for one in found)}


def in_table_1(directory: Path, cells: Sequence[tuple[str, int, float, int]] = CELLS) -> Figures:
    """The same on documents, in cells of Table 1."""
    found: dict[str, Any] = {}
    for name, k, share, M in cells:
        rows = pooled.pool(directory, name, share, M, 0)
        T = pooled.noise(rows.X.shape[1], k, M, (0, 0))
        found[f"{name}, M = {M}"] = difference(rows.tables, rows.X, T)
    return found


def from_init(directory: Path, name: str = "Reuters", k: int = 20, share: float = 0.03, M: int = 3) -> Figures:
    """PD-NMF-Init and the sweeps from it, by the package's code between parties and by the grid's on all rows."""
    rows = pooled.pool(directory, name, share, M, 0)
    noise, alone = pooled.noise(rows.X.shape[1], k, M, (0, 1)), SweepSettings(pooled.SWEEPS, 0.0, 1.0)
    own = [nmf_start.own_topics(X_m, k, alone) for X_m in rows.tables]
    start = together([lengths[:, None] * T for lengths, T in own], noise, pooled.SWEEPS)
    by_parties = together(rows.tables, start, pooled.SWEEPS)
    compiled = [own_topics(X_m, k, alone) for X_m in rows.tables]
    on_all = pooled.Sweeps(rows.X, pooled.merged(compiled, 0)).go(pooled.SWEEPS).T
    errors = [pooled.fitted(FullPart(rows.X, k), T) for T in (by_parties, on_all)]
    return {"cell": f"{name}, M = {M}", "error": abs(errors[0] / errors[1] - 1.0)}


def init_alone(directory: Path, k: int = 20, share: float = 0.1, M: int = 3, trials: int = 5) -> Figures:
    """T of PD-NMF-Init as it is, without a sweep on the rows, beside all rows at one place: `nnsvd` and 20 sweeps.

    By how many percent its error ||X - W T||_F is larger, in every corpus and trial.
    """
    found: dict[str, Any] = {}
    for name in ("20NG", "Enron", "Reuters"):
        above = found.setdefault(name, [])
        for trial in range(trials):
            rows = pooled.pool(directory, name, share, M, trial)
            own = [own_topics(X_m, k, SweepSettings(pooled.SWEEPS, 0.0, 1.0)) for X_m in rows.tables]
            central = pooled.Sweeps(rows.X, nmf_start.nnsvd(rows.X, k), rows.entries).go(pooled.SWEEPS)
            alone = pooled.fitted(compiled_part(rows.X, k), pooled.merged(own, trial))
            above.append(100.0 * (alone / central.error() - 1.0))
    return found


def of_ratings(directory: Path, k: int = 7, share: float = 0.03, M: int = 3) -> Figures:
    """Weighted PD-NMF between parties beside that on all users, with penalties by which topics stay alive."""
    X = datasets.ratings(directory)
    tables = [X[r] for r in datasets.parties(X.shape[0], share, M, 0)[0]]
    penalties, T = Penalties(beta=1.0, delta=1.0), pooled.noise(X.shape[1], k, M, (0, 0))
    by_parties = together(tables, T, pooled.SWEEPS, penalties)
    on_all = joined.rated_topics(tables, k, penalties, tau=pooled.SWEEPS, tol=0.0, seed=0)
    return {
        "cell": f"ML-1M, M = {M}, k = {k}",
        "alive": int(np.sum(on_all.any(axis=1))),
        "T": float(np.abs(by_parties - on_all).max() / on_all.max()),
    }


def theorem_3() -> Figures:
    X, k = digits(), 5
    study = local_study(3, algorithm="svd", rank=k, engine="secsum", solver="power", iterations=300, tol=1e-9)
    V = run_in_threads(list(np.array_split(X, 3)), study).V
    return {"sine": sine(V, np.linalg.svd(X, full_matrices=False)[2][:k].T)}


THEOREMS = {
    "theorem_1": Kind(theorem_1),
    "theorem_3": Kind(theorem_3),
    "in_table_1": Kind(in_table_1, needs_data=True),
    "from_init": Kind(from_init, needs_data=True),
    "of_ratings": Kind(of_ratings, needs_data=True),
    "init_alone": Kind(init_alone, needs_data=True),
}
