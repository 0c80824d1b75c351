"""`NmfMechanism` with compiled loops: the runs of a sample, which differ in one row, eight at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled import lanes, observed_lanes
from benchmarks.compiled.loops import Numbers
from benchmarks.compiled.parts import Observed, swept
from benchmarks.compiled.vectors import LANES
from benchmarks.privacy.lane_starts import starts
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.mechanism import Content
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism
from pdml_spdz.privacy.nmf_runs import Same
from pdml_spdz.rows.base import Rows, RowsLike, as_rows, stacked

Stored = tuple[Any, Any, Reals]
Rated = tuple[Any, Any, Reals, Reals, Reals, Reals]  # ends, columns, E, present, W, caps


class Pressed:
    """Columns that are the same in all rows, as one (`nmf_runs.Same`), from the first sweep on.

    Runs begin with W = 0, and T_t is the same in these columns after its first turn with W_t > 0. Before that it is
    only used in products with rows and with topics that have had theirs, for which the mean of T_t will do, and in
    ||T_t||^2: that has `besides` (k, LANES), the squares of what differs from the mean.
    """

    def __init__(self, T: Reals, alike: Numbers) -> None:
        """T : (LANES, k, d); alike : (d,), the columns"""
        d, places = T.shape[2], np.flatnonzero(alike)
        self.T_0, self.same = T, Same.merging(places if len(places) else np.array([d - 1]), d)
        of_them = T[..., self.same.place == len(self.same.order) - 1]
        mean = of_them.mean(axis=2, keepdims=True)
        self.besides = np.ascontiguousarray(np.sum((of_them - mean) ** 2, axis=2).T)
        T = self.same.pressed(T)
        T[..., -1:] = np.sqrt(self.same.count) * mean
        self.T = np.ascontiguousarray(T.transpose(1, 2, 0))

    def stored(self, rows: Rows) -> Stored:
        ends, columns, values = _csr(rows.columns(self.same.order))
        last = columns == len(self.same.order) - 1
        return ends, columns, np.where(last, np.sqrt(self.same.count) * values, values)

    def spread(self, T: Reals) -> Reals:
        """(LANES, k, d) of (k, its own columns, LANES)."""
        return self.same.spread(T.transpose(2, 0, 1))

    def topics(self) -> Reals:
        """T; a topic that no row has used is as it was."""
        T, unused = self.spread(self.T), self.besides.T > 0.0
        T[unused] = self.T_0[unused]
        return T


class Lanes:
    """`nmf_runs.swept` and `own_topics` of eight runs. own : (LANES, m, d), rows of each besides the victim's X"""

    def __init__(self, X: RowsLike, own: Reals, others: RowsLike, T: Reals, alike: Numbers) -> None:
        """T : (LANES, k, d); alike : (d,), columns that are the same in all rows"""
        self.pressed = pressed = Pressed(T, alike)
        X, others = as_rows(X), as_rows(others)
        self.rows = pressed.stored(X), _by_lane(pressed.same.pressed(own)), pressed.stored(others)
        n, m, others_n, k = X.shape[0], own.shape[1], others.shape[0], T.shape[1]
        self.W = np.zeros((n, k, LANES)), np.zeros((m, k, LANES)), np.zeros((others_n, k, LANES))

    def go(self, sweeps: int, *, seen: bool = False) -> None:
        """seen : num and den of the last sweep are kept"""
        pressed, T = self.pressed, self.pressed.T
        k, d, _ = T.shape
        nums, dens, places = np.empty_like(T), np.empty((k, LANES)), np.empty((k, d), np.int32)
        counts = np.array([lanes.positive(T[t], places[t]) for t in range(k)])
        last = float(pressed.same.count)
        for sweep in range(sweeps):
            wanted = seen and sweep == sweeps - 1
            lanes.sweep(*self.rows, self.W, T, places, counts, last, pressed.besides, wanted, nums, dens)
        self.T = pressed.topics()
        if seen:
            self.num, self.den = pressed.spread(nums), dens.T.copy()

    def lengths(self) -> Reals:
        """(LANES, k): ||W_t|| of the victim's rows."""
        return np.asarray(np.sqrt(sum(np.sum(W * W, axis=0) for W in self.W[:2])).T)


def _present(X: Any) -> Any:
    return sp.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape).toarray() > 0


def _empty(X: RowsLike, own: Reals) -> Any:
    """(d,): no row has an entry there."""
    return ~((as_rows(X).column_squares() > 0) | np.any(own, axis=(0, 1)))


def _csr(rows: Any) -> Stored:
    found = sp.csr_array(as_rows(rows).csr())
    return found.indptr.astype(np.int64), found.indices.astype(np.int32), found.data


def _by_lane(own: Reals) -> Stored:
    """Rows (LANES, m, d) where any lane has an entry: values (nnz, LANES)."""
    r, c = np.nonzero(np.any(own, axis=0))
    ends = np.searchsorted(r, np.arange(own.shape[1] + 1))
    return ends, c.astype(np.int32), np.ascontiguousarray(own[:, r, c].T)


class CompiledNmf(NmfMechanism):
    """The same samples, to rounding, and the same settings: what one has begun the other goes on with."""

    def _runs(self, X: RowsLike, own: Reals, seed: int) -> Content:
        T = np.random.default_rng(seed).uniform(size=(self.k, X.shape[1]))
        T /= T.sum(axis=1, keepdims=True)
        pieces = [self._at_once(X, own[i : i + LANES], T) for i in range(0, len(own), LANES)]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def _at_once(self, X: RowsLike, own: Reals, T_0: Reals) -> Content:
        count, d = len(own), T_0.shape[1]
        if self.weighted and count == 1:
            return {name: value[None] for name, value in self._rated(X, own[0], T_0).items()}
        own = own[np.minimum(np.arange(LANES), count - 1)]  # the last one stands in empty lanes
        if self.weighted:
            return {name: value[:count] for name, value in self._rated_lanes(X, own, T_0).items()}
        T, seen = np.repeat(T_0[None], LANES, axis=0), {}
        nobody = _empty(X, own) & _empty(self.others, own)  # nor has any topic that stands for rows
        if self.start == "pd":
            nothing, none = np.zeros((0, d)), np.zeros((LANES, 0, d))
            if "topics" not in self._own:
                self._own["topics"] = self._own_topics(self.others, none, 1)[0]
            That = self._own_topics(X, own, count)
            first = Lanes(nothing, That, self._own["topics"], T, nobody)
            first.go(self.sweeps, seen=True)
            seen = {f"init_{name}": value[:count] for name, value in _seen(first).items()}
            T = first.T
        runs = Lanes(X, own, self.others, T, nobody)
        runs.go(self.sweeps, seen=True)
        return seen | {name: value[:count] for name, value in _seen(runs).items()}

    def _own_topics(self, X: RowsLike, own: Reals, count: int) -> Reals:
        """`nmf_runs.own_topics` (LANES, k, d)"""
        T = starts(X, own[:count], self.k)
        T = T[np.minimum(np.arange(LANES), count - 1)]
        runs = Lanes(X, own, np.zeros((0, X.shape[1])), T, _empty(X, own))
        runs.go(self.sweeps)
        return np.asarray(runs.lengths()[..., None] * runs.T)

    def _rated(self, X: RowsLike, own: Reals, T: Reals) -> Content:
        """`nmf_mechanism._swept` of one run: entries that are missing have residuals of their own."""
        victim = stacked([X, own])
        rows = Observed(stacked([victim, self.others]), self.k, victim.shape[0])
        rows.fit(T, self.penalties, sweeps=5)
        T = swept(rows, T, SweepSettings(self.sweeps, 0.0, 1.0, self.penalties, weighted=True))
        return {"T": T, "den": rows.den.sum(axis=1), "num": rows.num}

    def _rated_lanes(self, X: RowsLike, own: Reals, T: Reals) -> Content:
        """`_rated` of eight runs. own : (LANES, m, d)"""
        p = self.penalties
        by_lane, repeated = [Observed(rows, self.k) for rows in own], np.repeat(T[..., None], LANES, axis=2)
        parts = self._shared(X, T), self._own_rated(by_lane, T), self._shared(self.others, T)
        T_b, nums, dens = repeated, np.zeros((*T.shape, LANES)), np.zeros((*T.shape, LANES))
        observed_lanes.sweeps(*parts, T_b, (p.alpha, p.beta, p.gamma, p.delta), self.sweeps, nums, dens)
        return {
            "T": np.ascontiguousarray(T_b.transpose(2, 0, 1)),
            "den": dens.sum(axis=1).T.copy(),
            "num": np.ascontiguousarray(nums.transpose(2, 0, 1)),
        }

    def _shared(self, X: RowsLike, T: Reals) -> Rated:
        """Rows that all lanes have, fitted to the T that all begin with."""
        rows = Observed(X, self.k)
        rows.fit(T, self.penalties, sweeps=5)
        W, E, caps = (np.repeat(a[..., None], LANES, axis=-1) for a in (rows.W.T, rows.E, rows.cap(self.penalties)))
        matrix = rows.X
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), E, np.zeros((0, LANES)), W, caps

    def _own_rated(self, lanes_rows: list[Observed], T: Reals) -> Rated:
        """Rows that each lane has its own of, where any of them has an entry."""
        (m, d), found = lanes_rows[0].X.shape, []
        for rows in lanes_rows:
            rows.fit(T, self.penalties, sweeps=5)
            E = sp.csr_array((rows.E, rows.X.indices, rows.X.indptr), shape=(m, d)).toarray()
            found.append((E, _present(rows.X)))
        r, c = np.nonzero(np.any([present for _, present in found], axis=0))
        E, present = (np.stack([pair[i][r, c] for pair in found], axis=-1).astype(np.float64) for i in range(2))
        W = np.ascontiguousarray(np.stack([rows.W.T for rows in lanes_rows], axis=-1))
        caps = np.stack([rows.cap(self.penalties) for rows in lanes_rows], axis=-1)
        ends = np.searchsorted(r, np.arange(m + 1)).astype(np.int64)
        return ends, c.astype(np.int32), E, present, W, caps


def _seen(runs: Lanes) -> Content:
    return {"T": runs.T, "num": runs.num, "den": runs.den}
