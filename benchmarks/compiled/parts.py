"""`rri.FullPart` and `rri.ObservedPart` with compiled loops: the same W, T and errors, to rounding and to `tol`.

`swept` is `nmf.pd_nmf_iter` of one party with itself, a whole sweep in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.compiled import loops
from benchmarks.compiled.entries import Entries, plain
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import nnsvd
from pdml_spdz.algorithms.rri import SWEEPS, FullPart, ObservedPart, Penalties
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows

Heard = Callable[[int, Reals], None]  # t, and T after so many sweeps


class Full(FullPart):
    """entries : of X, if they can be told in fewer bytes"""

    def __init__(self, X: RowsLike, k: int, entries: Entries | None = None) -> None:
        super().__init__(as_rows(as_rows(X).csr()), k)
        matrix = self.X.csr()
        self.stored = matrix.indptr, matrix.indices, matrix.data
        self.entries = plain(matrix) if entries is None else entries

    def restore(self, W: Reals, T: Reals) -> None:
        self.W = np.array(W, order="C")

    def products(self, T: Reals) -> Reals:
        """X T^T (n, k)"""
        found = np.empty((len(self.W), len(T)))
        loops.times(*self.stored, np.ascontiguousarray(T.T), found)
        return found

    def fit(self, T: Reals, p: Penalties, sweeps: int | None = None, tol: float = 1e-10) -> None:
        """Every row goes on until it changes by less than tol itself."""
        self.restore(self.W, T)
        loops.fit_full(self.W, T @ T.T, self.products(T), p.gamma, p.delta, (sweeps or SWEEPS, tol))

    def error(self, T: Reals) -> float:
        cross = float(np.vdot(self.products(T), self.W))
        return max(0.0, self.norm() - 2.0 * cross + float(np.sum((self.W.T @ self.W) * (T @ T.T))))

    def sweeps(self, T: Reals) -> Iterator[tuple[Reals, float]]:
        """T after each sweep on the simplex, and its largest change in l1; what is not read is not computed."""
        T, by_topic = T.copy(), np.ascontiguousarray(self.W.T)
        by_feature, counts = np.ascontiguousarray(T.T), np.count_nonzero(T, axis=1)
        places = np.zeros(T.shape, np.int32)
        for t, row in enumerate(T):
            places[t, : counts[t]] = np.flatnonzero(row)
        while True:
            before = T.copy()
            loops.sweep_full(*self.entries.all, by_topic, T, by_feature, places, counts)
            self.W = by_topic.T
            yield T.copy(), float(np.max(np.sum(np.abs(T - before), axis=1)))


class Observed(ObservedPart):
    """first : the first so many rows are one party's; num, den (k, d) : what they added in the last sweep"""

    def __init__(self, X: RowsLike, k: int, first: int = 0) -> None:
        super().__init__(X, k)
        self.first = first
        self.num, self.den = np.zeros((k, self.d)), np.zeros((k, self.d))
        self.places = loops.unsigned(self.X.indptr, self.X.indices, self.d)

    def fit(self, T: Reals, p: Penalties, sweeps: int | None = None, tol: float = 1e-10) -> None:
        """Every row goes on until it changes by less than tol itself."""
        W, by_feature = np.array(self.W, order="C"), np.ascontiguousarray(T.T)
        limits, stop = (p.gamma, p.delta), (sweeps or SWEEPS, tol)
        loops.fit_observed(*self.places, self.X.data, by_feature, W, self.cap(p), limits, stop)
        self.restore(W, T)

    def restore(self, W: Reals, T: Reals) -> None:
        self.W = W.copy()
        self.E = np.empty(self.X.nnz)
        loops.residuals(*self.places, self.X.data, np.ascontiguousarray(T.T), np.ascontiguousarray(W), self.E)

    def sweeps(self, T: Reals, p: Penalties) -> Iterator[tuple[Reals, float]]:
        T, by_topic, caps = T.copy(), np.ascontiguousarray(self.W.T), self.cap(p)
        of_p = p.alpha, p.beta, p.gamma, p.delta
        while True:
            change = loops.sweep_observed(*self.places, self.E, by_topic, T, caps, of_p, self.first, self.num, self.den)
            self.W = by_topic.T
            yield T.copy(), change


def part(X: RowsLike, k: int, *, weighted: bool = False) -> Full | Observed:
    """As `rri.part`."""
    return Observed(X, k) if weighted else Full(X, k)


def swept(local: Full | Observed, T: Reals, settings: SweepSettings, heard: Heard = lambda t, T: None) -> Reals:
    """T of PD-NMF-Iter on these rows alone, as `nmf.pd_nmf_iter` with `own_sum`."""
    if isinstance(local, Observed):
        made = local.sweeps(T, settings.penalties)
    else:
        assert settings.simplex
        assert not settings.paper_order
        made = local.sweeps(T)
    for t, (T, change) in enumerate(made, 1):
        heard(t, T)
        if t >= settings.tau or change < settings.tol:
            break
    return T


def rri_nmf(X: RowsLike, T: Reals, settings: SweepSettings, *, w_start: str = "zero") -> tuple[Reals, Reals]:
    """As `nmf_start.rri_nmf`."""
    local = part(X, len(T), weighted=settings.weighted)
    if w_start == "nnls":
        local.fit(T, settings.penalties)
    T = swept(local, T, settings)
    return local.W, T


def own_topics(X: RowsLike, k: int, settings: SweepSettings) -> tuple[Reals, Reals]:
    """As `nmf_start.own_topics`."""
    local = part(X, k, weighted=settings.weighted)
    T = swept(local, nnsvd(X, k), settings)
    return local.lengths(), T
