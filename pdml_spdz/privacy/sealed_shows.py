"""What a sealed run shows: the steps of the program `sealed_svd` without shares, of many covariances at a time.

Letters: S = diag(theta) + z z^T, in the basis of eigenvectors of a matrix that it differs from in one row; everything
(n, ...) is of n such z at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.rank_one import Eigen
from pdml_spdz.programs.sealed_precision import SealedPrecision, checkpoints, iterations_for
from pdml_spdz.programs.steps import Family
from pdml_spdz.study.model import Study

TOGETHER = 50  # fits at a time: some hundred megabytes at d = 2,000


@dataclass(frozen=True)
class SealedSettings:
    """columns : b; goal, decay : of the study"""

    columns: int
    goal: float = Study.accuracy_goal
    decay: float = Study.decay

    @property
    def checkpoints(self) -> list[int]:
        """Orthonormalisations up to each."""
        return checkpoints(iterations_for(self.goal, self.decay))

    def precision(self, M: int, d: int, k: int) -> SealedPrecision:
        """As a run has it, at any d: to compare levels where no run would be tried."""
        bits, T = ceil(-log2(self.goal)), iterations_for(self.goal, self.decay)
        return SealedPrecision(M, d, k, self.columns, goal_bits=bits, iterations=T, decay=self.decay)

    @classmethod
    def usual(cls, k: int, d: int) -> SealedSettings:
        """As a study has them that says nothing else."""
        return cls(min(2 * k, d))


@dataclass(frozen=True)
class Sealed:
    """V : (d, k), Ritz vectors, or None if the gate never opened; ratios : (b,), Ritz values over their sum

    checkpoint : at which the gate opened, from 0; first : (b,), the ratios at the first one
    """

    V: Reals | None
    ratios: Reals
    checkpoint: int
    first: Reals


def sealed(base: Eigen, more: Reals, start: Reals, p: SealedPrecision) -> list[Sealed]:
    """Ritz vectors after T (2 T, 4 T) steps from `start` (d, b) and the gate's verdicts, of S + x x^T for every row x
    of `more` (n, d).
    """
    z, begin = more @ base.Q, base.Q.T @ start
    found = [fit for i in range(0, len(z), TOGETHER) for fit in _fits(base.values, z[i : i + TOGETHER], begin, p)]
    V = base.Q @ np.column_stack([np.zeros((p.d, p.rank)) if fit.V is None else fit.V for fit in found])
    columns = (V[:, i : i + p.rank] for i in range(0, V.shape[1], p.rank))
    return [fit if fit.V is None else replace(fit, V=mine) for fit, mine in zip(found, columns, strict=True)]


def opened(V: Reals, p: SealedPrecision, rng: np.random.Generator) -> Reals:
    """V to the bits that are opened: rounded under a mask of each party, whose carries are in the last place."""
    carried = rng.random((p.M, *V.shape)).sum(axis=0)
    return np.asarray(np.ldexp(np.floor(np.ldexp(V, p.f_out) + carried) - (p.M - 1) / 2, -p.f_out))


def _fits(theta: Reals, z: Reals, start: Reals, p: SealedPrecision) -> list[Sealed]:
    found: dict[int, Sealed] = {}
    first: dict[int, Reals] = {}
    left, V = np.arange(len(z)), np.repeat(start[None], len(z), axis=0)
    for i, many in enumerate(p.checkpoints):
        S = _Scaled.of(theta, z[left])
        for j in range(many):
            V = _orthonormal(_accelerated(S, V, p, begin=i + j == 0), p, last=j == many - 1)
        X, ratios, passed = _checkpoint(S, V, p)
        for n, at in enumerate(left):
            first.setdefault(int(at), ratios[n])
            if passed[n] or i == len(p.checkpoints) - 1:
                found[int(at)] = Sealed(X[n] if passed[n] else None, ratios[n], i + (not passed[n]), first[int(at)])
        left, V = left[~passed], V[~passed]
        if not len(left):
            break
    return [found[n] for n in range(len(z))]


@dataclass(frozen=True)
class _Scaled:
    """C = S / ||S||_F, of every z"""

    theta: Reals
    z: Reals
    norm: Reals

    @classmethod
    def of(cls, theta: Reals, z: Reals) -> _Scaled:
        squares = np.sum(theta**2) + 2 * z**2 @ theta + np.sum(z**2, axis=1) ** 2
        return cls(theta, z, np.maximum(np.sqrt(squares), 1e-300))

    def times(self, V: Reals) -> Reals:
        SV = self.theta[:, None] * V + self.z[:, :, None] * (self.z[:, None, :] @ V)
        return np.asarray(SV / self.norm[:, None, None])


def _accelerated(C: _Scaled, V: Reals, p: SealedPrecision, *, begin: bool) -> Reals:
    if begin:
        for _ in range(p.first):
            V = C.times(V)
        return V
    v = V[:, :, p.rank - 1]
    mu = np.sum(v * C.times(v[:, :, None])[:, :, 0], axis=1)
    for root in p.roots:
        V = C.times(V) - np.ldexp(float(root), -p.f_root) * mu[:, None, None] * V
    return V


def _orthonormal(Y: Reals, p: SealedPrecision, *, last: bool) -> Reals:
    """Block by block, as far as the program's steps reach: what has become too short comes out shorter than 1."""
    V, at = Y.copy(), 0
    for n in p.blocks:
        left, lengths, right = np.linalg.svd(V[:, :, at : at + n], full_matrices=False)
        for step in p.steps_of_rows:
            lengths = Family.at(step, lengths)
        if last:
            lengths = (3 * lengths - lengths**3) / 2
        Q = (left * lengths[:, None, :]) @ right
        V[:, :, at : at + n] = Q
        at += n
        V[:, :, at:] -= Q @ (Q.transpose(0, 2, 1) @ V[:, :, at:])
    return V


def _checkpoint(C: _Scaled, V: Reals, p: SealedPrecision) -> tuple[Reals, Reals, np.ndarray]:
    """(X, the k leading Ritz vectors; the ratios of all b Ritz values; whether the gate lets X be opened)"""
    CV = C.times(V)
    H = V.transpose(0, 2, 1) @ CV
    trace = np.maximum(np.trace(H, axis1=1, axis2=2), 1e-300)[:, None, None]
    values, U = np.linalg.eigh((H + H.transpose(0, 2, 1)) * (4 / trace))
    values, U = values[:, ::-1], U[:, :, ::-1]
    X, SX = V @ U[:, :, : p.rank], CV @ U[:, :, : p.rank] * (8 / trace)
    gaps = values[:, : p.rank] - values[:, [p.rank]]
    if p.hidden_ratios:  # one weight for all, that of the last
        gaps = np.repeat(gaps[:, -1:], p.rank, axis=1)
    weights = 1 / np.maximum(gaps, p.least_gap)
    residual = (SX - X * values[:, None, : p.rank]) * weights[:, None, :]
    skew = np.triu(X.transpose(0, 2, 1) @ X - np.eye(p.rank))
    error = np.sum(residual**2, axis=(1, 2)) + 2 * np.sum(skew**2, axis=(1, 2))
    passed = (gaps[:, -1] > p.least_gap) & (error < 4.0**-p.goal_bits)
    return X, values / values.sum(axis=1, keepdims=True), passed
