"""NormedSecSum: the direction of a sum of vectors, column by column. [PDML App. NormedSecSum]

And the one-party case: a party that agrees with itself, and sums of one addend. Nothing is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pdml_spdz.numerics.fixedpoint import Format, Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement, Check
from pdml_spdz.primitives.sec_sum import EXACT, Accuracy, SecSum


@dataclass(frozen=True)
class NormedColumns:
    """Directions of k sums.

    U : (d, k), column i is s_i / ||s_i||, or 0 if s_i is 0
    noise : (k,), how far (in l2) column i may be from the exact direction, by encoding and rounding
    norms : (k,), ||s_i|| where the engine reveals it, else None
    scaled : (d, k), the sums up to one positive factor for all columns, where the engine knows it, else None
    errors : (k,), how far (in l2) each column of `scaled` may be off, where there is one
    doubt : sums that are shorter, in the same units, may be nothing but rounding of the parties' numbers
    period : (k,), a number of `scaled` that was too large is off by a multiple of it; None where none can be
    """

    U: Reals
    noise: Reals
    norms: Reals | None
    scaled: Reals | None = None
    errors: Reals | None = None
    doubt: float = 0.0
    period: Reals | None = None


class NormedSum(Protocol):
    """What algorithms receive: x_m of shape (d, k) -> the direction of each column of sum_m x_m.

    g : (d, k), public unit columns that are not orthogonal to the sums; engines that hide the norms project on them
    lengths : (k,), how long the sums are expected to be, in the units of `scaled`, by those who know
    """

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns: ...


class RevealedNorm:
    """The directions by way of the sums themselves.

    1. s = SecSum(x_m)
    2. u_i = s_i / ||s_i||, by everyone

    Reveals: s, and so every norm (in PD-SVD: Sigma). Cost: that of one SecSum of d k numbers.
    Ref: [PDML App. NormedSecSum, efficiency], PD-SVD "with SecSum replacing NormedSecSum".
    """

    def __init__(self, sec_sum: SecSum, bound: float, M: int) -> None:
        self.sec_sum, self.bound, self.M = sec_sum, bound, M

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        s = self.sec_sum(x, self.bound, "columns")
        return normalise(s, Format.for_bound(self.bound, self.M).tolerance)


@dataclass(frozen=True)
class OwnMean:
    """What a party knows of the means, where the mean of all rows is taken off under secret sharing.

    sums : (d,), this party's column sums over the root of the number of all rows
    share : of all rows that are this party's
    terms : how many numbers float64 adds up one after another in S_m v, besides its d products
    """

    sums: Reals
    share: float
    terms: int = 0


def positive_at_first(normed_sum: NormedSum, mean: OwnMean | None = None) -> NormedSum:
    """normed_sum, of which the first call, where x = S_m g, never meets a sum g_i.S g_i that rounding made negative.

    One secret scale for all columns is found there, from sum_i g_i.S g_i, by steps that diverge for a negative number.
    Every party's own part of it is zero or more but for rounding, and a party whose part is not adds what is missing
    (`missing`). Of nearly all rows nothing is: whatever is added is in what is opened, and would tell how large the
    rows, or their hidden mean, are beside it.
    """
    first = [True]

    def call(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        return normed_sum(x + missing(x, g, mean) * g if first and first.pop() else x, g, lengths)

    return call


def missing(x: Reals, g: Reals, mean: OwnMean | None = None) -> Reals:
    """(k,), what to add to g_i.x_i to make this party's part of rho positive; 0 where it is by more than rounding."""
    part, margin = _part_of_rho(x, g, mean)
    added: Reals = np.maximum(margin - part, 0.0)
    return added


def rounding_of_rho(x: Reals, g: Reals, mean: OwnMean) -> Reals:
    """(k,), what rounding may make of this party's part of rho: of rows that are all the same, there is no more."""
    return _part_of_rho(x, g, mean)[1]


def _part_of_rho(x: Reals, g: Reals, mean: OwnMean | None) -> tuple[Reals, Reals]:
    """(k,) and (k,): this party's part of rho for each column, and how far rounding may put it off.

    Without a hidden mean that part is g_i.x_i. With one, (sum_m s_m.g)^2 <= sum_m (s_m.g)^2 / share_m (Cauchy and
    Schwarz), so that the parts g_i.x_i - (s.g_i)^2 / share, sums of squares around the party's own mean, add up to no
    more than rho. Their rounding, and that of the numbers which the program multiplies, is that of sums of d products;
    of `terms` equal numbers, added up one after another, every addition may be off in the same direction.
    """
    products = g * x
    part = np.sum(products, axis=0)
    size = np.abs(part) + np.linalg.norm(products, axis=0)
    terms = 1.0 + np.sqrt(len(x))
    if mean is not None:
        of_mean = g * mean.sums[:, None]
        along = np.sum(of_mean, axis=0)
        part = part - along**2 / mean.share
        size = size + (np.abs(along) + np.linalg.norm(of_mean, axis=0)) ** 2 / mean.share
        terms += mean.terms
    return part, 4.0 * terms * EPS * size


def normalise(s: Reals, ulp: float) -> NormedColumns:
    """The directions of the columns of s, each entry of which is off by at most `ulp` and by float64 rounding."""
    d = s.shape[0]
    norms = np.linalg.norm(s, axis=0)
    error = np.sqrt(d) * ulp + d * EPS * norms.max(initial=0.0)
    return NormedColumns(*unit_columns(s, error), norms, s, np.full(s.shape[1], error))


def unit_columns(y: Reals, error: Reals | float) -> tuple[Reals, Reals]:
    """y_i/||y_i||, and its error in l2: at most that of y_i over ||y_i||."""
    norms = np.linalg.norm(y, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(norms > 0, y / norms, 0.0), np.where(norms > 0, error / norms, np.inf)


class Alone(Agreement):
    """Agreement of a party with itself."""

    def __init__(self) -> None:
        """There is no link."""

    def __call__(self, V: Reals, verdict: tuple[int, ...], tolerance: Reals) -> tuple[Reals, tuple[int, ...]]:
        return V, verdict

    def subspace(self, V: Reals, tolerance: float) -> Reals:
        return V

    def offered(
        self, array: Reals, choice: tuple[int, ...], right: Check, *, columns: int = 0
    ) -> tuple[Reals, tuple[int, ...]]:
        return array, choice


class OwnSum:
    """SecSum of a party with itself."""

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        return x

    def accuracy(self, bound: float) -> Accuracy:
        return EXACT


own_sum = OwnSum()


def own_directions(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
    """NormedSecSum of a party with itself."""
    return normalise(x, 0.0)
