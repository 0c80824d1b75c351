"""Eight runs of RRI-NMF on the simplex at once, on rows that differ in a few: one load of an entry serves all of them.

As `pdml_spdz.privacy.nmf_runs`, whose letters it has, with the runs (lanes) last: T (k, d, LANES), W (n, k, LANES).
Most of a T on the simplex is zero: where any lane of it is positive is kept in lists, `places` (k, d) and how many of
them each topic has, `counts` (k,), and only that is gone through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.compiled.loops import ROUNDING, Numbers, compiled
from benchmarks.compiled.vectors import LANES, all_of, any_positive, largest, load, store, total, where_positive
from pdml_spdz.numerics.fixedpoint import Reals

BLOCK = 128  # columns whose numbers of all topics are near at hand at once


@compiled
def positive(T_t: Reals, places: Numbers) -> int:
    """places <- where any lane is positive; how many those are."""
    count = 0
    for c in range(len(T_t)):
        if any_positive(load(T_t, c * LANES)):
            places[count] = c
            count += 1
    return count


@compiled
def rows(
    ends: Numbers,
    columns: Numbers,
    values: Reals,
    W: Reals,
    T_t: Reals,
    t: int,
    TT_t: Reals,
    over: Reals,
    num: Reals,
    WW_t: Reals,
) -> None:
    """`loops.rows_full` of rows that all lanes have. over : (LANES,), 1/||T_t||^2

    X T_t is made here, topic by topic: one topic is small enough to stay near at hand, all of T is not.
    """
    k, none, over_all = W.shape[1], all_of(0.0), load(over, 0)
    for i in range(len(W)):
        first, w = i * k * LANES, none
        for e in range(ends[i], ends[i + 1]):
            w = w + all_of(values[e]) * load(T_t, columns[e] * LANES)
        for s in range(0, k * LANES, LANES):
            w = w - load(W, first + s) * load(TT_t, s)
        w = largest(w, none) * over_all
        store(W, first + t * LANES, w)
        if any_positive(w):
            for s in range(0, k * LANES, LANES):
                store(WW_t, s, load(WW_t, s) + w * load(W, first + s))
            for e in range(ends[i], ends[i + 1]):
                c = columns[e] * LANES
                store(num, c, load(num, c) + all_of(values[e]) * w)


@compiled
def own_times(ends: Numbers, columns: Numbers, values: Reals, T: Reals, out: Reals) -> None:
    """out (n, k, LANES) <- X T^T of rows that each lane has its own of: values (nnz, LANES), where any has an entry.

    Block by block: these rows may be dense, and T would be read anew for each of them.
    """
    k, d, _ = T.shape
    out[:] = 0.0
    at = ends[:-1].copy()
    for end in range(BLOCK, d + BLOCK, BLOCK):
        for r in range(len(ends) - 1):
            while at[r] < ends[r + 1] and columns[at[r]] < end:
                x, c = load(values, at[r] * LANES), columns[at[r]]
                for s in range(k):
                    place = (r * k + s) * LANES
                    store(out, place, load(out, place) + x * load(T, (s * d + c) * LANES))
                at[r] += 1


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
    at = ends[:-1].copy()
    for r in range(len(W)):
        w = load(X_T, r * width + t * LANES)
        for s in range(0, width, LANES):
            w = w - load(W, r * width + s) * load(TT_t, s)
        w = largest(w, all_of(0.0)) * load(over, 0)
        store(W, r * width + t * LANES, w)
        if not any_positive(w):
            at[r] = ends[r + 1]
            continue
        for s in range(0, width, LANES):
            store(WW_t, s, load(WW_t, s) + w * load(W, r * width + s))
    for end in range(BLOCK, len(num) + BLOCK, BLOCK):
        for r in range(len(W)):
            w, e = load(W, r * width + t * LANES), at[r]
            while e < ends[r + 1] and columns[e] < end:
                c = columns[e] * LANES
                store(num, c, load(num, c) + load(values, e * LANES) * w)
                e += 1
            at[r] = e


@compiled
def project(x: Reals, T_t: Reals, places: Numbers, count: int, used: Reals, last: float) -> int:
    """T_t of every lane <- the nearest point of the simplex to x (d, LANES), whose last number stands for so many.

    places : the first `count` are where T_t is positive, before and after; how many those are then
    used : (LANES,), 0 where a topic stays as it is
    """
    d, root = len(x), np.sqrt(last)
    none, one, end, stays = all_of(0.0), all_of(1.0), (d - 1) * LANES, load(used, 0)
    store(x, end, load(x, end) / all_of(root))
    top = load(x, 0)
    for c in range(0, d * LANES, LANES):
        top = largest(top, load(x, c))
    added, size = none, none
    for p in range(count):
        c = places[p] * LANES
        there = where_positive(load(T_t, c), all_of(last if c == end else 1.0), none)
        added = added + there * (load(x, c) - top)
        size = size + there
        store(T_t, c, where_positive(stays, none, load(T_t, c)))
    begun = largest((added - one) / where_positive(size, size, one) - all_of(ROUNDING), none - one)
    theta, before = where_positive(size, begun, none - one), none
    count, least = 0, top + theta
    for c in range(d):
        if any_positive(load(x, c * LANES) - least):
            places[count] = c
            count += 1
    while True:
        added, size, kept = none, none, 0
        for p in range(count):
            c = places[p] * LANES
            left, times_ = load(x, c) - top - theta, all_of(last if c == end else 1.0)
            added = added + times_ * largest(left, none)
            size = size + where_positive(left, times_, none)
            places[kept] = places[p]
            kept += any_positive(left)  # what is not above theta in any lane never comes back
        count, moved = kept, size - before
        if total(moved * moved) == 0.0:
            break
        before = size
        theta = largest(theta, theta + (added - one) / size)
    for p in range(count):
        c = places[p] * LANES
        new = all_of(root if c == end else 1.0) * largest(load(x, c) - top - theta, none) / added
        store(T_t, c, where_positive(stays, new, load(T_t, c)))
    for b in range(LANES):
        if used[b] <= 0.0:
            return positive(T_t, places)
    return count


@compiled
def in_common(T: Reals, s: int, t: int, places: Numbers, counts: Numbers) -> Any:
    """T_s T_t^T of every lane, from the shorter of their lists."""
    d, shorter, both = T.shape[1], s if counts[s] < counts[t] else t, all_of(0.0)
    for p in range(counts[shorter]):
        c = places[shorter, p] * LANES
        both = both + load(T, s * d * LANES + c) * load(T, t * d * LANES + c)
    return both


@compiled
def without_topics(num: Reals, WW_t: Reals, T: Reals, t: int, places: Numbers, counts: Numbers, TT: Reals) -> None:
    """num <- num - WW_t T; and TT (k, LANES) <- T T_t^T, of another topic t, from the same reading of T.

    Block by block, for which num stays near at hand. T does not: reading it is what takes the time.
    """
    k, d, _ = T.shape
    at, none = np.zeros(k, np.int64), all_of(0.0)
    for s in range(k):
        store(TT, s * LANES, none)
        if not any_positive(load(WW_t, s * LANES)):
            at[s] = counts[s]
            store(TT, s * LANES, in_common(T, s, t, places, counts))
    for end in range(BLOCK, d + BLOCK, BLOCK):
        for s in range(k):
            w, both, p = load(WW_t, s * LANES), none, at[s]
            while p < counts[s] and places[s, p] < end:
                c = places[s, p] * LANES
                T_s = load(T, s * d * LANES + c)
                store(num, c, load(num, c) - w * T_s)
                both = both + T_s * load(T, t * d * LANES + c)
                p += 1
            if p > at[s]:
                store(TT, s * LANES, load(TT, s * LANES) + both)
                at[s] = p


@compiled
def sweep(
    victim: tuple[Numbers, Numbers, Reals],
    own: tuple[Numbers, Numbers, Reals],
    others: tuple[Numbers, Numbers, Reals],
    W: tuple[Reals, Reals, Reals],
    T: Reals,
    places: Numbers,
    counts: Numbers,
    last: float,
    besides: Reals,
    seen: bool,
    nums: Reals,
    dens: Reals,
) -> None:
    """A sweep of all lanes; T, its lists and the W of the victim's, its own and the others' rows are changed.

    last, besides : `Pressed`: columns that the last one stands for, and (k, LANES), set to 0 where a topic is used
    seen : the victim's num (k, d, LANES) and den (k, LANES) of every topic are wanted
    """
    k, d, _ = T.shape
    X_T_own = np.empty((len(W[1]), k, LANES))
    own_times(own[0], own[1], own[2], T, X_T_own)
    TT_t, WW_t, num = np.empty((k, LANES)), np.empty((k, LANES)), np.empty((d, LANES))
    over, den = np.empty(LANES), np.empty(LANES)
    for s in range(k):
        store(TT_t, s * LANES, in_common(T, s, 0, places, counts))
    for t in range(k):
        for b in range(LANES):
            size = TT_t[t, b] + besides[t, b]
            over[b] = 1.0 / size if size > 0.0 else 0.0
        TT_t[t] = 0.0  # R_t is without topic t
        num[:] = 0.0
        WW_t[:] = 0.0
        rows(victim[0], victim[1], victim[2], W[0], T[t], t, TT_t, over, num, WW_t)
        own_rows(own[0], own[1], own[2], W[1], X_T_own, t, TT_t, over, num, WW_t)
        if seen:
            den[:] = WW_t[t]
            dens[t] = den
            WW_t[t] = 0.0
            nums[t] = num
            mine = np.empty((k, LANES))
            without_topics(nums[t], WW_t, T, t, places, counts, mine)
            WW_t[t] = den
        rows(others[0], others[1], others[2], W[2], T[t], t, TT_t, over, num, WW_t)
        den[:] = WW_t[t]
        WW_t[t] = 0.0
        after = min(t + 1, k - 1)
        without_topics(num, WW_t, T, after, places, counts, TT_t)
        for b in range(LANES):
            over[b] = 1.0 / den[b] if den[b] > 0.0 else 0.0  # a topic that no row uses stays as it is
            besides[t, b] = 0.0 if den[b] > 0.0 else besides[t, b]
        by = load(over, 0)
        for c in range(0, d * LANES, LANES):
            store(num, c, load(num, c) * by)
        counts[t] = project(num, T[t], places[t], counts[t], den, last)
        # T_t has moved since: what the next topic has in common with it.
        store(TT_t, t * LANES, in_common(T, t, after, places, counts))
