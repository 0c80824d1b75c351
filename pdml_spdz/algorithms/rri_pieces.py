"""One party's part of RRI-NMF where its rows are not loaded whole: W stays where they are, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.algorithms.rri import FullPart, ObservedPart, Part, Penalties
from pdml_spdz.numerics.fixedpoint import Reals


def piecewise_part(X: Any, k: int, *, weighted: bool) -> Part:
    """`rri.part` of blocked rows."""
    return PiecewiseObservedPart(X, k) if weighted else PiecewisePart(X, k)


class PiecewisePart(Part):
    """Every entry counts, as in FullPart, of rows that are not loaded whole: W stays where they are."""

    of_batch: type[Part] = FullPart  # what does the same for some rows

    def __init__(self, X: Any, k: int) -> None:
        self.X, self.d, self.k = X, X.shape[1], k
        self.coefficients = X.coefficients(k)

    @property
    def W(self) -> Reals:  # type: ignore[override]
        """All of it, in the memory of this process."""
        return np.concatenate([*self.coefficients.parts()])

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        T_t = T[t]
        TT_t = T @ T_t
        sums = self.coefficients.total(_update_piece, t, T_t, TT_t, TT_t[t] + p.delta, p.gamma)
        X_W, WW_t = sums[: self.d], sums[self.d :]
        return X_W - WW_t @ T + WW_t[t] * T_t, np.array([WW_t[t]])

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        return None

    def normal_equations(self, T: Reals, rows: slice) -> tuple[Reals, Reals]:
        return (T @ T.T)[None], self.X[rows].times(T.T)

    def fit(self, T: Reals, p: Penalties, sweeps: int | None = None) -> None:
        self.coefficients.total(_fit_piece, self.of_batch, T, p, sweeps)

    def lengths(self) -> Reals:
        lengths: Reals = np.sqrt(np.diag(self._cross(np.zeros((self.k, self.d)))[1]))
        return lengths

    def _cross(self, T: Reals) -> tuple[float, Reals]:
        """The sum of X T^T * W over all entries, and W^T W."""
        sums = self.coefficients.total(_cross_piece, T)
        return float(sums[0]), sums[1:].reshape(self.k, self.k)

    def error(self, T: Reals) -> float:
        cross, WW = self._cross(T)
        return max(0.0, self.norm() - 2.0 * cross + float(np.sum(WW * (T @ T.T))))

    def norm(self) -> float:
        return float(self.X.squares())

    def kept(self, place: Path) -> Reals | None:
        self.coefficients.save(place)
        return None

    def restore_kept(self, W: Reals | None, place: Path, T: Reals) -> None:
        self.coefficients.load(place)

    def results(self, place: Path, ids: NDArray[Any] | None = None) -> dict[str, Reals]:
        self.coefficients.write_parquet(place, ids)
        return {}


def _update_piece(piece: Any, W: Reals, t: int, T_t: Reals, TT_t: Reals, size: float, gamma: float) -> Any:
    """`FullPart.update` of a piece: its W, and X^T W_t and W^T W_t in one vector."""
    X_W, at = np.zeros(len(T_t)), 0
    for X in piece.batches():
        w = W[at : at + X.shape[0]]
        R_T = X @ T_t - w @ TT_t + w[:, t] * TT_t[t]
        w[:, t] = np.maximum(R_T - gamma, 0.0) / size if size > 0 else 0.0
        X_W += X.T @ w[:, t]
        at += X.shape[0]
    return W, np.concatenate([X_W, W.T @ W[:, t]])


def _fit_piece(piece: Any, W: Reals, kind: Any, T: Reals, p: Penalties, sweeps: int | None) -> Any:
    at = 0
    for X in piece.batches():
        local = kind(X, len(T))
        local.W = W[at : at + X.shape[0]]
        local.fit(T, p, sweeps)
        W[at : at + X.shape[0]] = local.W
        at += X.shape[0]
    return W, 0.0


def _cross_piece(piece: Any, W: Reals, T: Reals) -> Any:
    cross, at = 0.0, 0
    for X in piece.batches() if T.any() else ():
        cross += float(np.sum((X @ T.T) * W[at : at + X.shape[0]]))
        at += X.shape[0]
    return W, np.concatenate([[cross], (W.T @ W).reshape(-1)])


class PiecewiseObservedPart(PiecewisePart):
    """Only stored entries count, as in ObservedPart, of rows that are not loaded whole.

    The residual is not kept: it is as large as the rows. It is computed again for every topic, O(nnz k), from rows that
    have to be read again anyway.
    """

    of_batch = ObservedPart

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        sums = self.coefficients.total(_update_observed, t, T, p)
        return sums[: self.d], sums[self.d :]

    def error(self, T: Reals) -> float:
        return float(self.coefficients.total(_error_observed, T))


def _of_batches(piece: Any, W: Reals, T: Reals) -> Iterator[tuple[ObservedPart, Reals]]:
    """The part of every batch, as it is with these coefficients, and its own rows of W."""
    at = 0
    for X in piece.batches():
        local, w = ObservedPart(X, len(T)), W[at : at + X.shape[0]]
        local.restore(w, T)
        yield local, w
        at += X.shape[0]


def _update_observed(piece: Any, W: Reals, t: int, T: Reals, p: Penalties) -> Any:
    sums = np.zeros(2 * T.shape[1])
    for local, w in _of_batches(piece, W, T):
        sums += np.concatenate(local.update(t, T, p))
        w[:] = local.W
    return W, sums


def _error_observed(piece: Any, W: Reals, T: Reals) -> Any:
    return W, sum(local.error(T) for local, _ in _of_batches(piece, W, T))
