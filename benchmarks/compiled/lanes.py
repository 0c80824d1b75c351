"""Eight runs of RRI-NMF on the simplex at once, on rows that differ in a few: one load of an entry serves all of them.

As `pdml_spdz.privacy.nmf_runs`, whose letters it has, with the runs (lanes) last: T (d, k, LANES), W (n, k, LANES).
"""

from __future__ import annotations

import numpy as np

from benchmarks.compiled.loops import ROUNDING, Numbers, compiled
from benchmarks.compiled.vectors import LANES, all_of, largest, load, store, total, where_positive
from pdml_spdz.numerics.fixedpoint import Reals


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
    k, none, over_all = W.shape[1], all_of(0.0), load(over, 0)
    for i in range(len(W)):
        first = i * k * LANES
        w = load(X_T, first + t * LANES)
        for s in range(0, k * LANES, LANES):
            w = w - load(W, first + s) * load(TT_t, s)
        w = largest(w, none) * over_all
        store(W, first + t * LANES, w)
        if total(w) > 0.0:
            for s in range(0, k * LANES, LANES):
                store(WW_t, s, load(WW_t, s) + w * load(W, first + s))
            for e in range(ends[i], ends[i + 1]):
                c = columns[e] * LANES
                store(num, c, load(num, c) + all_of(values[e]) * w)


@compiled
def own_times(ends: Numbers, columns: Numbers, values: Reals, T: Reals, out: Reals) -> None:
    """`times` of rows that each lane has its own of: values (nnz, LANES), where any of them has an entry."""
    width = T.shape[1] * LANES
    out[:] = 0.0
    for r in range(len(ends) - 1):
        for e in range(ends[r], ends[r + 1]):
            x, c = load(values, e * LANES), columns[e] * width
            for s in range(0, width, LANES):
                store(out, r * width + s, load(out, r * width + s) + x * load(T, c + s))


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
    width = W.shape[1] * LANES
    for r in range(len(W)):
        w = load(X_T, r * width + t * LANES)
        for s in range(0, width, LANES):
            w = w - load(W, r * width + s) * load(TT_t, s)
        w = largest(w, all_of(0.0)) * load(over, 0)
        store(W, r * width + t * LANES, w)
        for s in range(0, width, LANES):
            store(WW_t, s, load(WW_t, s) + w * load(W, r * width + s))
        for e in range(ends[r], ends[r + 1]):
            c = columns[e] * LANES
            store(num, c, load(num, c) + load(values, e * LANES) * w)


@compiled
def project(x: Reals, T: Reals, t: int, used: Reals, last: float) -> None:
    """T_t of every lane <- the nearest point of the simplex to x (d, LANES), whose last number stands for so many.

    used : (LANES,), 0 where a topic stays as it is
    """
    d, k, root = len(x), T.shape[1], np.sqrt(last)
    none, one, end = all_of(0.0), all_of(1.0), (d - 1) * LANES
    store(x, end, load(x, end) / all_of(root))
    top, width, here = load(x, 0), k * LANES, t * LANES
    for c in range(0, d * LANES, LANES):
        top = largest(top, load(x, c))
    added, size = none, none
    for c in range(d):
        times_ = all_of(last if c == d - 1 else 1.0)
        there = where_positive(load(T, c * width + here), times_, none)
        added = added + there * (load(x, c * LANES) - top)
        size = size + there
    begun = largest((added - one) / where_positive(size, size, one) - all_of(ROUNDING), none - one)
    theta, before = where_positive(size, begun, none - one), none
    while True:
        added, size = none, none
        for c in range(d):
            left, times_ = load(x, c * LANES) - top - theta, all_of(last if c == d - 1 else 1.0)
            added = added + times_ * largest(left, none)
            size = size + where_positive(left, times_, none)
        moved = size - before
        if total(moved * moved) == 0.0:
            break
        before = size
        theta = largest(theta, theta + (added - one) / size)
    stays = load(used, 0)
    for c in range(d):
        by = all_of(root if c == d - 1 else 1.0)
        new = by * largest(load(x, c * LANES) - top - theta, none) / added
        place = c * width + here
        store(T, place, where_positive(stays, new, load(T, place)))


@compiled
def without_topics(num: Reals, WW_t: Reals, T: Reals, t: int, TT: Reals) -> None:
    """num <- num - WW_t T; and TT (k, LANES) <- T T_t^T, of another topic t, from the same reading of T."""
    d, k, _ = T.shape
    TT[:] = 0.0
    width = k * LANES
    for c in range(d):
        left, T_t = load(num, c * LANES), load(T, c * width + t * LANES)
        for s in range(0, width, LANES):
            T_s = load(T, c * width + s)
            left = left - load(WW_t, s) * T_s
            store(TT, s, load(TT, s) + T_s * T_t)
        store(num, c * LANES, left)


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
