"""Learning parity with noise over Z_2^k: A r + e looks uniform to whoever knows only A.

A has ten ones in a row at public random places, e has one odd number in every block. A sum of ten numbers costs some
thirty times less than a number from OT (offline.make has both).

The assumption is that of Ferret and its successors. Odd noise makes the problem mod 2 the binary one with the same
noise; half of any noise would vanish. There is more noise than in their implementations: some rows of A lie wholly in a
part of r, and then fewer numbers have to be guessed right than r has (`Parameters.locality`; docs/security.md).

*Ref:* Yang, Weng, Lan, Zhang, Wang, "Ferret", CCS 2020; Baum, Braun, Munch-Hansen, Scholl, "MozZ2karella", CRYPTO 2022;
Liu, Wang, Yang, Yu, "The hardness of LPN over any integer ring and field for PCG applications", EUROCRYPT 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.ot.leafsums import settle, to_words
from pdml_spdz.ot.prg import WORD, Streams
from pdml_spdz.ring import Vector, limbs

ONES = 10  # in a row of A
BASE = 32
STEP = 1 << 17

Uncarried: TypeAlias = "NDArray[np.float64]"  # shape (n, c): digits base 2^32, of which thousands add up exactly


@dataclass(frozen=True)
class Parameters:
    """secret : numbers of r, a power of two up to 2^16, so that an index is part of two bytes of a stream
    depth  : 2^depth numbers are a block, with one noisy one among them
    blocks : under one r at the most: every further one helps to find it
    """

    secret: int
    depth: int
    blocks: int

    @property
    def block(self) -> int:
        return 1 << self.depth

    @property
    def kept(self) -> int:
        """Blocks whose numbers are the next r."""
        return self.secret // self.block

    @property
    def step(self) -> int:
        """Blocks made at a time, at the most: memory."""
        return min(self.blocks - self.kept, STEP // self.block)

    @property
    def locality(self) -> float:
        """log2 of how many guesses it takes that enough numbers which depend on a random part of r only have no noise.
        (Chosen parts, and a little noise in them, take fewer: docs/security.md.)

        A part rho r decides a fraction rho^ONES of all numbers; as many as it has unknowns are enough to solve for it.
        """
        n = self.blocks * self.block
        rho = (self.secret / n) ** (1 / (ONES - 1))
        return float(-self.blocks * np.log2(1 - rho * self.secret / n))


SMALL = Parameters(1 << 13, 5, 2304)
LARGE = Parameters(1 << 16, 8, 3400)


class Code:
    """The rows of A one after the other, from a public key (2 words); no two secrets have the same rows."""

    def __init__(self, secret: int, key: NDArray[np.uint64]) -> None:
        self._secret, self._stream = secret, Streams(key.reshape(1, 2), None, 0)

    def times(self, r: Uncarried, n: int) -> Uncarried:
        """The next n rows, a multiple of 8, times r of shape (secret, c)."""
        drawn = np.empty(n * ONES * 2 // WORD.itemsize, WORD)
        self._stream.fill(0, drawn)
        where = drawn.view("<u2").astype(np.int32) & (self._secret - 1)
        starts = np.arange(0, (n + 1) * ONES, ONES, dtype=np.int32)
        A = sp.csr_array((np.ones(n * ONES), where, starts), shape=(n, self._secret))
        return np.asarray(A @ r)


def digits(a: Vector, bits: int) -> Uncarried:
    """The digits below 2^bits of each number."""
    return np.ascontiguousarray(a).view("<u4")[:, : bits // BASE].astype(np.float64)


def settled(sums: Uncarried) -> Vector:
    """The numbers mod 2^bits that these digits stand for; a digit may be negative."""
    n, c = sums.shape
    columns = np.zeros((2 * limbs(BASE * c), n), np.int64)
    columns[:c] = sums.T
    settle(columns[:c])
    return np.ascontiguousarray(to_words(columns).T)
