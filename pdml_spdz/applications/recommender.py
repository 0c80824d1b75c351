"""Ratings that a party predicts for its own users from common topics T. [PDML §Experiments, recommender systems]

Ratings are sparse rows, one for each user: what is stored is a rating, what is not is missing. Nothing is sent here
but by Hyperband, which finds penalties of PD-NMF by early stopping, the same choice at every party.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.algorithms.nmf import GO_ON, SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.rri import MakePart, Part, Penalties, part
from pdml_spdz.applications.low_rank import Score, joint
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.base import RowsLike, as_rows
from pdml_spdz.transport.base import Clock

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class RatingScale:
    """Ratings are from low to high; public."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high < float("inf"):
            raise InputError(f"ratings are from {self.low} to {self.high}.", "0 <= lowest < highest")

    @property
    def largest_error(self) -> float:
        """The square of the worst prediction."""
        return (self.high - self.low) ** 2

    def check(self, ratings: RowsLike) -> RowsLike:
        """The ratings in CSR, all of them within the scale."""
        ratings = as_rows(ratings).csr()
        outside = ~((ratings.data >= self.low) & (ratings.data <= self.high))  # NaN is outside
        if np.any(outside):
            entry = int(np.flatnonzero(outside)[0])
            user = int(np.searchsorted(ratings.indptr, entry, side="right")) - 1
            raise InputError(
                f"{int(outside.sum())} ratings are out of range: user {user} gives item {ratings.indices[entry]} "
                f"{ratings.data[entry]:g}.",
                f"ratings from {self.low:g} to {self.high:g}",
                "mend the file, or state the scale that it has",
            )
        return ratings


def fit_users(ratings: RowsLike, T: Reals, penalties: Penalties | None = None, *, make: MakePart = part) -> Reals:
    """W (n, k) >= 0, the best fit of W T to the ratings that there are. Local. A user without ratings has W = 0."""
    if ratings.shape[1] != T.shape[1]:
        raise InputError(f"there are {ratings.shape[1]} items and T has {T.shape[1]}.", "the same items")
    local = make(ratings, len(T), weighted=True)
    local.fit(T, penalties or Penalties())
    return local.W


def predict(W: Reals, T: Reals, users: Numbers, items: Numbers, scale: RatingScale) -> Reals:
    """min(max((W T)_ij, low), high) for each pair of a user and an item. Local."""
    predicted: Reals = np.clip(np.einsum("ek,ke->e", W[users], T[:, items]), scale.low, scale.high)
    return predicted


def squared_error(W: Reals, T: Reals, held_out: RowsLike, scale: RatingScale) -> Score:
    """Over the held-out ratings; `.rmse` is the measure. Local."""
    held_out = scale.check(held_out).tocoo()
    error = held_out.data - predict(W, T, held_out.row, held_out.col, scale)
    return Score(float(error @ error), len(error))


def rmse(
    ratings: RowsLike, held_out: RowsLike, T: Reals, scale: RatingScale, penalties: Penalties | None = None
) -> float:
    """Of a party's users: W from `ratings`, RMSE on `held_out`. Local."""
    return squared_error(fit_users(scale.check(ratings), T, penalties), T, held_out, scale).rmse


def hold_out(ratings: RowsLike, share: float, seed: int = 0) -> tuple[RowsLike, RowsLike]:
    """(kept, held out): each rating is held out with probability `share`. Local."""
    if not 0 < share < 1:
        raise InputError(f"the share to be held out is {share}.", "between 0 and 1")
    stored = as_rows(ratings).csr().tocoo()
    out = np.random.default_rng(seed).random(stored.nnz) < share
    parts = [
        sp.csr_array((stored.data[chosen], (stored.row[chosen], stored.col[chosen])), shape=stored.shape)
        for chosen in (~out, out)
    ]
    return parts[0], parts[1]


C = TypeVar("C")
Evaluate = Callable[[C, int], float]


@dataclass(frozen=True)
class Trial(Generic[C]):
    """resource : what the configuration has had in all; spent : how much of that was new"""

    configuration: C
    resource: int
    loss: float
    spent: int


@dataclass(frozen=True)
class Search(Generic[C]):
    """All that was tried, in order; the same at every party."""

    trials: tuple[Trial[C], ...]

    @property
    def best(self) -> Trial[C]:
        """The smallest loss that was seen (of equal ones the first)."""
        return min(self.trials, key=lambda trial: _rank(trial.loss))

    @property
    def cost(self) -> int:
        """Resources used in all; a configuration goes on from where it was."""
        return sum(trial.spent for trial in self.trials)


def hyperband(
    sample: Callable[[np.random.Generator], C], evaluate: Evaluate[C], max_resource: int, eta: int = 3, *, seed: int = 0
) -> Search[C]:
    """The best of many configurations, most of which are given up early; R = max_resource.

    1. s_max <- floor(log_eta R); B <- (s_max + 1) R; for s = s_max .. 0:
    2.     n <- ceil(B/R eta^s / (s + 1)) configurations by `sample`; r <- R eta^-s
    3.     for i = 0 .. s: evaluate them with the resource r eta^i, keep the best floor(n_i / eta)

    sample : draws a configuration from a generator that the public seed makes the same at every party
    evaluate : (configuration, resource in all) -> loss, the same number at every party; a configuration that is kept is
    called again with more, and goes on from where it was (`Continued`)

    Reveals: what `evaluate` does. Cost: at most (s_max + 1)^2 R of the resource.
    Ref: Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar, arXiv 1603.06560 (2016), Algorithm 1.
    """
    if max_resource < 1 or eta < 2:
        raise InputError(f"max_resource is {max_resource} and eta {eta}.", "max_resource >= 1 and eta >= 2")
    rng = np.random.default_rng(seed)
    trials: list[Trial[C]] = []
    s_max = 0
    while eta ** (s_max + 1) <= max_resource:
        s_max += 1
    for s in range(s_max, -1, -1):
        n = math.ceil((s_max + 1) * eta**s / (s + 1))
        kept = [sample(rng) for _ in range(n)]
        before = 0
        for i in range(s + 1):
            resource = max(1, round(max_resource / eta ** (s - i)))
            tried = [Trial(c, resource, evaluate(c, resource), resource - before) for c in kept]
            before = resource
            trials += tried
            ranked = sorted(tried, key=lambda trial: _rank(trial.loss))
            kept = [trial.configuration for trial in ranked[: n // eta ** (i + 1)]]
    return Search(tuple(trials))


def _rank(loss: float) -> float:
    return math.inf if math.isnan(loss) else loss


def sample_penalties(rng: np.random.Generator, low: float = 1e-3, high: float = 10.0) -> Penalties:
    """alpha .. delta, each between low and high with a uniform logarithm."""
    alpha, beta, gamma, delta = np.exp(rng.uniform(np.log(low), np.log(high), size=4))
    return Penalties(float(alpha), float(beta), float(gamma), float(delta))


class Continued:
    """PD-NMF of a party's ratings with the others, for each setting of the penalties; sweeps are not made twice.

    bound : ||X||_F^2 of all parties' ratings together is not larger; start : T_0, the same for all settings

    Reveals and costs: what PD-NMF-Iter does.
    """

    def __init__(self, ratings: RowsLike, start: SweepState, bound: float, sec_sum: SecSum, agree: Agreement) -> None:
        self.ratings, self.start, self.bound, self.sec_sum, self.agree = ratings, start, bound, sec_sum, agree
        self._left_at: dict[Penalties, tuple[Part, SweepState]] = {}

    def __call__(self, penalties: Penalties, sweeps: int) -> Reals:
        fresh = part(self.ratings, len(self.start.T), weighted=True), self.start
        local, state = self._left_at.get(penalties, fresh)
        settings = SweepSettings(sweeps, 0.0, self.bound, penalties, weighted=True)
        if state.t < sweeps:
            state = replace(state, stop=GO_ON)
            state = pd_nmf_iter(local, state, settings, self.sec_sum, self.agree, clock=Clock()).state
        self._left_at[penalties] = local, state
        return state.T


def pd_nmf_loss(
    run_nmf: Callable[[Penalties, int], Reals],
    ratings: tuple[RowsLike, RowsLike],
    scale: RatingScale,
    sec_sum: SecSum,
    *,
    most: int,
) -> Evaluate[Penalties]:
    """The loss of penalties after so many sweeps of PD-NMF: the mean squared error of all parties' held-out ratings.

    1. T <- run_nmf(penalties, sweeps): PD-NMF with the others on `ratings[0]`
    2. W <- fit to own `ratings[0]` given T; squared errors on own `ratings[1]`     local
    3. loss <- SecSum(squared errors) / SecSum(number of them)                     one call

    most : no party has more held-out ratings; public

    Reveals: for each trial what PD-NMF reveals, the sum of squared errors and the number of ratings held out by all.
    Cost: that of PD-NMF, and one SecSum of two numbers.
    """
    kept, held_out = scale.check(ratings[0]), scale.check(ratings[1])

    def evaluate(penalties: Penalties, sweeps: int) -> float:
        T = run_nmf(penalties, sweeps)
        W = fit_users(kept, T, penalties)
        own = squared_error(W, T, held_out, scale)
        return joint(own, sec_sum, largest=scale.largest_error, most=most).mean

    return evaluate
