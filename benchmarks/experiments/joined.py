"""What parties find together, computed on their pooled rows: the same numbers without any messages. [PDML Theorem 1, 3]

The sums of PD-NMF between parties are those over all their rows, so its topics are those of RRI-NMF on them (Theorem
1); PD-SVD finds V_k of all rows (Theorem 3). `benchmarks.paper.theorems` makes some between parties and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from benchmarks.compiled.parts import Full, Observed, own_topics, rri_nmf, swept
from benchmarks.experiments.pooled import FEW, FITTED, noise
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import nnsvd
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike

INIT_SWEEPS = 20  # as `study.model.NmfSettings.init_iterations`


def singular_vectors(X: RowsLike, k: int) -> Reals:
    """V_k (d, k) of these rows, to the precision of the numbers, largest first."""
    _, sigma, V = sla.svds(X, min(k, *(size - 1 for size in X.shape)), random_state=0)
    return np.asarray(V[np.argsort(sigma)[::-1]].T)


def topics(tables: list[RowsLike], k: int, *, tau: int, tol: float, seed: int) -> Reals:
    """T (k, d) of PD-NMF from PD-NMF-Init between parties with these rows. seed : of T_0, which is secret between
    parties
    """
    X = sp.csr_array(sp.vstack(tables))
    settings = SweepSettings(tau, tol, max(float(X.data @ X.data), 1.0))
    return rri_nmf(X, init(tables, k, tol=tol, seed=seed), settings)[1]


def init(tables: list[RowsLike], k: int, *, tol: float, seed: int) -> Reals:
    """T_init of PD-NMF-Init: topics of the parties' own topics."""
    alone = SweepSettings(INIT_SWEEPS, tol, 1.0)
    own = [own_topics(X_m, k, alone) for X_m in tables]
    That = np.concatenate([lengths[:, None] * T for lengths, T in own])
    on_topics = SweepSettings(INIT_SWEEPS, tol, max(float(np.vdot(That, That)), 1.0))
    return swept(Full(That, k), noise(That.shape[1], k, len(tables), (seed, 1)), on_topics)


def rated_topics(tables: list[RowsLike], k: int, penalties: Penalties, *, tau: int, tol: float, seed: int) -> Reals:
    """T (k, d) of PD-NMF from noise, W fitted to it first, where what is not stored is missing."""
    X = sp.csr_array(sp.vstack(tables))
    settings = SweepSettings(tau, tol, max(float(X.data @ X.data), 1.0), penalties, weighted=True)
    return rri_nmf(X, noise(X.shape[1], k, len(tables), (seed, 0)), settings, w_start="nnls")[1]


def rated_paths(
    tables: list[RowsLike], k: int, penalties: Penalties, taus: Iterable[int], seed: int
) -> Iterator[tuple[str, int, Reals]]:
    """(start, tau, T) of all starts; `random 2x` is the run of `random` after twice as many sweeps."""
    X, taus = sp.csr_array(sp.vstack(tables)), sorted(taus)
    settings = SweepSettings(2 * taus[-1], 0.0, max(float(X.data @ X.data), 1.0), penalties, weighted=True)

    def best_of_M() -> Reals:
        short = SweepSettings(INIT_SWEEPS, 0.0, 1.0, penalties, weighted=True)
        return _best([own_topics(X_m, k, short)[1] for X_m in tables], X, penalties)

    starts: dict[str, Callable[[], Reals]] = {
        "best_of_M": best_of_M,
        "nnsvd": lambda: nnsvd(X, k),
        "random": lambda: noise(X.shape[1], k, len(tables), (seed, 0)),
        "PD-NMF-Init": lambda: init(tables, k, tol=0.0, seed=seed),
    }
    for name, start in starts.items():
        last = (2 if name == "random" else 1) * taus[-1]
        kept = _swept(X, start(), replace(settings, tau=last))
        yield from ((name, tau, kept[tau]) for tau in taus)
        if name == "random":
            yield from (("random 2x", tau, kept[2 * tau]) for tau in taus)


def _swept(X: RowsLike, T: Reals, settings: SweepSettings) -> dict[int, Reals]:
    """T after every sweep, W fitted to the start first."""
    part = Observed(X, len(T))
    kept: dict[int, Reals] = {}
    part.fit(T, settings.penalties)
    swept(part, T, settings, kept.__setitem__)
    return kept


def _best(candidates: list[Reals], X: RowsLike, penalties: Penalties) -> Reals:
    """Those topics that explain all ratings best; where there are many users, of the best three on some of them."""

    def error(T: Reals, rows: RowsLike) -> float:
        part = Observed(rows, len(T))
        part.fit(T, penalties, tol=FITTED)
        return part.error(T)

    if X.shape[0] > FEW:
        some = X[np.linspace(0, X.shape[0] - 1, FEW).astype(int)]
        candidates = [candidates[i] for i in np.argsort([error(T, some) for T in candidates])[:3]]
    return min(candidates, key=lambda T: error(T, X))
