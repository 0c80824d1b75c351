"""Learning parity with noise over Z_2^k: A r + e looks uniform to whoever knows only A.

r has SECRET numbers, A has ten ones in a row at public random places, e has one odd number in every BLOCK. A sum of ten
numbers costs some hundred times less than a number from OT.

The assumption is that of Ferret and its successors, with the parameters that their current implementation takes for 128
bits of security. Odd noise makes the problem mod 2 the binary one with the same noise; half of any noise would vanish.

*Ref:* Yang, Weng, Lan, Zhang, Wang, "Ferret", CCS 2020; Baum, Braun, Munch-Hansen, Scholl, "MozZ2karella", CRYPTO 2022;
Liu, Wang, Yang, Yu, "The hardness of LPN over any integer ring and field for PCG applications", EUROCRYPT 2024.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pdml_spdz.ot.prg import WORD, Streams
from pdml_spdz.ring import Vector, limbs

DEPTH = 10
BLOCK = 1 << DEPTH  # numbers with one noisy one among them
BLOCKS = 850  # under one secret at the most: every further one helps to find it
SECRET = 1 << 16  # so that an index is two bytes of a stream
ONES = 10  # in a row of A

Digits: TypeAlias = "NDArray[np.float64]"  # shape (n, c), base 2^32, not carried: sums of thousands stay exact

BASE = 32


class Code:
    """The rows of A one after the other, from a public key (2 words); no two secrets have the same rows."""

    def __init__(self, key: NDArray[np.uint64]) -> None:
        self._stream = Streams(key.reshape(1, 2), None, 0)

    def times(self, r: Digits, blocks: int) -> Digits:
        """The next rows, of so many blocks, times r of shape (SECRET, c)."""
        n = blocks * BLOCK
        drawn = np.empty(n * ONES * 2 // WORD.itemsize, WORD)
        self._stream.fill(0, drawn)
        where = drawn.view("<u2").astype(np.int32)
        starts = np.arange(0, (n + 1) * ONES, ONES, dtype=np.int32)
        A = sp.csr_array((np.ones(n * ONES), where, starts), shape=(n, SECRET))
        return np.asarray(A @ r)


def digits(a: Vector, bits: int) -> Digits:
    """The digits below 2^bits of each number."""
    return np.ascontiguousarray(a).view("<u4")[:, : bits // BASE].astype(np.float64)


def settled(sums: Digits) -> Vector:
    """The numbers mod 2^bits that these digits stand for; a digit may be negative."""
    n, c = sums.shape
    out = np.zeros((n, 2 * limbs(BASE * c)), "<u4")
    carry = np.zeros(n, np.int64)
    for i in range(c):
        carry += sums[:, i].astype(np.int64)
        out[:, i] = carry & 0xFFFFFFFF
        carry >>= BASE  # arithmetic: it borrows
    return out.view(WORD)
