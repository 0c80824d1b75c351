"""One party's part of RRI-NMF: its rows X, its coefficients W, and what it adds to the sums of a topic.

Letters as in the paper: X (n, d) rows, W (n, k) coefficients, T (k, d) topics, R_t = X - W T + W_t T_t the part of X
that is left for topic t. R_t is never formed: W^T X, W^T W and T T^T are enough, O(nnz k + n k^2 + d k^2) for a sweep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import RowsLike, as_rows

BLOCK_NUMBERS = 1 << 20  # of normal equations at a time
CACHED_NUMBERS = 1 << 17  # of coefficients that stay in a cache while all of them are swept
SWEEPS, FAR = 200, 1e-24  # of a fit of W alone, and how far (relative) from the best fit it may end
FEW = 8  # a feature that is looked up costs about as much as so many in their order
CAP = 8.0  # where entries are missing: no coefficient is more than so many times d ||X_i||


@dataclass(frozen=True)
class Penalties:
    """alpha ||T||_1 + beta/2 ||T||_F^2 + gamma ||W||_1 + delta/2 ||W||_F^2"""

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    delta: float = 0.0

    @property
    def any(self) -> bool:
        return any((self.alpha, self.beta, self.gamma, self.delta))

    @property
    def leave_w_free(self) -> bool:
        """Nothing keeps W small."""
        return not (self.gamma or self.delta)


class Part(ABC):
    """Party m's X and W. den is one number for a topic, or one for each feature where entries are missing."""

    W: Reals
    d: int

    @abstractmethod
    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        """W_t <- [R_t T_t^T - gamma]_+ / (||T_t||^2 + delta); then this party's num = W_t^T R_t and den = ||W_t||^2."""

    @abstractmethod
    def moved(self, t: int, before: Reals, T: Reals) -> None:
        """T_t was `before` and is T[t] now."""

    @abstractmethod
    def error(self, T: Reals) -> float:
        """||X - W T||_F^2, this party's."""

    @abstractmethod
    def norm(self) -> float:
        """||X||_F^2: what bounds all sums."""

    def restore(self, W: Reals, T: Reals) -> None:
        """Go on from these coefficients."""
        self.W = W.copy()

    def lengths(self) -> Reals:
        """(k,): ||W_t|| of every topic."""
        return np.asarray(np.linalg.norm(self.W, axis=0))

    def kept(self, place: Path) -> Reals | None:
        """W for a checkpoint; None: it is in files at this place, where it was put now."""
        return self.W

    def restore_kept(self, W: Reals | None, place: Path, T: Reals) -> None:
        """Go on from a checkpoint."""
        assert W is not None
        self.restore(W, T)

    def results(self, place: Path, ids: NDArray[Any] | None = None) -> dict[str, Reals]:
        """W for whoever wants it, by the name of its file; nothing: it is in files at this place, with the ids."""
        return {"W.npy": self.W}

    @abstractmethod
    def normal_equations(self, T: Reals, rows: slice) -> tuple[Reals, Reals]:
        """(G, b) of these rows: W_i minimises W_i G_i W_i^T / 2 - W_i b_i; G is (1, k, k) if all rows have the same."""

    def rows_at_a_time(self, k: int) -> int:
        """How many rows' normal equations `fit` works on."""
        return max(1, BLOCK_NUMBERS // k**2)

    def cap(self, p: Penalties) -> Reals:
        """(n,): what no coefficient of a row exceeds."""
        return np.full(len(self.W), np.inf)

    def fit(self, T: Reals, p: Penalties, sweeps: int | None = None) -> None:
        """W <- the non-negative least squares fit of X to T, by the same coordinate updates, T fixed; and by active
        sets for rows that these have not brought there. sweeps : so many instead, wherever that is

        From the normal equations of some rows at a time: a sweep costs O(n k^2), however many entries there are.
        """
        cap, size = self.cap(p), self.rows_at_a_time(len(T))
        for first in range(0, len(self.W), size):
            rows = slice(first, first + size)
            G, b = self.normal_equations(T, rows)
            G, b = G + p.delta * np.eye(len(T)), b - p.gamma
            for turn in range(SWEEPS if sweeps is None else sweeps):
                _sweep(self.W[rows], G, b, cap[rows])
                if sweeps is None and turn % 10 == 9 and not _far(self.W[rows], G, b, cap[rows]).any():
                    break
            for i in np.flatnonzero(_far(self.W[rows], G, b, cap[rows])) if sweeps is None else ():
                self.W[first + i] = _solved(self.W[first + i], G[i if len(G) > 1 else 0], b[i], cap[first + i])
        self.restore(self.W, T)


def _sweep(W: Reals, G: Reals, b: Reals, cap: Reals) -> None:
    """W_t <- [b_t - sum over s != t of G_ts W_s]_+ / G_tt, for every t."""
    for t in range(W.shape[1]):
        below = np.broadcast_to(G[:, t, t], len(W))
        top = b[:, t] - _times_rows(W, G[:, t : t + 1])[:, 0] + below * W[:, t]
        W[:, t] = np.minimum(np.divide(np.maximum(top, 0.0), below, out=np.zeros(len(W)), where=below > 0), cap)


def _times_rows(W: Reals, G: Reals) -> Reals:
    """G_i W_i for every row."""
    product: Reals = W @ G[0].T if len(G) == 1 else np.einsum("itk,ik->it", G, W)
    return product


def _far(W: Reals, G: Reals, b: Reals, cap: Reals) -> NDArray[np.bool_]:
    """Rows whose objective may be above its least value by more than FAR of what W explains: by more than the square of
    the gradient, as far as W may follow it, over twice the least curvature."""
    values = np.linalg.eigvalsh(G)
    curvature = np.min(np.where(values > len(b.T) * EPS * values[:, -1:], values, np.inf), axis=1)
    down = b - _times_rows(W, G)
    down = np.where(W > 0, down, np.maximum(down, 0.0))
    down = np.where(cap[:, None] > W, down, np.minimum(down, 0.0))
    far: NDArray[np.bool_] = np.sum(down**2, axis=1) / (2 * curvature) > FAR * np.sum(b * W, axis=1)
    return far


def _solved(w: Reals, G: Reals, b: Reals, cap: float) -> Reals:
    """The w of least w G w / 2 - b w in the box [0, cap], by Lawson and Hanson; or this one, if it is as good."""
    from scipy.optimize import lsq_linear, nnls  # which most runs do without

    values, U = np.linalg.eigh(G)
    real = values > len(b) * EPS * values[-1]
    roots = np.sqrt(values[real])
    A, y = (U[:, real] * roots).T, b @ U[:, real] / roots
    try:
        found = nnls(A, y)[0]
    except RuntimeError:  # it turns in circles
        found = w
    found = found if np.all(found <= cap) else lsq_linear(A, y, (0.0, cap), tol=EPS).x
    better: Reals = found if found @ G @ found / 2 - b @ found < w @ G @ w / 2 - b @ w else w
    return better


class MakePart(Protocol):
    """How rows become a part: `part`, or another way that computes the same."""

    def __call__(self, X: RowsLike, k: int, *, weighted: bool = False) -> Part: ...


def part(X: RowsLike, k: int, *, weighted: bool = False) -> Part:
    """X and W = 0. weighted : X is sparse and what it does not store is missing, not zero"""
    rows = as_rows(X)
    if rows.lazy:
        from pdml_spdz.algorithms.rri_pieces import piecewise_part  # with Dask

        return piecewise_part(rows, k, weighted=weighted)
    return ObservedPart(rows, k) if weighted else FullPart(rows, k)


class FullPart(Part):
    """Every entry of X counts, stored or not."""

    def __init__(self, X: RowsLike, k: int) -> None:
        self.X = as_rows(X)
        n, self.d = self.X.shape
        self.W = np.zeros((n, k), order="F")  # columns are what sweeps work on
        self._T, self._X_T = np.zeros((0, self.d)), np.zeros((n, 0))

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        X, W = self.X, self.W
        TT_t = _rows_times(T, T[t])
        size = TT_t[t] + p.delta
        TT_t[t] = 0.0  # R_t is without topic t
        R_T = self._times(t, T) - W @ TT_t
        W[:, t] = np.maximum(R_T - p.gamma, 0.0) / size if size > 0 else 0.0
        WW_t = W.T @ W[:, t]
        den = WW_t[t]
        WW_t[t] = 0.0
        num = X.transposed_times(W[:, t]) - WW_t @ T
        return num, np.array([den])

    def _times(self, t: int, T: Reals) -> Reals:
        """X T_t. A sweep changes T_t at its own turn only: the first turn computes all of them in one pass over X."""
        if t == 0 and self.W.shape == (self.X.shape[0], len(T)):
            self._T, self._X_T = T.copy(), np.asfortranarray(self.X.times(T.T))
        if t < len(self._T) and np.array_equal(self._T[t], T[t]):
            return self._X_T[:, t]
        return self.X.times(T[t])

    def restore(self, W: Reals, T: Reals) -> None:
        self.W = np.array(W, order="F")

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        return None  # what is kept of T is compared with it

    def rows_at_a_time(self, k: int) -> int:
        return max(1, CACHED_NUMBERS // k)  # all rows have the same G

    def normal_equations(self, T: Reals, rows: slice) -> tuple[Reals, Reals]:
        return (T @ T.T)[None], np.asfortranarray(self.X[rows].times(T.T))

    def error(self, T: Reals) -> float:
        cross = float(np.sum(self.X.times(T.T) * self.W))
        return max(0.0, self.norm() - 2.0 * cross + float(np.sum((self.W.T @ self.W) * (T @ T.T))))

    def norm(self) -> float:
        return self.X.squares()


def _rows_times(T: Reals, x: Reals) -> Reals:
    """T x; topics soon have few features, and then only those are looked at."""
    place = np.flatnonzero(x)
    return T[:, place] @ x[place] if len(place) < len(x) // FEW else T @ x


class ObservedPart(Part):
    """Only stored entries count. The residual X - W T is kept on them: O(nnz) for a topic.

    A row may have only features that a topic hardly has: its coefficient is then as large as those entries of T are
    small, and the objective need not have a minimum at all. gamma or delta keep W finite; without them W_i <= CAP d
    ||X_i|| does, with d for a mean entry 1/d of T. Within that box every update is still the exact minimum of its
    coordinate, so the objective never rises, and all sums have a bound (`nmf.addend_bounds`).
    """

    def __init__(self, X: RowsLike, k: int) -> None:
        self.X = X = as_rows(X).csr()
        n, self.d = X.shape
        self.columns, self._counts = X.indices, np.diff(X.indptr)
        self._observed = self._where(np.ones(X.nnz))
        self.W = np.zeros((n, k))
        self.largest = CAP * self.d * np.sqrt(np.bincount(self.rows, X.data**2, n))
        self.E = X.data.copy()  # X - W T where X is observed

    @property
    def rows(self) -> NDArray[np.int64]:
        """Of each observed entry."""
        return np.repeat(np.arange(len(self._counts)), self._counts)

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        T_t = T[t]
        R_t = self._where(self.E + self._product(self.W[:, t], T_t))
        size = self._observed @ (T_t * T_t) + p.delta
        top = np.maximum(R_t @ T_t - p.gamma, 0.0)
        W_t = np.minimum(np.divide(top, size, out=np.zeros(len(top)), where=size > 0), self.cap(p))
        self.W[:, t] = W_t
        self.E = R_t.data - self._product(W_t, T_t)
        return np.asarray(R_t.T @ W_t), np.asarray(self._observed.T @ (W_t * W_t))

    def _where(self, values: Reals) -> sp.csr_array:
        """A matrix of these values where X is observed."""
        return sp.csr_array((values, self.X.indices, self.X.indptr), shape=self.X.shape)

    def _product(self, w: Reals, t: Reals) -> Reals:
        """w t^T where X is observed."""
        return np.asarray(np.repeat(w, self._counts) * t[self.columns])

    def cap(self, p: Penalties) -> Reals:
        return self.largest if p.leave_w_free else super().cap(p)

    def normal_equations(self, T: Reals, rows: slice) -> tuple[Reals, Reals]:
        X, observed, k = self.X[rows], self._observed[rows], len(T)
        s, t = np.triu_indices(k)
        G = np.zeros((X.shape[0], k, k))
        G[:, s, t] = G[:, t, s] = observed @ (T[s] * T[t]).T
        return G, np.asarray(X @ T.T)

    def restore(self, W: Reals, T: Reals) -> None:
        super().restore(W, T)
        self.E = self.X.data.copy()
        for t in range(len(T)):  # one topic at a time: k times the stored entries may not fit in memory
            self.E -= self._product(W[:, t], T[t])

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        self.E -= self._product(self.W[:, t], T[t] - before)

    def error(self, T: Reals) -> float:
        return float(self.E @ self.E)

    def norm(self) -> float:
        return float(np.vdot(self.X.data, self.X.data))
