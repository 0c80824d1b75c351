"""Eight runs of RRI-NMF on the simplex at once, on rows that differ in a few: one load of an entry serves all of them.

As `pdml_spdz.privacy.nmf_runs`, whose letters it has, with the runs (lanes) last: T (d, k, LANES), W (n, k, LANES).
"""

from __future__ import annotations

import numpy as np

from benchmarks.compiled.loops import ROUNDING, Numbers, compiled
from pdml_spdz.numerics.fixedpoint import Reals

LANES = 8  # numbers of a vector register


@compiled
def times(ends: Numbers, columns: Numbers, values: Reals, T: Reals, out: Reals) -> None:
    """out (n, k * LANES) <- X T; T : (d, k * LANES)"""
    width = T.shape[1]
    for i in range(len(ends) - 1):
        for s in range(width):
            out[i, s] = 0.0
        for e in range(ends[i], ends[i + 1]):
            x, c = values[e], columns[e]
            for s in range(width):
                out[i, s] += x * T[c, s]


@compiled
def rows(
    ends: Numbers,
    columns: Numbers,
    values: Reals,
    W: Reals,
    X_T: Reals,
    t: int,
    TT_t: Reals,
    over: Reals,
    num: Reals,
    WW_t: Reals,
) -> None:
    """`loops.rows_full` of rows that all lanes have. over : (LANES,), 1/||T_t||^2"""
    k, w = W.shape[1], np.empty(LANES)
    for i in range(len(W)):
        for b in range(LANES):
            w[b] = X_T[i, t * LANES + b]
        for s in range(k):
            for b in range(LANES):
                w[b] -= W[i, s, b] * TT_t[s, b]
        used = 0.0
        for b in range(LANES):
            w[b] = max(w[b], 0.0) * over[b]
            W[i, t, b] = w[b]
            used += w[b]
        if used > 0.0:
            for s in range(k):
                for b in range(LANES):
                    WW_t[s, b] += w[b] * W[i, s, b]
            for e in range(ends[i], ends[i + 1]):
                x, c = values[e], columns[e]
                for b in range(LANES):
                    num[c, b] += x * w[b]


@compiled
def own_times(ends: Numbers, columns: Numbers, values: Reals, T: Reals, out: Reals) -> None:
    """`times` of rows that each lane has its own of: values (nnz, LANES), where any of them has an entry."""
    _, k, _ = T.shape
    out[:] = 0.0
    for r in range(len(ends) - 1):
        for e in range(ends[r], ends[r + 1]):
            c = columns[e]
            for s in range(k):
                for b in range(LANES):
                    out[r, s * LANES + b] += values[e, b] * T[c, s, b]


@compiled
def own_rows(
    ends: Numbers,
    columns: Numbers,
    values: Reals,
    W: Reals,
    X_T: Reals,
    t: int,
    TT_t: Reals,
    over: Reals,
    num: Reals,
    WW_t: Reals,
) -> None:
    """`rows` of them."""
    m, k, _ = W.shape
    w = np.empty(LANES)
    for r in range(m):
        for b in range(LANES):
            w[b] = X_T[r, t * LANES + b]
        for s in range(k):
            for b in range(LANES):
                w[b] -= W[r, s, b] * TT_t[s, b]
        for b in range(LANES):
            w[b] = max(w[b], 0.0) * over[b]
            W[r, t, b] = w[b]
        for s in range(k):
            for b in range(LANES):
                WW_t[s, b] += w[b] * W[r, s, b]
        for e in range(ends[r], ends[r + 1]):
            c = columns[e]
            for b in range(LANES):
                num[c, b] += values[e, b] * w[b]


@compiled
def project(x: Reals, T: Reals, t: int, used: Reals, last: float) -> None:
    """T_t of every lane <- the nearest point of the simplex to x (d, LANES), whose last number stands for so many.

    used : (LANES,), 0 where a topic stays as it is
    """
    d, root = len(x), np.sqrt(last)
    top, total, size = np.full(LANES, -np.inf), np.zeros(LANES), np.zeros(LANES)
    for b in range(LANES):
        x[d - 1, b] /= root
    for c in range(d):
        for b in range(LANES):
            top[b] = max(top[b], x[c, b])
    for c in range(d):
        times_ = last if c == d - 1 else 1.0
        for b in range(LANES):
            here = times_ if T[c, t, b] > 0.0 else 0.0
            total[b] += here * (x[c, b] - top[b])
            size[b] += here
    theta, before = np.empty(LANES), np.zeros(LANES)
    for b in range(LANES):
        theta[b] = max((total[b] - 1.0) / size[b] - ROUNDING, -1.0) if size[b] > 0.0 else -1.0
    while True:
        total[:] = 0.0
        size[:] = 0.0
        for c in range(d):
            times_ = last if c == d - 1 else 1.0
            for b in range(LANES):
                left = x[c, b] - top[b] - theta[b]
                total[b] += times_ * max(left, 0.0)
                size[b] += times_ if left > 0.0 else 0.0
        same = True
        for b in range(LANES):
            same = same and size[b] == before[b]
        if same:
            break
        for b in range(LANES):
            before[b] = size[b]
            theta[b] = max(theta[b], theta[b] + (total[b] - 1.0) / size[b])
    for c in range(d):
        by = root if c == d - 1 else 1.0
        for b in range(LANES):
            new = by * max(x[c, b] - top[b] - theta[b], 0.0) / total[b]
            T[c, t, b] = new if used[b] > 0.0 else T[c, t, b]


@compiled
def without_topics(num: Reals, WW_t: Reals, T: Reals, t: int, TT: Reals) -> None:
    """num <- num - WW_t T; and TT (k, LANES) <- T T_t^T, of another topic t, from the same reading of T."""
    d, k, _ = T.shape
    TT[:] = 0.0
    for c in range(d):
        for s in range(k):
            for b in range(LANES):
                num[c, b] -= WW_t[s, b] * T[c, s, b]
                TT[s, b] += T[c, s, b] * T[c, t, b]


@compiled
def sweep(
    victim: tuple[Numbers, Numbers, Reals],
    own: tuple[Numbers, Numbers, Reals],
    others: tuple[Numbers, Numbers, Reals],
    W: tuple[Reals, Reals, Reals],
    T: Reals,
    last: float,
    seen: bool,
    nums: Reals,
    dens: Reals,
) -> None:
    """A sweep of all lanes; T and the W of the victim's, its own and the others' rows are changed.

    seen : the victim's num (k, d, LANES) and den (k, LANES) of every topic are wanted
    """
    d, k, _ = T.shape
    width = k * LANES
    X_T, X_T_own, X_T_others = np.empty((len(W[0]), width)), np.empty((len(W[1]), width)), np.empty((len(W[2]), width))
    times(victim[0], victim[1], victim[2], T.reshape(d, width), X_T)
    own_times(own[0], own[1], own[2], T, X_T_own)
    times(others[0], others[1], others[2], T.reshape(d, width), X_T_others)
    TT_t, WW_t, num = np.empty((k, LANES)), np.zeros((k, LANES)), np.zeros((d, LANES))
    over, den = np.empty(LANES), np.empty(LANES)
    without_topics(num, WW_t, T, 0, TT_t)
    for t in range(k):
        for b in range(LANES):
            over[b] = 1.0 / TT_t[t, b] if TT_t[t, b] > 0.0 else 0.0
        TT_t[t] = 0.0  # R_t is without topic t
        num[:] = 0.0
        WW_t[:] = 0.0
        rows(victim[0], victim[1], victim[2], W[0], X_T, t, TT_t, over, num, WW_t)
        own_rows(own[0], own[1], own[2], W[1], X_T_own, t, TT_t, over, num, WW_t)
        if seen:
            den[:] = WW_t[t]
            dens[t] = den
            WW_t[t] = 0.0
            nums[t] = num
            mine = np.empty((k, LANES))
            without_topics(nums[t], WW_t, T, t, mine)
            WW_t[t] = den
        rows(others[0], others[1], others[2], W[2], X_T_others, t, TT_t, over, num, WW_t)
        den[:] = WW_t[t]
        WW_t[t] = 0.0
        after = min(t + 1, k - 1)
        without_topics(num, WW_t, T, after, TT_t)
        for b in range(LANES):
            over[b] = 1.0 / den[b] if den[b] > 0.0 else 0.0  # a topic that no row uses stays as it is
        for c in range(d):
            for b in range(LANES):
                num[c, b] *= over[b]
        project(num, T, t, den, last)
        # T_t has moved since: what the next topic has in common with it.
        TT_t[t] = 0.0
        for c in range(d):
            for b in range(LANES):
                TT_t[t, b] += T[c, t, b] * T[c, after, b]
