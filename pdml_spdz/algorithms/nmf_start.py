"""Where PD-NMF starts: from noise, from the parties' own topics, or from singular vectors. [PDML Alg. PD-NMF-Init]"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse.linalg as sla

from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter, start_by_sec_sum
from pdml_spdz.algorithms.rri import FullPart, Penalties, part
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.transport.base import Clock


def rri_nmf(X: RowsLike, T: Reals, settings: SweepSettings, *, w_start: str = "zero") -> tuple[Reals, Reals]:
    """(W, T) of RRI-NMF on one party's rows from T: PD-NMF-Iter with one party, nothing is sent.

    w_start : "zero", or "nnls" for W fitted to T
    """
    local = part(X, len(T), weighted=settings.weighted)
    if w_start == "nnls":
        local.fit(T, settings.penalties)
    result = pd_nmf_iter(local, SweepState(T), settings, own_sum, Alone(), clock=Clock())
    return local.W, result.T


def nnsvd(X: RowsLike, k: int) -> Reals:
    """k non-negative topics from the leading singular vectors of X, each row of sum 1; X is one party's.

    Ref: Boutsidis, Gallopoulos, Pattern Recognition 2008 (NNDSVD, variant a).
    """
    rows = as_rows(X)
    n, d = rows.shape
    largest = rows.largest
    count = min(k, n - 1, d - 1) if largest > 0 else 0
    V = np.zeros((0, d))
    if count >= 1:
        rows = rows.over(largest)  # squares of very small numbers would vanish
        _, sigma, V = sla.svds(rows.operator(), count, random_state=0)
        V = V[np.argsort(sigma)[::-1]]
    return positive_topics(V, sizes_by_sign(rows.times(V.T)), k)


def sizes_by_sign(XV: Reals) -> Reals:
    """(2, k): ||[X v]_+||^2 and ||[-X v]_+||^2 for every column v of V; of all rows, the sum over the parties."""
    return np.stack([np.sum(np.maximum(sign * XV, 0.0) ** 2, axis=0) for sign in (1.0, -1.0)])


def own_topics(X: RowsLike, k: int, settings: SweepSettings) -> tuple[Reals, Reals]:
    """(||W_j||, T) of one party's rows from its own singular vectors: RRI-NMF(X, nnsvd(X, k)), whose bound is their
    size.
    """
    local = part(X, k, weighted=settings.weighted)
    alone = replace(settings, bound=max(local.norm(), 1.0))
    result = pd_nmf_iter(local, SweepState(nnsvd(X, k)), alone, own_sum, Alone(), clock=Clock())
    return local.lengths(), result.T


def positive_topics(V: Reals, sizes: Reals, k: int) -> Reals:
    """For each singular vector v (a row of V) the part [v]_+ or [-v]_+ that explains more; each row of sum 1.

    sizes : as `sizes_by_sign` has them. Topics that there is no vector for are uniform, and zeros, which
    would stay for ever, are small instead.
    """
    d = V.shape[1]
    topics = np.full((k, d), 1.0 / d)
    for j, v in enumerate(V):
        sides = [np.maximum(sign * v, 0.0) for sign in (1.0, -1.0)]
        weights = [float(size * (side @ side)) for size, side in zip(sizes[:, j], sides, strict=True)]
        best = sides[int(weights[1] > weights[0])]
        if best.sum() > 0:
            topics[j] = best / best.sum()
    mixed = np.maximum(topics, 0.01 / d)
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def from_singular_vectors(V: Reals, sizes: Reals, k: int, agree: Agreement) -> SweepState:
    """T_0 from public singular vectors (rows of V) and the summed sizes of their two signs."""
    T = positive_topics(V, sizes, k)
    return SweepState(agree(T, (), np.full(T.shape[1], 1e-10))[0])


def pd_nmf_init(
    X: RowsLike, k: int, M: int, settings: SweepSettings, sec_sum: SecSum, agree: Agreement, *, clock: Clock
) -> SweepState:
    """T_init: the topics of the parties' own topics, party m's view.

    1. T_loc <- nnsvd(X_m, k); W, T_m <- RRI-NMF(X_m, T_loc)                          local
    2. V_jj <- ||W_j||; That_m <- V T_m: k rows that stand for X_m                    local
    3. T_0 <- SecSum(U[0, 1] / M), rows of sum 1
    4. T_init <- PD-NMF-Iter(That_m; T_0)

    Penalties are for the problem that starts from T_init: on k rows a party they would leave one topic of many. A
    missing entry counts as zero here.

    Reveals: T_0, and what PD-NMF-Iter reveals of That. Cost: that of PD-NMF-Iter.
    Ref: [PDML Alg. PD-NMF-Init; Theorem 2].
    """
    settings = replace(settings, weighted=False, penalties=Penalties())
    with clock("local"):
        lengths, T_m = own_topics(X, k, settings)
        That = lengths[:, None] * T_m
    start = start_by_sec_sum(X.shape[1], k, M, sec_sum, agree)
    # W_j T_j <= W T, entry by entry, and ||W T|| <= 2 ||X||: That is at most four times as large as X.
    on_topics = replace(settings, bound=4.0 * settings.bound)
    result = pd_nmf_iter(FullPart(That, k), start, on_topics, sec_sum, agree, clock=clock)
    return SweepState(result.T)


def best_of_M(
    X: RowsLike,
    k: int,
    settings: SweepSettings,
    publish: Callable[[Reals], list[Reals]],
    sec_sum: SecSum,
    agree: Agreement,
    *,
    clock: Clock,
) -> SweepState:
    """T_0: of all parties' own topics those that explain everyone's rows best. NOT PRIVATE, for comparison only.

    1. T_m <- RRI-NMF(X_m, nnsvd(X_m, k))                                             local
    2. T_1 .. T_M <- publish(T_m)                                                     in the clear
    3. e_l <- SecSum(min over W >= 0 of ||X_m - W T_l||_F^2) for every l               one call
    4. T_0 <- the T_l of least e_l

    Reveals: every party's own topics, to everyone, as they are; and the M sums. Cost: d k numbers to each peer.
    Ref: [PDML §Experiments, the baseline best_of_M].
    """
    with clock("local"):
        _, T_m = own_topics(X, k, settings)
    candidates = publish(T_m)
    with clock("local"):
        own = np.array([fitted_error(X, T, settings.penalties, weighted=settings.weighted) for T in candidates])
    total = sec_sum(own / settings.bound, 1.0, "errors")
    T = candidates[int(np.argmin(total))]
    return SweepState(agree(T, (), np.full(T.shape[1], 1e-10))[0])


def fitted_error(X: RowsLike, T: Reals, penalties: Penalties, *, weighted: bool = False) -> float:
    """||X - W T||_F^2 for the W >= 0 that fits best, given the penalties on it. Local."""
    local = part(X, len(T), weighted=weighted)
    local.fit(T, penalties)
    return local.error(T)
