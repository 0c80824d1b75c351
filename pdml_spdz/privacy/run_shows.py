"""What a run shows of a covariance A (m, m), by solver and level: the same steps, without shares.

Letters: V_0, the first of the m directions; theta and U, eigenvalues and eigenvectors of A, largest first; B (m, r)
orthonormal, the directions in which a transcript determines c A.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.shown import Shown, beyond, ritz, sines
from pdml_spdz.algorithms.solver import Fitting, SvdSettings
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import orthonormalise
from pdml_spdz.primitives.normed_sum import Alone, NormedColumns, unit_columns
from pdml_spdz.privacy.attack_run import WELL
from pdml_spdz.programs.sealed_precision import FIRST, POWERS, STEPS_OF_ROWS, checkpoints, iterations_for
from pdml_spdz.programs.steps import Family
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Clock

F_OUT, LENGTH = 31, 2.0**5  # fraction bits that are opened, of columns of this length: the default precision
POWER_ITERATIONS = 300
# Later V_t change little: each of these stands for those up to the next.
SHOWN_AT = (*range(16), *range(16, 32, 4), *range(32, 64, 8), *range(64, 128, 16), *range(128, 300, 43), 300)


@dataclass
class Openings:
    """c A V with the noise of an opening to 31 bits by M parties, in a space of d dimensions.

    asked, opened : V and y of every call
    """

    rng: np.random.Generator
    d: int
    M: int
    c: float = 0.0
    asked: list[Reals] = field(default_factory=list)
    opened: list[Reals] = field(default_factory=list)

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        self.c = self.c or x.shape[1] / float(np.sum(g * x))
        unit = np.sqrt(self.M / 6) * 2.0**-F_OUT / (np.ones(x.shape[1]) if lengths is None else LENGTH / lengths)
        y = self.c * x + unit * self.rng.standard_normal(x.shape)
        errors = unit * (np.sqrt(self.d) + 4.0)
        self.asked.append(g)
        self.opened.append(y)
        return NormedColumns(*unit_columns(y, errors), None, y, errors)


@dataclass(frozen=True)
class Matrix:
    """All parties' S_m in one."""

    A: Reals

    def times(self, V: Reals) -> Reals:
        return self.A @ V


@dataclass(frozen=True)
class Fit:
    """iterations : made; B : (m, r)"""

    iterations: int
    B: Reals


def by_krylov(A: Reals, k: int, d: int, M: int, rng: np.random.Generator) -> Fit:
    """The solver itself, on openings with their noise."""
    V = np.eye(len(A), krylov.block_size(k, len(A)))
    settings = SvdSettings(k, krylov.KRYLOV.iterations, krylov.KRYLOV.tol)
    fitting = Fitting(Matrix(A), Openings(rng, d, M), Alone(), Clock())
    state = krylov.pd_krylov(fitting, krylov.start(V), settings).state
    return Fit(state.t, orthonormalise(state.shown.Q)[0])


def like_krylov(A: Reals, k: int, d: int, M: int, about: int) -> Fit:
    """What `by_krylov` shows, in a quarter of the time: whether it would stop is asked from iteration `about` - 2 on.

    For spectra that noise does not limit: blocks are never short, and nothing is opened twice.
    """
    m, b = len(A), krylov.block_size(k, len(A))
    V, tol = np.eye(m, b), krylov.KRYLOV.tol
    Q, C, errors, before = np.zeros((m, 0)), np.zeros((m, 0)), np.zeros(0), 1.0
    noise = np.sqrt(M / 6) * 2.0**-F_OUT * (np.sqrt(d) + 4.0)
    c, t = b / float(np.trace(V.T @ A @ V)), 0
    while Q.shape[1] < m:
        Y, t = c * (A @ V), t + 1
        lengths = np.full(b, LENGTH) if t == 1 else np.linalg.norm(C.T @ V, axis=0)
        Q, C = np.column_stack([Q, V]), np.column_stack([C, Y])
        errors = np.append(errors, noise * lengths[: V.shape[1]] / LENGTH)
        if t >= about - 2:
            shown = Shown(Q, C, np.diag(errors))
            bound = sines(shown, ritz(shown), k)
            if bound.all.max() < tol and before < krylov.SETTLED:
                break
            before = bound.span
        V = np.linalg.qr(beyond(Q, np.linalg.qr(beyond(Q, Y))[0]))[0][:, : m - Q.shape[1]]
    return Fit(t, Q)


def by_power(theta: Reals, U: Reals, k: int) -> Fit:
    """The paper's block power iteration; V_t of so many iterations, and what of their span is determined well."""
    V = U[:k].T  # V_0 in the basis of eigenvectors
    factor = theta / theta[0]
    shown, t = [], 0
    for at, following in zip(SHOWN_AT, (*SHOWN_AT[1:], POWER_ITERATIONS), strict=True):
        V, t = _iterated(factor, V, at - t), at
        shown.append(np.sqrt(max(following - at, 1)) * V)
    together = np.column_stack(shown)
    values, W = np.linalg.eigh(together @ together.T)
    return Fit(POWER_ITERATIONS, U @ W[:, values > WELL**2 * values[-1]])


def _iterated(factor: Reals, V: Reals, steps: int) -> Reals:
    """V after so many steps of subspace iteration; orthonormal after every fourth, which is often enough."""
    while steps > 0:
        V = _orthonormal(factor[:, None] ** min(steps, 4) * V)
        steps -= 4
    return V


def _orthonormal(Y: Reals) -> Reals:
    """By the Gram matrix, twice: for some columns of condition below 1e7 as good as a QR, and faster."""
    try:
        for _ in range(2):
            L = np.linalg.cholesky(Y.T @ Y)
            Y = np.linalg.solve(L, Y.T).T
    except np.linalg.LinAlgError:  # a spectrum that falls by more than that in four steps
        return orthonormalise(Y)[0]
    return Y


def least_consistent(A: Reals, B: Reals) -> tuple[Reals, Reals]:
    """(values, E): E diag(values) E^T is the least positive semidefinite matrix with the same products with B as A.

    A B (B^T A B)^-1 B^T A: what is certain; the rest of A is zero or more.
    """
    Y = A @ B
    values, Q = np.linalg.eigh(B.T @ Y)
    kept = values > 1e-9 * values[-1]
    half = Y @ (Q[:, kept] / np.sqrt(values[kept]))
    values, W = np.linalg.eigh(half.T @ half)
    return values, half @ (W / np.sqrt(values))


@dataclass(frozen=True)
class SealedSettings:
    """columns : b; goal, decay : of the study; bits : of V that are opened"""

    columns: int
    goal: float = Study.accuracy_goal
    decay: float = Study.decay
    bits: int = 24

    @property
    def checkpoints(self) -> list[int]:
        """Orthonormalisations up to each."""
        return checkpoints(iterations_for(self.goal, self.decay))

    @classmethod
    def usual(cls, k: int, d: int) -> SealedSettings:
        """As a study has them that says nothing else."""
        return cls(min(2 * k, d))


@dataclass(frozen=True)
class Sealed:
    """V : (m, k), Ritz vectors, or None if the gate never opened; ratios : (b,), Ritz values over their sum

    checkpoint : at which the gate opened, from 0; first : (b,), the ratios at the first one
    """

    V: Reals | None
    ratios: Reals
    checkpoint: int
    first: Reals


def sealed(theta: Reals, U: Reals, start: Reals, k: int, settings: SealedSettings) -> Sealed:
    """Ritz vectors after T (2 T, 4 T) steps of the program `sealed_svd` from `start` (m, b), and the gate's verdicts.

    Rows are made orthonormal one after the other, and come out shorter beyond the program's reach.
    """
    V, first = U.T @ start, np.zeros(0)
    C = theta / max(float(np.linalg.norm(theta)), 1e-300)
    roots = settings.decay * np.polynomial.chebyshev.chebroots([0] * POWERS + [1]) / 2 + settings.decay / 2
    done = 0
    for checkpoint, many in enumerate(settings.checkpoints):
        for _ in range(many):
            shifts = np.zeros(FIRST) if done == 0 else roots * float(V[:, k - 1] @ (C * V[:, k - 1]))
            V, done = _in_reach(np.prod(C[:, None] - shifts, axis=1)[:, None] * V), done + 1
        values, R = np.linalg.eigh(V.T @ (theta[:, None] * V))
        values, X = values[::-1], V @ R[:, ::-1]
        ratios = values / values.sum()
        first = first if checkpoint else ratios
        residual = np.linalg.norm((theta[:, None] - values[:k]) * X[:, :k], axis=0)
        gap = values[:k] - values[k]
        # The first says the same of each column, and that no gap is zero.
        if np.all(residual < settings.goal * gap) and np.sum((residual / gap) ** 2) < settings.goal**2:
            return Sealed(U @ X[:, :k], ratios, checkpoint, first)
    return Sealed(None, ratios, len(settings.checkpoints), first)


def _in_reach(Y: Reals) -> Reals:
    """The columns, orthonormal one after the other, as far as the program's steps reach."""
    V = Y.copy()
    for j in range(V.shape[1]):
        short = length = float(np.linalg.norm(V[:, j]))
        for step in STEPS_OF_ROWS:
            length = Family.at(step, length)
        V[:, j] *= length / max(short, 1e-300)
        V[:, j + 1 :] -= np.outer(V[:, j], V[:, j] @ V[:, j + 1 :])
    return V


def rounded(V: Reals, bits: int) -> Reals:
    return np.ldexp(np.rint(np.ldexp(V, bits)), -bits)
