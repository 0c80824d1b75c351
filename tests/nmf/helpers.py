"""PD-NMF between threads, and its twin: centralised RRI-NMF as the paper prints it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf import SweepResult, SweepSettings, SweepState, addend_bounds, pd_nmf_iter
from pdml_spdz.algorithms.rri import CAP, FullPart, Penalties, part
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.transport.base import Link
from tests.threads import run_threads

NONE = Penalties()


EACH = [Penalties(alpha=0.3), Penalties(beta=0.3), Penalties(gamma=0.3), Penalties(delta=0.3)]


ALL = Penalties(0.1, 0.2, 0.05, 0.1)


def topics(k: int, d: int, seed: int = 0) -> np.ndarray:
    """A start: rows of sum 1."""
    T = np.random.default_rng(seed).uniform(size=(k, d))
    return T / T.sum(axis=1, keepdims=True)


def dense_rows(n: int = 40, d: int = 9, seed: int = 1) -> np.ndarray:
    """Non-negative, with zeros, and not of low rank."""
    rng = np.random.default_rng(seed)
    return np.maximum(rng.gamma(0.5, size=(n, 3)) @ rng.gamma(0.5, size=(3, d)) + rng.normal(0.0, 0.3, (n, d)), 0.0)


def observed_rows(n: int = 40, d: int = 9, seed: int = 2) -> tuple[sp.csr_array, np.ndarray]:
    """Half of the entries, some of them zeros that are stored; and where they are."""
    B = np.random.default_rng(seed).random((n, d)) < 0.5
    X = np.floor(3.0 * dense_rows(n, d, seed))
    return sp.csr_array((X[B], np.nonzero(B)), shape=(n, d)), B


def split(X: RowsLike, M: int) -> list[RowsLike]:
    """Uneven parts; the first has one row."""
    cuts = [0, *(1 + (np.arange(M - 1) * (X.shape[0] - 1)) // M), X.shape[0]] if M > 1 else [0, X.shape[0]]
    return [X[a:b] for a, b in itertools.pairwise(cuts)]


def settings_for(X: RowsLike, tau: int, tol: float = 0.0, **options: object) -> SweepSettings:
    return SweepSettings(tau, tol, FullPart(X, 1).norm(), **options)  # type: ignore[arg-type]


def distributed(
    tables: Sequence[RowsLike], T: np.ndarray, settings: SweepSettings
) -> tuple[list[SweepResult], list[np.ndarray]]:
    """Every party's result of PD-NMF-Iter between threads, and every party's W."""

    def party(link: Link) -> tuple[SweepResult, np.ndarray]:
        local = part(tables[link.me], len(T), weighted=settings.weighted)
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        return pd_nmf_iter(local, SweepState(T), settings, sec_sum, Agreement(link), clock=link.clock), local.W

    results = run_threads(len(tables), party)
    return [result for result, _ in results], [W for _, W in results]


def nearest(x: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex, by bisection."""
    low, high = x.max() - 1.0, x.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0.0).sum() > 1.0 else (low, middle)
    return np.maximum(x - low, 0.0)


@dataclass(frozen=True)
class Jolt:
    """Errors of the twin's numbers: signs from `rng`, each `factor` times what M parties' arithmetic may have."""

    rng: np.random.Generator
    factor: float
    M: int
    settings: SweepSettings

    def __call__(self, x: np.ndarray, size: np.ndarray) -> np.ndarray:
        return x + self.factor * self.rng.choice([-1.0, 1.0], x.shape) * size


def centralised(
    X: np.ndarray, T: np.ndarray, settings: SweepSettings, B: np.ndarray | None = None, jolt: Jolt | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(W, T) of RRI-NMF on all rows, [PDML Eq. nmf_update]: R_t is formed anew for every topic, as a dense matrix.

    B : 1 where X is observed
    """
    (n, d), k, p = X.shape, len(T), settings.penalties
    B = np.ones((n, d)) if B is None else B.astype(float)
    W, T = np.zeros((n, k)), T.copy()
    for _ in range(settings.tau):
        for t in range(k):
            R = B * (X - W @ T + np.outer(W[:, t], T[t]))
            below = B @ T[t] ** 2 + p.delta
            above = R @ T[t]
            # Each inner product is rounded by its number of terms, relative to the sum of their sizes.
            sizes = X + W @ T + np.outer(W[:, t], T[t])
            if jolt:
                above = jolt(above, (d + 2 * k) * EPS * (sizes @ T[t]))
            above = np.maximum(above - p.gamma, 0.0)
            W[:, t] = np.divide(above, below, out=np.zeros(n), where=below > 0)
            if settings.weighted and not (p.gamma or p.delta):
                W[:, t] = np.minimum(W[:, t], CAP * d * np.linalg.norm(X, axis=1))
            num, den = W[:, t] @ R, W[:, t] ** 2 @ (B if settings.weighted else B[:, :1])
            if jolt:  # a den of nothing is known to be nothing (`nmf.least_use`)
                sums = Format.for_bound(1.0, jolt.M).tolerance * addend_bounds(T[t], k, settings)
                num = jolt(num, (n + 2 * k) * EPS * (W[:, t] @ sizes) + sums[:d])
                den = np.where(den > 0, jolt(den, n * EPS * den + sums[d:]), 0.0)
                num = np.where(den > 0, num, 0.0)
            quotient = np.divide(num - p.alpha, den + p.beta, out=T[t].copy(), where=den + p.beta > 0)
            if settings.simplex and settings.paper_order:
                quotient = np.maximum(quotient, 0.0)
            T[t] = nearest(quotient) if settings.simplex else np.maximum(quotient, 0.0)
    return W, T


def rounding(
    X: np.ndarray, T: np.ndarray, settings: SweepSettings, M: int, B: np.ndarray | None = None
) -> tuple[float, float]:
    """How far W and T of two correct runs may be apart.

    All updates together magnify an error by what the data make of it: measured on the twin, with all its numbers a
    thousand times as wrong as M parties' can be. To first order an entry's error is a sum of some hundred independent
    ones, so it is normal: six standard deviations of the entry that has most. A run's own errors are smaller than
    the bounds that the twin is jolted by, and so is their deviation.
    """
    factor, draws, exact = 1e3, 20, centralised(X, T, settings, B)
    jolts = [Jolt(np.random.default_rng(i), factor, M, settings) for i in range(draws)]
    wrong = [centralised(X, T, settings, B, jolt) for jolt in jolts]
    squares = [np.mean([(w[i] - exact[i]) ** 2 for w in wrong], axis=0) for i in range(2)]
    W, T = (6 * np.sqrt(mean.max()) / factor for mean in squares)
    return W, T


def best_error(Y: np.ndarray, Z: np.ndarray) -> float:
    """E_Y(Z) = min over W >= 0 of ||Y - W Z||_F^2 / 2, by an active-set solver."""
    return 0.5 * sum(scipy.optimize.nnls(Z.T, y)[1] ** 2 for y in Y)
