"""Eight runs of RRI-NMF on what is observed at once, on rows that differ in a few; as `lanes`, and `loops` of one run.

The runs (lanes) come last: T (k, d, LANES), W (k, n, LANES), residuals E (nnz, LANES).
"""

from __future__ import annotations

import numpy as np

from benchmarks.compiled.loops import Numbers, compiled
from benchmarks.compiled.vectors import LANES, all_of, largest, load, store, total, where_positive
from pdml_spdz.numerics.fixedpoint import Reals


@compiled
def rows(
    ends: Numbers,
    columns: Numbers,
    E: Reals,
    present: Reals,
    before: Reals,
    moved: Reals,
    w: Reals,
    T_t: Reals,
    caps: Reals,
    limits: tuple[float, float],
    sums: Reals,
) -> None:
    """`loops.rows_observed` of all lanes. sums : (d, 2, LANES)

    present : (nnz, LANES), 1 where a lane has the entry, of rows that each lane has its own of; empty: all have it
    caps : (n, LANES)
    """
    none, gamma, delta, own = all_of(0.0), all_of(limits[0]), all_of(limits[1]), len(present) > 0
    for i in range(len(ends) - 1):
        top, size, by, old = none, delta, load(before, i * LANES), load(w, i * LANES)
        for e in range(ends[i], ends[i + 1]):
            c = columns[e] * LANES
            T_c = load(T_t, c)
            if own:
                T_c = T_c * load(present, e * LANES)
                left = load(E, e * LANES) + (old * T_c - by * load(moved, c) * load(present, e * LANES))
            else:
                left = load(E, e * LANES) + (old * T_c - by * load(moved, c))
            store(E, e * LANES, left)
            top = top + left * T_c
            size = size + T_c * T_c
        cap = load(caps, i * LANES)
        new = (top - gamma) / where_positive(size, size, all_of(1.0))
        new = where_positive(cap - new, new, cap)
        new = where_positive(size, where_positive(top - gamma, new, none), none)
        store(w, i * LANES, new)
        if total(new) > 0.0:
            square = new * new
            for e in range(ends[i], ends[i + 1]):
                c, left = columns[e] * LANES, load(E, e * LANES)
                T_c, here = load(T_t, c), square
                if own:
                    T_c, here = T_c * load(present, e * LANES), here * load(present, e * LANES)
                store(sums, 2 * c, load(sums, 2 * c) + new * left)
                store(sums, 2 * c + LANES, load(sums, 2 * c + LANES) + here)
                store(E, e * LANES, left - new * T_c)


@compiled
def sweeps(
    victim: tuple[Numbers, Numbers, Reals, Reals, Reals, Reals],
    own: tuple[Numbers, Numbers, Reals, Reals, Reals, Reals],
    others: tuple[Numbers, Numbers, Reals, Reals, Reals, Reals],
    T: Reals,
    penalties: tuple[float, float, float, float],
    tau: int,
    nums: Reals,
    dens: Reals,
) -> None:
    """tau sweeps. Of each part: ends, columns, E, present, W, caps; T, E and W are changed.

    nums, dens : (k, d, LANES), what the victim's and its own rows add to each topic in the last sweep
    """
    (k, d, _), (alpha, beta, gamma, delta) = T.shape, penalties
    none, sums, moved, limits = all_of(0.0), np.empty((d, 2, LANES)), np.zeros((d, LANES)), (gamma, delta)
    for sweep in range(tau):
        for t in range(k):
            sums[:] = 0.0
            s = t - 1 if t > 0 else k - 1  # E does not know yet by how much this topic has moved
            rows(*victim[:4], victim[4][s], moved, victim[4][t], T[t], victim[5], limits, sums)
            rows(*own[:4], own[4][s], moved, own[4][t], T[t], own[5], limits, sums)
            if sweep == tau - 1:
                nums[t] = sums[:, 0]
                dens[t] = sums[:, 1]
            rows(*others[:4], others[4][s], moved, others[4][t], T[t], others[5], limits, sums)
            T_t = T[t]
            for c in range(0, d * LANES, LANES):
                den, old = load(sums, 2 * c + LANES), load(T_t, c)
                num = where_positive(den, load(sums, 2 * c), none)
                over = largest(den, none) + all_of(beta)
                new = largest(num - all_of(alpha), none) / where_positive(over, over, all_of(1.0))
                new = where_positive(over, new, old)
                store(moved, c, new - old)
                store(T_t, c, new)
