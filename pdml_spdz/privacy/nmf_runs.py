"""Many runs of PD-NMF at once, on rows that differ in a few: what differs stands side by side in every product.

Letters as in `rri`, with the runs first: T (b, k, d) topics, W (b, k, n) coefficients, a row for each topic. Every run
is that of `nmf.pd_nmf_iter` on its rows, without penalties and without a stop rule, to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.nmf import project
from pdml_spdz.algorithms.nmf_start import nnsvd
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows, stacked


@dataclass(frozen=True)
class Swept:
    """T : (b, k, d); num, den : (b, k, d) and (b, k), what the victim's rows add to each topic in the last sweep"""

    T: Reals
    num: Reals
    den: Reals


class Runs:
    """`rri.FullPart` of b runs. X : (n, d), rows that all runs have; own : (b, m, d), rows of each run"""

    def __init__(self, X: RowsLike, own: Reals, k: int) -> None:
        self.X, self.own = as_rows(X), own
        self.W = np.zeros((len(own), k, self.X.shape[0] + own.shape[1]))

    def begin(self, T: Reals) -> None:
        """X T^T of a whole sweep: T_t changes at its own turn only."""
        b, k, d = T.shape
        shared = self.X.times(np.ascontiguousarray(T.reshape(b * k, d).T)).T.reshape(b, k, -1)
        self._X_T = np.concatenate([shared, T @ self.own.swapaxes(1, 2)], axis=2)

    def update(self, t: int, T: Reals) -> tuple[Reals, Reals]:
        """W_t <- [R_t T_t^T]_+ / ||T_t||^2; num = W_t^T R_t (b, d), den = ||W_t||^2 (b, 1)."""
        W, n = self.W, self.X.shape[0]
        TT_t = _times(T, T[:, t])
        size = TT_t[:, [t]].copy()
        TT_t[:, t] = 0.0  # R_t is without topic t
        R_T = self._X_T[:, t] - _transposed_times(W, TT_t)
        W[:, t] = np.divide(np.maximum(R_T, 0.0), size, out=np.zeros_like(R_T), where=size > 0)
        WW_t = _times(W, W[:, t])
        den = WW_t[:, [t]].copy()
        WW_t[:, t] = 0.0
        num = _transposed_times(T, -WW_t)
        num += self.X.transposed_times(np.ascontiguousarray(W[:, t, :n].T)).T
        if self.own.shape[1]:
            num += _transposed_times(self.own, W[:, t, n:])
        return num, den

    def merged(self, same: Same) -> Runs:
        """The same runs where columns without any entry are one."""
        found = Runs(self.X.columns(same.order), self.own[..., same.order], self.W.shape[1])
        found.W = self.W
        return found


def _times(A: Reals, v: Reals) -> Reals:
    """A v of every run: (b, p, q), (b, q) -> (b, p)"""
    return np.asarray((A @ v[..., None])[..., 0])


def _transposed_times(A: Reals, v: Reals) -> Reals:
    """A^T v of every run."""
    return np.asarray((v[:, None] @ A)[:, 0])


@dataclass(frozen=True)
class Same:
    """Columns that no row has an entry in, and that are equal in T: they stay equal, so that one stands for all of
    them, times the root of how many there are. Products with it are then those with all of them.

    order : the other columns, and the first of these; place : (d,), where each column is in `order`
    """

    order: NDArray[np.int64]
    place: NDArray[np.int64]

    @classmethod
    def of(cls, runs: Runs, T: Reals) -> Same | None:
        """None: there are none, or they are not equal yet."""
        used = runs.X.column_squares() > 0
        empty = np.flatnonzero(~(used | np.any(runs.own, axis=(0, 1))))
        if len(empty) < 2 or np.any(T[..., empty] != T[..., empty[:1]]):
            return None
        return cls.merging(empty, T.shape[-1])

    @classmethod
    def merging(cls, alike: NDArray[np.int64], d: int) -> Same:
        """One column, the last, for these of d."""
        full = np.setdiff1d(np.arange(d), alike)
        place = np.full(d, len(full))
        place[full] = np.arange(len(full))
        return cls(np.append(full, alike[0]), place)

    @property
    def count(self) -> int:
        return len(self.place) - len(self.order) + 1

    def pressed(self, T: Reals) -> Reals:
        T = T[..., self.order]
        T[..., -1] *= np.sqrt(self.count)
        return T

    def spread(self, T: Reals) -> Reals:
        T = T.copy()
        T[..., -1] /= np.sqrt(self.count)
        return np.asarray(T[..., self.place])


def sweep(parts: Sequence[Runs], T: Reals, same: Same | None = None) -> tuple[Reals, list[tuple[Reals, Reals]]]:
    """T after a sweep with the sums of all parts, and the first part's own num and den of every topic."""
    T, last = T.copy(), 1 if same is None else same.count
    own = []
    for part in parts:
        part.begin(T)
    for t in range(T.shape[1]):
        addends = [part.update(t, T) for part in parts]
        own.append(addends[0])
        num, den = (sum(values[1:], values[0]) for values in zip(*addends, strict=True))
        used = den > 0  # a topic that no row uses stays as it is
        quotient = num / np.where(used, den, 1.0)
        quotient[:, -1] /= np.sqrt(last)
        T_t = project(quotient, T[:, t], last)
        T_t[:, -1] *= np.sqrt(last)
        T[:, t] = np.where(used, T_t, T[:, t])
    return T, own


def iterate(rows: Runs, T: Reals, sweeps: int) -> tuple[Runs, Reals, Same | None]:
    """So many sweeps; with as few columns as they can be made with."""
    same = None
    for _ in range(sweeps):
        if same is None and (same := Same.of(rows, T)) is not None:
            rows, T = rows.merged(same), same.pressed(T)
        T = sweep([rows], T, same)[0]
    return rows, T, same


def own_topics(X: RowsLike, own: Reals, k: int, sweeps: int) -> Reals:
    """That (b, k, d) of PD-NMF-Init, as `nmf_start.pd_nmf_init` makes it in step 2: k rows that stand for X and own."""
    T = np.array([nnsvd(stacked([X, rows]), k) for rows in own])
    rows, T, same = iterate(Runs(X, own, k), T, sweeps)
    lengths = np.linalg.norm(rows.W, axis=2)
    return np.asarray(lengths[..., None] * (T if same is None else same.spread(T)))


def swept(victim: Runs, others: RowsLike, T: Reals, sweeps: int) -> Swept:
    """PD-NMF-Iter from T between a victim, whose rows differ from run to run, and others with these.

    Sums over all rows are the sums of both parties' sums: all but the last sweep are made on all rows at once.
    """
    n, m, k = victim.X.shape[0], victim.own.shape[1], T.shape[1]
    rows, T, same = iterate(Runs(stacked([victim.X, others]), victim.own, k), T, sweeps - 1)
    both = [victim, Runs(others, victim.own[:, :0], k)]
    both = both if same is None else [part.merged(same) for part in both]
    last = rows.W.shape[2] - m
    both[0].W = np.concatenate([rows.W[..., :n], rows.W[..., last:]], axis=2)
    both[1].W = rows.W[..., n:last].copy()
    T, own = sweep(both, T, same)
    num, den = np.stack([num for num, _ in own], axis=1), np.concatenate([den for _, den in own], axis=1)
    return Swept(T, num, den) if same is None else Swept(same.spread(T), same.spread(num), den)
