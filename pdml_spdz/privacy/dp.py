"""Differentially private baselines: noise in everything that is seen, in every iteration. For comparison only.

The noise comes from NumPy's generator with a seed, so that experiments can be repeated: these baselines measure what
privacy by noise costs, they are not an implementation to be relied on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.rri import FullPart, ObservedPart, Penalties
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise
from pdml_spdz.privacy.nmf_mechanism import Joined
from pdml_spdz.rows.base import Rows, RowsLike, as_rows
from pdml_spdz.rows.covariance import covariance


@dataclass(frozen=True)
class PrivacyBudget:
    """(epsilon, delta) of everything together, each row being one individual."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < float("inf") and 0 < self.delta < 1):
            raise InputError(f"epsilon is {self.epsilon} and delta {self.delta}.", "epsilon > 0 and 0 < delta < 1")


def gaussian_sigma(budget: PrivacyBudget, sensitivity: float, releases: int = 1) -> float:
    """The least deviation of Gaussian noise with which `releases` adaptive releases of this l2 sensitivity are
    (epsilon, delta)-DP together.

    Exact: so many releases are one of sensitivity sqrt(releases) times as large. Ref: Balle, Wang, ICML 2018.
    """
    return sensitivity * math.sqrt(releases) * _unit_sigma(budget)


@cache
def _unit_sigma(budget: PrivacyBudget) -> float:
    """Of one release of sensitivity 1."""
    try:
        from dp_accounting.pld import common, privacy_loss_mechanism
    except ImportError:
        raise EngineError(
            "the DP baselines need the package dp-accounting, which is not installed.",
            "a library for privacy accounting",
            "pip install dp-accounting",
        ) from None
    wanted = common.DifferentialPrivacyParameters(budget.epsilon, budget.delta)
    loss = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(wanted)
    return float(loss.standard_deviation)


def row_norms(X: RowsLike) -> Reals:
    """(n,), l2"""
    return np.sqrt(as_rows(X).row_squares())


def clipped_rows(X: RowsLike, length: float) -> Rows:
    """Rows longer than `length` (a public number) are scaled down to it."""
    rows = as_rows(X)
    return rows.over(np.maximum(1.0, row_norms(rows) / length)[:, None])


def private_power_method(
    X: RowsLike,
    k: int,
    tau: int,
    budget: PrivacyBudget,
    *,
    length: float,
    neighbours: str,
    seed: int,
    mean: Reals | None = None,
) -> Reals:
    """V (d, k): block power iteration on S = X^T X with noise in every S V, by a trusted curator.

    1. V <- Orthonormalise(N(0, 1)^(d x k))
    2. tau times: V <- Orthonormalise(S V + G), S of rows no longer than 1 (clipped at `length`, scaled)

    neighbours : what one individual is
        entry : one entry of S may change by 1, G ~ N(0, max|V|^2 sigma^2), sigma = sqrt(4 k tau ln(1/delta))/epsilon
        row : one row of X comes or goes: ||x x^T V||_F <= 1, G ~ N(0, sigma^2), accounted exactly

    mean : of all rows, taken as public
    Ref: Hardt, Roth, STOC 2013 (entry; the paper's baseline); Hardt, Price, NIPS 2014 (noisy power method).
    """
    if neighbours not in ("entry", "row"):
        raise InputError(f"neighbours is {neighbours!r}.", "entry or row")
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    rows = as_rows(X) if mean is None else as_rows(X).shifted(mean)
    S = covariance(clipped_rows(rows, length).over(length), k, tau)
    if neighbours == "entry":
        sigma = math.sqrt(4.0 * k * tau * math.log(1.0 / budget.delta)) / budget.epsilon
    else:
        sigma = gaussian_sigma(budget, 1.0, tau)
    V = orthonormalise(rng.standard_normal((d, k)))[0]
    for _ in range(tau):
        size = sigma * (float(np.abs(V).max()) if neighbours == "entry" else 1.0)
        V = orthonormalise(S.times(V) + size * rng.standard_normal((d, k)))[0]
    return fix_signs(V)


@dataclass(frozen=True)
class Clipping:
    """No row adds more than `num` (l2) to num, and none uses a topic by more than `weight`: public numbers."""

    num: float
    weight: float


class NoisyPart:
    """One party's part of PD-NMF whose num and den are differentially private before they leave it.

    1. W_t as ever; each row's share of num is scaled down to at most clip.num, of den to at most clip.weight^2, in l2
    2. Gaussian noise on both, sensitivity clip.num and clip.weight^2, 2 k releases in each of `sweeps` sweeps

    A row's W depends on the row and on public topics alone, so a row that comes or goes changes nothing else.
    """

    def __init__(
        self, inner: FullPart | ObservedPart, clip: Clipping, budget: PrivacyBudget, k: int, sweeps: int, seed: int
    ):
        self.inner, self.clip, self.d = inner, clip, inner.d
        self.rng = np.random.default_rng(seed)
        unit = gaussian_sigma(budget, 1.0, 2 * k * sweeps)
        self.sigma = unit * clip.num, unit * clip.weight**2
        if isinstance(inner, FullPart):
            self._sizes = row_norms(inner.X) ** 2

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        # What the inner part returns is exact and stays here; it sets W_t.
        self.inner.update(t, T, p)
        num, den = self._full(t, T) if isinstance(self.inner, FullPart) else self._observed(t, T)
        noise = [s * self.rng.standard_normal(a.shape) for s, a in zip(self.sigma, (num, den), strict=True)]
        return num + noise[0], den + noise[1]

    def _full(self, t: int, T: Reals) -> tuple[Reals, Reals]:
        inner = self.inner
        rest = inner.W.copy()
        rest[:, t] = 0.0
        w = np.minimum(inner.W[:, t], self.clip.weight)
        left = self._sizes - 2.0 * np.sum(rest * inner.X.times(T.T), axis=1) + np.sum((rest @ (T @ T.T)) * rest, axis=1)
        w_num = w * _shrink(w * np.sqrt(np.maximum(left, 0.0)), self.clip.num)
        return inner.X.transposed_times(w_num) - (w_num @ rest) @ T, np.array([float(w @ w)])

    def _observed(self, t: int, T: Reals) -> tuple[Reals, Reals]:
        inner = self.inner
        assert isinstance(inner, ObservedPart)
        rows, columns, n = inner.rows, inner.columns, len(inner.W)
        w = np.minimum(inner.W[:, t], self.clip.weight)
        R_t = inner.E + inner.W[rows, t] * T[t][columns]
        length = w * np.sqrt(np.bincount(rows, R_t * R_t, n))
        w_num = w * _shrink(length, self.clip.num)
        square = w * w
        w_den = square * _shrink(square * np.sqrt(np.bincount(rows, minlength=n)), self.clip.weight**2)
        num = np.bincount(columns, w_num[rows] * R_t, self.d).astype(np.float64)
        return num, np.bincount(columns, w_den[rows], self.d).astype(np.float64)

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        self.inner.moved(t, before, T)


def _shrink(lengths: Reals, most: float) -> Reals:
    """Factors that leave no length above `most`."""
    return np.asarray(np.minimum(1.0, most / np.maximum(lengths, 1e-300)))


def private_nmf(
    parts: Sequence[FullPart | ObservedPart],
    T: Reals,
    settings: SweepSettings,
    clip: Clipping,
    budget: PrivacyBudget,
    seed: int,
) -> Reals:
    """T (k, d) of PD-NMF in which every party makes its own num and den private in every sweep."""
    seeds = np.random.SeedSequence(seed).generate_state(len(parts))
    noisy = [NoisyPart(part, clip, budget, len(T), settings.tau, int(s)) for part, s in zip(parts, seeds, strict=True)]
    # Noise may be larger than any bound on the rows: nothing is encoded here, so no bound is needed.
    room = 1e12 * sum(part.norm() + 1.0 for part in parts) * (1.0 + max(noisy[0].sigma))
    return Joined(noisy).iterate(T, replace(settings, bound=room))


def usual_clipping(parts: Sequence[FullPart | ObservedPart], T: Reals) -> Clipping:
    """Medians over all rows after one fit to T. They depend on the rows and are NOT private: a gift to the baseline."""
    lengths, weights = [], []
    for part in parts:
        part.fit(T, Penalties(), sweeps=5)
        w = part.W.max(axis=1)
        left = row_norms(part.X) if isinstance(part, FullPart) else np.sqrt(np.bincount(part.rows, part.E**2, len(w)))
        lengths.append(w * left)
        weights.append(w)
        part.restore(np.zeros_like(part.W), T)
    return Clipping(
        max(float(np.median(np.concatenate(lengths))), 1e-12), max(float(np.median(np.concatenate(weights))), 1e-12)
    )
