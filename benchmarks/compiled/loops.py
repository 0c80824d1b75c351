"""The loops of RRI-NMF, one pass over the stored entries for a topic, compiled. Letters as in `algorithms.rri`.

X is in CSR: `ends` (n + 1,), `columns` and `values` (nnz,). W is (n, k), a row for each row of X. Sums may be taken in
any order (fastmath): results are the package's to rounding.

Sweeps of many rows wait for memory. Where all entries count, `values` may be whole numbers of a byte, and X_ic =
by_row_i values_e by_column_gc for the rows i of group g (`entries`): a third of the bytes.

Ends and columns best have no sign (`unsigned`): a place that may be negative is compared with 0 at every entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals

Numbers = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])
ROUNDING = 64.0 * 2.0**-52  # below theta, whatever rounding does
ROWS = 128  # at a time: their coefficients are read twice, the second time from a cache
Scales = tuple[Reals, Numbers, Reals]  # by_row (n,), where groups of rows begin and end, by_column (groups, d)
SPARSE = 4  # topics with less than one in so many features are gone through feature by feature


def compiled(function: F) -> F:
    """Kept beside the file: compiling takes seconds."""
    # Not "nnan", "ninf": comparisons with infinity are meant as they stand.
    order = {"reassoc", "contract", "arcp", "nsz"}
    return cast(F, numba.njit(cache=True, fastmath=order, error_model="numpy")(function))


def unsigned(ends: Numbers, columns: Numbers, d: int) -> tuple[Numbers, Numbers]:
    """The same places in types without a sign, columns in as few bytes as d needs: they are read for every topic."""
    return ends.astype(np.uint64), columns.astype(np.min_scalar_type(d))


@compiled
def times(ends: Numbers, columns: Numbers, values: Numbers, by_feature: Reals, out: Reals) -> None:
    """out (n, k) <- X T^T; by_feature : T^T (d, k)"""
    k = by_feature.shape[1]
    for i in range(len(ends) - 1):
        for s in range(k):
            out[i, s] = 0.0
        for e in range(ends[i], ends[i + 1]):
            x, c = values[e], columns[e]
            for s in range(k):
                out[i, s] += x * by_feature[c, s]


@compiled
def residuals(ends: Numbers, columns: Numbers, values: Reals, by_feature: Reals, W: Reals, out: Reals) -> None:
    """out (nnz,) <- X - W T where X is stored."""
    for i in range(len(ends) - 1):
        for e in range(ends[i], ends[i + 1]):
            total = 0.0
            for s in range(W.shape[1]):
                total += W[i, s] * by_feature[columns[e], s]
            out[e] = values[e] - total


@compiled
def fit_row(
    w: Reals, G: Reals, b: Reals, left: Reals, over: Reals, limits: tuple[float, float, float], stop: tuple[int, float]
) -> None:
    """w <- argmin w G w^T / 2 - w b^T + gamma sum(w) + delta/2 ||w||^2 within [0, cap], by coordinates.

    left : (k,), room for b - w G, which is kept up to date: a coordinate that stays as it is costs nothing
    over : (k,), room for 1 / (G_tt + delta)
    limits : gamma, delta, cap; stop : after so many sweeps, or when no coordinate changes by more than tol
    """
    k, (gamma, delta, cap), (sweeps, tol) = len(w), limits, stop
    for t in range(k):
        left[t] = b[t] - gamma
        size = G[t, t] + delta
        over[t] = 1.0 / size if size > 0.0 else 0.0  # a sweep would wait for every division
    for t in range(k):
        if w[t] != 0.0:
            for s in range(k):
                left[s] -= w[t] * G[t, s]
    for _ in range(sweeps):
        change, largest = 0.0, 1.0
        for t in range(k):
            largest = max(largest, w[t])
        for t in range(k):
            new = min(max((left[t] + G[t, t] * w[t]) * over[t], 0.0), cap)
            by = new - w[t]
            if by != 0.0:
                w[t] = new
                change = max(change, abs(by))
                for s in range(k):
                    left[s] -= by * G[t, s]
        if change <= tol * largest:
            break


@compiled
def fit_full(W: Reals, G: Reals, b: Reals, gamma: float, delta: float, stop: tuple[int, float]) -> None:
    """Every row of W, all with the same G."""
    left, over = np.empty(W.shape[1]), np.empty(W.shape[1])
    for i in range(len(W)):
        fit_row(W[i], G, b[i], left, over, (gamma, delta, np.inf), stop)


@compiled
def fit_observed(
    ends: Numbers,
    columns: Numbers,
    values: Reals,
    by_feature: Reals,
    W: Reals,
    caps: Reals,
    limits: tuple[float, float],
    stop: tuple[int, float],
) -> None:
    """Every row of W, each with the G of those features that it has."""
    k = by_feature.shape[1]
    G, b, left, over = np.empty((k, k)), np.empty(k), np.empty(k), np.empty(k)
    for i in range(len(W)):
        G[:] = 0.0
        b[:] = 0.0
        for e in range(ends[i], ends[i + 1]):
            of, x = by_feature[columns[e]], values[e]
            for s in range(k):
                b[s] += x * of[s]
                if of[s] != 0.0:
                    for t in range(k):
                        G[s, t] += of[s] * of[t]
        fit_row(W[i], G, b, left, over, (limits[0], limits[1], caps[i]), stop)


@compiled
def project(x: Reals, near: Numbers, places: Numbers, out: Reals) -> int:
    """out <- the nearest point of the simplex to x; places : (d,), gets where it is positive; how many those are.

    Michelot's way, as `nmf.project`: the theta of any set is never too large, and what is not above it goes.
    near : where y is probably positive
    """
    top, total = x.max(), 0.0
    for j in near:
        total += x[j] - top
    theta = max((total - 1.0) / len(near) - ROUNDING, -1.0) if len(near) else -1.0
    count, total = 0, 0.0
    for j in range(len(x)):
        out[j] = 0.0
        value = x[j] - top
        if value > theta:
            places[count] = j
            total += value
            count += 1
    while True:
        theta, kept, total_kept = (total - 1.0) / count, 0, 0.0
        for p in range(count):
            value = x[places[p]] - top
            if value > theta:
                places[kept] = places[p]
                total_kept += value
                kept += 1
        if kept == count:
            break
        count, total = kept, total_kept
    total = 0.0
    for p in range(count):
        out[places[p]] = x[places[p]] - top - theta
        total += out[places[p]]
    for p in range(count):
        out[places[p]] /= total
    return count


@compiled
def products_full(ends: Numbers, columns: Numbers, values: Numbers, scales: Scales, by_feature: Reals) -> Reals:
    """X T^T, by topic (k, n)."""
    by_row, groups, by_column = scales
    k, room = by_feature.shape[1], np.empty((ROWS, by_feature.shape[1]))
    X_T, scaled = np.empty((k, len(by_row))), np.empty(by_feature.shape)
    for g in range(len(groups) - 1):
        for c in range(len(by_feature)):
            for s in range(k):
                scaled[c, s] = by_column[g, c] * by_feature[c, s]
        for begin in range(groups[g], groups[g + 1], ROWS):
            end = min(begin + ROWS, groups[g + 1])
            times(ends[begin : end + 1], columns, values, scaled, room)
            for s in range(k):
                for i in range(begin, end):
                    X_T[s, i] = by_row[i] * room[i - begin, s]
    return X_T


@compiled
def coefficients(
    by_topic: Reals, X_T: Reals, rows: tuple[int, int], t: int, TT_t: Reals, over: float, WW_t: Reals, room: Reals
) -> Reals:
    """W_t <- [R_t T_t^T]_+ over ||T_t||^2 of these rows, which it returns; W^T W_t is added to WW_t.

    TT_t : T T_t^T, 0 at t
    """
    begin, end = rows
    n, W_t = end - begin, by_topic[t, begin:end]
    left = room[:n]
    left[:] = X_T[t, begin:end]
    for s in range(len(by_topic)):
        W_s, by = by_topic[s, begin:end], TT_t[s]
        for j in range(n):
            left[j] -= by * W_s[j]
    for j in range(n):
        W_t[j] = max(left[j], 0.0) * over
    for s in range(len(by_topic)):
        W_s, total = by_topic[s, begin:end], 0.0
        for j in range(n):
            total += W_s[j] * W_t[j]
        WW_t[s] += total
    return W_t


@compiled
def rows_full(
    ends: Numbers,
    columns: Numbers,
    values: Numbers,
    scales: Scales,
    by_topic: Reals,
    X_T: Reals,
    t: int,
    TT_t: Reals,
    size: float,
    num: Reals,
    WW_t: Reals,
) -> None:
    """W_t of all rows, so few at a time that their coefficients stay in a cache; num <- X^T W_t, WW_t <- W^T W_t.

    Rows that do not use the topic add nothing: their entries are not read.
    """
    by_row, groups, by_column = scales
    over, room, added = 1.0 / size if size > 0.0 else 0.0, np.empty(ROWS), np.empty(len(num))
    num[:] = 0.0
    WW_t[:] = 0.0
    for g in range(len(groups) - 1):
        added[:] = 0.0
        for begin in range(groups[g], groups[g + 1], ROWS):
            end = min(begin + ROWS, groups[g + 1])
            W_t = coefficients(by_topic, X_T, (begin, end), t, TT_t, over, WW_t, room)
            for j in range(end - begin):
                if W_t[j] > 0.0:
                    w = W_t[j] * by_row[begin + j]
                    for e in range(ends[begin + j], ends[begin + j + 1]):
                        added[columns[e]] += w * values[e]
        for c in range(len(num)):
            num[c] += by_column[g, c] * added[c]


@compiled
def without_topics(
    num: Reals, WW_t: Reals, t: int, T: Reals, by_feature: Reals, places: Numbers, counts: Numbers
) -> None:
    """num <- num - WW_t T, without topic t."""
    (k, d), stored = T.shape, 0
    for s in range(k):
        stored += counts[s]
    if stored * SPARSE < k * d:
        for s in range(k):
            if s != t and WW_t[s] != 0.0:
                for p in range(counts[s]):
                    c = places[s, p]
                    num[c] -= WW_t[s] * T[s, c]
        return
    own = WW_t[t]
    WW_t[t] = 0.0
    for c in range(d):
        total = 0.0
        for s in range(k):
            total += WW_t[s] * by_feature[c, s]
        num[c] -= total
    WW_t[t] = own


@compiled
def sweep_full(
    ends: Numbers,
    columns: Numbers,
    values: Numbers,
    scales: Scales,
    by_topic: Reals,
    T: Reals,
    by_feature: Reals,
    places: Numbers,
    counts: Numbers,
) -> None:
    """A sweep of RRI-NMF on the simplex; T, its transpose and where its rows are positive are kept up to date.

    by_topic : W^T (k, n)
    """
    k, d = T.shape
    TT_t, WW_t, num, new, found = np.empty(k), np.empty(k), np.empty(d), np.empty(d), np.empty(d, np.int32)
    X_T = products_full(ends, columns, values, scales, by_feature)
    for t in range(k):
        TT_t[:] = 0.0
        for p in range(counts[t]):
            c = places[t, p]
            for s in range(k):
                TT_t[s] += T[t, c] * by_feature[c, s]
        size = TT_t[t]
        TT_t[t] = 0.0
        rows_full(ends, columns, values, scales, by_topic, X_T, t, TT_t, size, num, WW_t)
        without_topics(num, WW_t, t, T, by_feature, places, counts)
        den = WW_t[t]
        if den <= 0.0:  # a topic that no row uses stays as it is
            continue
        for c in range(d):
            num[c] /= den
        count = project(num, places[t, : counts[t]], found, new)
        for p in range(counts[t]):
            by_feature[places[t, p], t] = 0.0
        counts[t] = count
        for p in range(count):
            places[t, p] = found[p]
            by_feature[found[p], t] = new[found[p]]
        T[t] = new


@compiled
def rows_observed(
    ends: Numbers,
    columns: Numbers,
    E: Reals,
    rows: tuple[int, int],
    w_before: Reals,
    moved: Reals,
    w: Reals,
    T_t: Reals,
    caps: Reals,
    limits: tuple[float, float],
    sums: Reals,
) -> None:
    """W_t of these rows from their residuals E, and E after it; num and den are added to sums (d, 2).

    w_before, moved : W_s and by how much T_s has moved, of the topic before, which E does not know of yet: in one pass
    """
    gamma, delta = limits
    for i in range(rows[0], rows[1]):
        top, size, by, old = 0.0, delta, w_before[i], w[i]
        for e in range(ends[i], ends[i + 1]):
            c = columns[e]
            left = E[e] - by * moved[c] + old * T_t[c]
            E[e] = left
            top += left * T_t[c]
            size += T_t[c] * T_t[c]
        new = min((top - gamma) / size, caps[i]) if size > 0.0 and top > gamma else 0.0
        w[i] = new
        if new > 0.0:
            for e in range(ends[i], ends[i + 1]):
                c = columns[e]
                sums[c, 0] += new * E[e]
                sums[c, 1] += new * new
                E[e] -= new * T_t[c]


@compiled
def sweep_observed(
    ends: Numbers,
    columns: Numbers,
    E: Reals,
    by_topic: Reals,
    T: Reals,
    caps: Reals,
    penalties: tuple[float, float, float, float],
    first: int,
    nums: Reals,
    dens: Reals,
) -> float:
    """A sweep of RRI-NMF on what is observed; by_topic : W^T (k, n). The largest change of a topic, in l1.

    first : the first so many rows are one party's, whose num and den of every topic go to nums and dens (k, d)
    """
    (k, n), d, (alpha, beta, gamma, delta) = by_topic.shape, T.shape[1], penalties
    sums, moved, w_before, largest = np.empty((d, 2)), np.zeros(d), np.zeros(n), 0.0
    for t in range(k):
        sums[:] = 0.0
        rows_observed(ends, columns, E, (0, first), w_before, moved, by_topic[t], T[t], caps, (gamma, delta), sums)
        if first > 0:
            nums[t] = sums[:, 0]
            dens[t] = sums[:, 1]
        rows_observed(ends, columns, E, (first, n), w_before, moved, by_topic[t], T[t], caps, (gamma, delta), sums)
        change = 0.0
        for c in range(d):
            num, den = (sums[c, 0], sums[c, 1]) if sums[c, 1] > 0.0 else (0.0, 0.0)
            new = max(num - alpha, 0.0) / (den + beta) if den + beta > 0.0 else T[t, c]
            moved[c] = new - T[t, c]
            change += abs(moved[c])
            T[t, c] = new
        w_before = by_topic[t]
        largest = max(largest, change)
    for i in range(n):
        for e in range(ends[i], ends[i + 1]):
            E[e] -= w_before[i] * moved[columns[e]]
    return largest
