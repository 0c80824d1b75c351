"""Learning parity with noise over Z_2^k: A r + e looks uniform to whoever knows only A.

A has ten ones in a row at different public random places, e has one odd number in every block. A sum of ten numbers
costs some thirty times less than a number from OT (offline.make has both).

The assumption is that of Ferret and its successors. Odd noise makes the problem mod 2 the binary one with the same
noise; half of any noise would vanish. There is more noise than in their implementations: some rows of A lie wholly in a
part of r, and then fewer numbers have to be guessed right than r has. `python -m benchmarks.lpn_security` computes what
each known attack costs; docs/security.md has its table.

*Ref:* Yang, Weng, Lan, Zhang, Wang, "Ferret", CCS 2020; Baum, Braun, Munch-Hansen, Scholl, "MozZ2karella", CRYPTO 2022;
Liu, Wang, Yang, Yu, "The hardness of LPN over any integer ring and field for PCG applications", EUROCRYPT 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.ring import Vector, limbs
from pdml_spdz.ot.ggm import settle, to_words
from pdml_spdz.ot.prg import WORD, Streams

ONES = 10  # in a row of A
BASE = 32
STEP = 1 << 17
CACHED = 1 << 18  # bytes of r whose rows are found as fast one by one as by a sparse product

Uncarried: TypeAlias = "NDArray[np.float64]"  # shape (n, c): digits base 2^32, of which thousands add up exactly


@dataclass(frozen=True)
class LpnParameters:
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


# Each level has a smaller secret and more noise than the one above, so that none falls sooner than another.
SHORT = LpnParameters(1 << 11, 3, 800)
SMALL = LpnParameters(1 << 13, 5, 2304)
LARGE = LpnParameters(1 << 16, 8, 3400)  # emp-ot's ferret_b10 (2^16, 10, 850) with four times the noise


class Code:
    """The rows of A one after the other, from a public key (2 words); no two secrets have the same rows."""

    def __init__(self, secret: int, key: NDArray[np.uint64]) -> None:
        self._secret, keys = secret, key.reshape(1, 2)
        self._first, self._again = (Streams(keys, None, 0, nonce) for nonce in (0, 1))

    def places(self, n: int) -> NDArray[np.uint16]:
        """Where the next n rows, a multiple of 8, have their ones: shape (n, ONES), different ones in a row.

        A row is ten numbers of a stream. If one of them is there twice (one row of 180 at level 1), it is drawn again
        from a second stream until it has ten: then all sets of ten places are equally likely.
        """
        drawn = np.empty(n * ONES * 2 // WORD.itemsize, WORD)
        self._first.fill(0, drawn)
        places = drawn.view("<u2").reshape(n, ONES) & np.uint16(self._secret - 1)
        for row in np.flatnonzero(_repeated(places)):
            places[row] = self._other()
        return places

    def _other(self) -> NDArray[np.uint16]:
        """One more row, without repeats; each try takes 32 bytes of the second stream."""
        drawn = np.empty(4, WORD)
        while self._again.fill(0, drawn):
            row = drawn.view("<u2")[:ONES] & np.uint16(self._secret - 1)
            if len(set(row.tolist())) == ONES:
                break
        return row

    def times(self, r: Uncarried, n: int) -> Uncarried:
        """The next n rows, a multiple of 8, times r of shape (secret, c)."""
        where = self.places(n).astype(np.int32)
        if r.nbytes <= CACHED:
            total = r[where[:, 0]]
            for column in where.T[1:]:
                total += r[column]
            return total
        starts = np.arange(0, (n + 1) * ONES, ONES, dtype=np.int32)
        import scipy.sparse as sp  # which takes long, and short fits do without

        A = sp.csr_array((np.ones(n * ONES), where.reshape(-1), starts), shape=(n, self._secret))
        return np.asarray(A @ r)


def _repeated(places: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Which rows have a number twice. (Columns are compared: six times as fast as sorting the rows.)"""
    columns, found = np.ascontiguousarray(places.T), np.zeros(len(places), np.bool_)
    for i, j in combinations(range(ONES), 2):
        found |= columns[i] == columns[j]
    return found


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
