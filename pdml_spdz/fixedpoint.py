"""Real numbers as integers modulo 2^bits, and how far off the result may be.

A number x with f fraction bits is the integer round(x * 2^f), negative ones in two's complement. Sums of M such
numbers are exact as long as |x_m| < 2^(bits-1) / (M 2^f), which `Format.encode` checks before anything leaves the
party.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdml_spdz.errors import QuotaError

Ring = NDArray[np.uint64]
Reals = NDArray[np.float64]

WORD = 64
# Every float64 is a multiple of 2^-1074 below 2^1024: with this many bits a sum of up to 2^90 of them is exact,
# whatever their size.
EXACT_FRACTION, EXACT_BITS = 1074, 2240


@dataclass(frozen=True)
class Format:
    """How M parties encode the addends of one sum: f fraction bits in Z_2^64."""

    f: int
    M: int

    @classmethod
    def for_bound(cls, bound: float, M: int) -> Format:
        """The most fraction bits with which M numbers up to `bound` in size still fit."""
        if not (math.isfinite(bound) and bound > 0):
            raise QuotaError(f"the agreed bound is {bound!r}.", "a positive finite number")
        # frexp: bound < 2^e, hence |x| 2^f < 2^(62 - ceil(log2 M)) <= 2^62 / M.
        f = WORD - 2 - math.frexp(bound)[1] - (M - 1).bit_length()
        return cls(f, M)

    @property
    def limit(self) -> float:
        """Numbers must stay below this in size."""
        return math.ldexp(1.0, WORD - 1 - self.f) / self.M

    @property
    def tolerance(self) -> float:
        """How far a decoded sum may be from the sum of the encoded reals: half a unit for each addend."""
        return tolerance(self.f, self.M)

    def encode(self, x: ArrayLike) -> Ring:
        x = np.asarray(x, np.float64)
        # `not all(<)` rather than `any(>=)`: NaN must not pass.
        if not np.all(np.abs(x) < self.limit):
            raise QuotaError(
                "a number to be summed is as large as the agreed bound allows, or not a number; nothing was sent.",
                f"numbers below {self.limit:.6g} in size",
                "agree on a larger --bound (or quota), or scale the data",
            )
        z: Ring = np.rint(np.ldexp(x, self.f)).astype(np.int64).view(np.uint64)
        return z

    def decode(self, z: Ring) -> Reals:
        return np.ldexp(z.view(np.int64).astype(np.float64), -self.f)


def tolerance(f: int, n_terms: int) -> float:
    """The largest error of a sum of `n_terms` numbers, each rounded to f fraction bits."""
    return math.ldexp(0.5 * n_terms, -f)


def encode_exact(x: float) -> int:
    """Any finite float as a residue modulo 2^EXACT_BITS, without rounding."""
    if not math.isfinite(x):
        raise QuotaError(f"a number to be summed is {x!r}; nothing was sent.", "a finite number")
    numerator, denominator = x.as_integer_ratio()
    return (numerator << EXACT_FRACTION) // denominator % (1 << EXACT_BITS)


def decode_exact(z: int) -> float:
    """The float nearest to the number that z encodes."""
    if z >> (EXACT_BITS - 1):
        z -= 1 << EXACT_BITS
    return z / (1 << EXACT_FRACTION)
