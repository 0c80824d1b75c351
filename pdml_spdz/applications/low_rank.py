"""Low rank approximation of a party's rows in the common subspace. [PDML App. Learning Uplift, LRA] Nothing is sent
but by `joint`: sums over held-out numbers, and how many they are, are what errors and likelihoods are made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.base import RowsLike, as_rows

BLOCK_NUMBERS = 1 << 22  # sparse rows are made dense so many numbers at a time


def coordinates(X: RowsLike, V: Reals, mean: Reals | None = None) -> Reals:
    """(X - 1 mean^T) V of shape (n, k), for one party's rows X; sparse rows stay so.

    Dense rows are centred first: X V and mean V may both be much larger than their difference.
    """
    rows = as_rows(X)
    if len(rows.shape) != 2 or rows.shape[1] != len(V):
        raise InputError(
            f"the rows have the shape {rows.shape} and V has {len(V)} features.", "as many columns as in V"
        )
    if mean is None:
        return rows.times(V)
    return rows.times(V) - mean @ V if rows.sparse else rows.shifted(mean).times(V)


def reconstruction(X: RowsLike, V: Reals, mean: Reals | None = None) -> Score:
    """||X - X V V^T||_F^2 and the number of rows; with a mean, of the rows less it."""
    rows = as_rows(X)
    Z = coordinates(rows, V, mean)
    total = 0.0
    # The residual itself: ||X||^2 - ||X V||^2 would lose the digits of a good fit.
    for chosen, X_b in rows.numbered_blocks(BLOCK_NUMBERS):
        E = X_b - Z[chosen] @ V.T
        if mean is not None:
            E -= mean
        total += float(np.vdot(E, E))
    return Score(total, rows.shape[0])


def reconstruction_error(X: RowsLike, V: Reals, mean: Reals | None = None) -> float:
    """||X - X V V^T||_F, the paper's measure, on held-out rows."""
    return float(np.sqrt(reconstruction(X, V, mean).total))


@dataclass(frozen=True)
class Score:
    """total : of squared errors, or of logarithms of probabilities; count : how many of them. Local to a party."""

    total: float
    count: int

    def __add__(self, other: Score) -> Score:
        return Score(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        if self.count == 0:
            raise InputError("there is nothing held out to score.", "at least one held-out number")
        return self.total / self.count

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self.mean))


def joint(own: Score, sec_sum: SecSum, *, largest: float, most: int) -> Score:
    """The score over all parties' held-out numbers.

    1. total, count <- SecSum(own total / (largest most), own count / most), scaled back

    largest : no number has a larger size; most : no party scores more of them; both public

    Reveals: total and count of all parties together. Cost: one SecSum of two numbers.
    """
    scales = np.array([largest * most, most], np.float64)
    total, count = sec_sum(np.array([own.total, own.count]) / scales, 1.0, "score") * scales
    return Score(float(total), round(count))
