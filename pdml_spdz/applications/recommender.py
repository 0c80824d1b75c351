"""Ratings that a party predicts for its own users from common topics T. [PDML §Experiments, recommender systems]

Ratings are sparse rows, one for each user: what is stored is a rating, what is not is missing. Nothing is sent here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.applications.score import Score
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Scale:
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


def fit_users(ratings: RowsLike, T: Reals, penalties: Penalties | None = None) -> Reals:
    """W (n, k) >= 0, the best fit of W T to the ratings that there are. Local. A user without ratings has W = 0."""
    if ratings.shape[1] != T.shape[1]:
        raise InputError(f"there are {ratings.shape[1]} items and T has {T.shape[1]}.", "the same items")
    local = part(ratings, len(T), weighted=True)
    local.fit(T, penalties or Penalties())
    return local.W


def predict(W: Reals, T: Reals, users: Numbers, items: Numbers, scale: Scale) -> Reals:
    """min(max((W T)_ij, low), high) for each pair of a user and an item. Local."""
    predicted: Reals = np.clip(np.einsum("ek,ke->e", W[users], T[:, items]), scale.low, scale.high)
    return predicted


def squared_error(W: Reals, T: Reals, held_out: RowsLike, scale: Scale) -> Score:
    """Over the held-out ratings; `.rmse` is the measure. Local."""
    held_out = scale.check(held_out).tocoo()
    error = held_out.data - predict(W, T, held_out.row, held_out.col, scale)
    return Score(float(error @ error), len(error))


def rmse(ratings: RowsLike, held_out: RowsLike, T: Reals, scale: Scale, penalties: Penalties | None = None) -> float:
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
