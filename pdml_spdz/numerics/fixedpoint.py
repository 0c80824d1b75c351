"""Real numbers as integers modulo 2^64, how many of their bits a sum shows, and how far off it may be.

A number x with f fraction bits is the integer round(x * 2^f), negative ones in two's complement. Sums of M such
numbers do not wrap as long as |x_m| is below `Format.limit`, which `Format.encode` checks before anything leaves the
party. Of a sum only the bits above the low `drop` ones are opened.
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
# How many bits below the bound of its addends a sum shows. float64 has 53: the rounding of each addend, by which the
# same sum looks different for every split of it, is in bits 54 and below, and with sums of a thousand rounded products
# in bits 49 and below. Neither reaches bit 44 but by a carry now and then (tests/properties/test_last_digits.py).
OPENED_BITS = 44


@dataclass(frozen=True)
class Format:
    """How M parties encode the addends of one sum: f fraction bits in Z_2^64, of which the low `drop` stay closed."""

    f: int
    M: int
    drop: int

    @classmethod
    def for_bound(cls, bound: float, M: int, bits: int = OPENED_BITS) -> Format:
        """As fine as M numbers up to `bound` in size allow; the sum is opened to `bits` bits below the bound."""
        if not (math.isfinite(bound) and bound > 0):
            raise QuotaError(f"the agreed bound is {bound!r}.", "a positive finite number")
        mantissa, e = math.frexp(bound)
        e -= mantissa == 0.5  # the least e with bound <= 2^e
        # A sign, and M < 2^(bit_length): M numbers up to 2^bits units, and the M units that dropped bits may make.
        drop = WORD - 1 - bits - M.bit_length()
        return cls(bits - e + drop, M, drop)

    @property
    def limit(self) -> float:
        """Numbers must stay below this in size."""
        return math.ldexp(1.0, WORD - 1 - self.f) / self.M - self.unit

    @property
    def unit(self) -> float:
        """The last place that is opened."""
        return math.ldexp(1.0, self.drop - self.f)

    @property
    def tolerance(self) -> float:
        """How far a decoded sum may be from the sum of the encoded reals: half a unit for the bits that each party
        drops, and half a unit of the ring for each addend's rounding.
        """
        return 0.5 * self.M * (self.unit + math.ldexp(1.0, -self.f))

    def encode(self, x: ArrayLike) -> Ring:
        x = np.asarray(x, np.float64)
        # `not all(<)` rather than `any(>=)`: NaN must not pass.
        if not np.all(np.abs(x) < self.limit):
            raise QuotaError(
                "a number to be summed is as large as the agreed bound allows, or not a number; it was not sent.",
                f"numbers below {self.limit:.6g} in size",
                "agree on a larger --bound (or quota), or scale the data",
            )
        z: Ring = np.rint(np.ldexp(x, self.f)).astype(np.int64).view(np.uint64)
        return z

    def decode(self, opened: Ring) -> Reals:
        """The sum, from that of M vectors without their low bits, modulo 2^(64 - drop).

        What was dropped is uniform for each party, and so M/2 units on average.
        """
        signed = (opened << np.uint64(self.drop)).view(np.int64)
        reals: Reals = np.ldexp(signed + math.ldexp(0.5 * self.M, self.drop), -self.f)
        return reals


def wrapped(x: Reals) -> Ring:
    """The nearest integers modulo 2^64, of numbers of any size."""
    if not np.all(np.isfinite(x)):
        raise QuotaError("a number to be summed is not finite; it was not sent.", "finite numbers")
    whole = np.fmod(np.rint(x), math.ldexp(1.0, WORD))  # exact
    size: Ring = np.abs(whole).astype(np.uint64)
    return np.where(whole < 0, np.uint64(0) - size, size)
