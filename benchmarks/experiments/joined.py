"""What parties find together, computed on their pooled rows: the same numbers without any messages. [PDML Theorem 1, 3]

The sums of PD-NMF between parties are those over all their rows, so its topics are those of RRI-NMF on them (Theorem
1); PD-SVD finds V_k of all rows (Theorem 3). `benchmarks.paper.theorems` makes some between parties and compares.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from benchmarks.experiments.pooled import noise
from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import own_topics, rri_nmf
from pdml_spdz.algorithms.rri import FullPart, Penalties
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.transport.base import Clock

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
    alone = SweepSettings(INIT_SWEEPS, tol, max(float(X.data @ X.data), 1.0))
    own = [own_topics(X_m, k, alone) for X_m in tables]
    That = np.concatenate([lengths[:, None] * T for lengths, T in own])
    on_topics = SweepSettings(INIT_SWEEPS, tol, 4.0 * alone.bound)
    start = SweepState(noise(X.shape[1], k, len(tables), (seed, 1)))
    T = pd_nmf_iter(FullPart(That, k), start, on_topics, own_sum, Alone(), clock=Clock()).T
    return rri_nmf(X, T, SweepSettings(tau, tol, alone.bound))[1]


def rated_topics(tables: list[RowsLike], k: int, penalties: Penalties, *, tau: int, tol: float, seed: int) -> Reals:
    """T (k, d) of PD-NMF from noise, W fitted to it first, where what is not stored is missing."""
    X = sp.csr_array(sp.vstack(tables))
    settings = SweepSettings(tau, tol, max(float(X.data @ X.data), 1.0), penalties, weighted=True)
    return rri_nmf(X, noise(X.shape[1], k, len(tables), (seed, 0)), settings, w_start="nnls")[1]
