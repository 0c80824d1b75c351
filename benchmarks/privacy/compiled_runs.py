"""`NmfMechanism` with compiled loops: the runs of a sample, which differ in one row, eight at a time."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from benchmarks.compiled import lanes, observed_lanes
from benchmarks.compiled.parts import Observed, swept
from benchmarks.compiled.vectors import LANES
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import nnsvd
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.mechanism import Content
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism
from pdml_spdz.privacy.nmf_runs import Runs, Same
from pdml_spdz.rows.base import RowsLike, as_rows, stacked

Stored = tuple[Any, Any, Reals]
Rated = tuple[Any, Any, Reals, Reals, Reals, Reals]  # ends, columns, E, present, W, caps


class Lanes:
    """`nmf_runs.swept` and `own_topics` of eight runs. own : (LANES, m, d), rows of each besides the victim's X"""

    def __init__(self, X: RowsLike, own: Reals, others: RowsLike, T: Reals) -> None:
        """T : (LANES, k, d)"""
        self.X, self.own, self.others = as_rows(X), own, as_rows(others)
        n, m, others_n, k = self.X.shape[0], own.shape[1], self.others.shape[0], T.shape[1]
        self.W = np.zeros((n, k, LANES)), np.zeros((m, k, LANES)), np.zeros((others_n, k, LANES))
        self.T, self.same = T, cast(Same | None, None)

    def go(self, sweeps: int, *, seen: bool = False) -> None:
        """With as few columns as sweeps can be made with (`nmf_runs.Same`). seen : num and den of the last are kept"""
        everyone = Runs(stacked([self.X, self.others]), self.own, self.T.shape[1])
        columns, T, stored = None, np.ascontiguousarray(self.T.transpose(2, 1, 0)), self._stored(None)
        k = T.shape[1]
        for sweep in range(sweeps):
            if columns is None and (found := Same.of(everyone, T.transpose(2, 1, 0))) is not None:
                columns = self.same = found
                T = np.ascontiguousarray(found.pressed(T.transpose(2, 1, 0)).transpose(2, 1, 0))
                stored = self._stored(found.order)
            wanted = seen and sweep == sweeps - 1
            nums = np.zeros((k, len(T) if wanted else 0, LANES))
            dens = np.zeros((k, LANES))
            last = 1.0 if columns is None else float(columns.count)
            lanes.sweep(*stored, self.W, T, last, wanted, nums, dens)
        self.T, self.num, self.den = (self._spread(T.transpose(2, 1, 0)), nums.transpose(2, 0, 1), dens.T.copy())
        if seen:
            self.num = self._spread(self.num)

    def _spread(self, T: Reals) -> Reals:
        return T.copy() if self.same is None else self.same.spread(T)

    def _stored(self, order: Any) -> tuple[Stored, Stored, Stored]:
        """The victim's, its own and the others' rows, of these columns."""
        X, others = (rows if order is None else rows.columns(order) for rows in (self.X, self.others))
        own = self.own if order is None else self.own[..., order]
        return _csr(X), _by_lane(own), _csr(others)

    def lengths(self) -> Reals:
        """(LANES, k): ||W_t|| of the victim's rows."""
        return np.asarray(np.sqrt(sum(np.sum(W * W, axis=0) for W in self.W[:2])).T)


def _present(X: Any) -> Any:
    return sp.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape).toarray() > 0


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
        if self.start == "pd":
            nothing, none = np.zeros((0, d)), np.zeros((LANES, 0, d))
            if "topics" not in self._own:
                self._own["topics"] = self._own_topics(self.others, none, 1)[0]
            That = self._own_topics(X, own, count)
            first = Lanes(nothing, That, self._own["topics"], T)
            first.go(self.sweeps, seen=True)
            seen = {f"init_{name}": value[:count] for name, value in _seen(first).items()}
            T = first.T
        runs = Lanes(X, own, self.others, T)
        runs.go(self.sweeps, seen=True)
        return seen | {name: value[:count] for name, value in _seen(runs).items()}

    def _own_topics(self, X: RowsLike, own: Reals, count: int) -> Reals:
        """`nmf_runs.own_topics` (LANES, k, d)"""
        T = np.array([nnsvd(stacked([X, rows]), self.k) for rows in own[:count]])
        runs = Lanes(X, own, np.zeros((0, X.shape[1])), T[np.minimum(np.arange(LANES), count - 1)])
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
