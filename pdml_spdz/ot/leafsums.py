"""The arithmetic of VOLE on leaf streams: sums of many pseudorandom vectors in Z_2^(64 w), carries settled once.

A number is held in columns of 32-bit digits, shape (2w, n), as int64 with room above (and below) the 32 bits, so that
sums, small multiples and differences need no carry until `settle`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.ot.prg import WORD, Blocks, Streams

Columns: TypeAlias = "NDArray[np.int64]"  # shape (2w, n)

HALF, MASK = np.int64(32), np.int64(0xFFFFFFFF)


class LeafSums:
    """(sum_j x_j, sum_j j x_j) over the leaves j of one tree except `hole`, for the w-limb numbers x_j that follow
    each other in the stream of leaf j.

    leaves   : (2^kappa, 2)
    position : the number of the first element, even: it is read at AES block position * w / 2, so that ranges of
               elements that do not meet are parts of the streams that do not meet
    nonce    : the tree's
    """

    def __init__(self, leaves: Blocks, hole: int | None, position: int, w: int, nonce: int) -> None:
        self._streams, self._w = Streams(leaves, hole, position * w // 2, nonce), w

    def next(self, n: int) -> tuple[Columns, Columns]:
        """The sums for the next n elements, an even number (limb by limb in the stream, as the AES writes it).

        The second sum is a sum of sums: for j = 2^kappa - 1, ..., 1 add x_j to s, then s to t. A limb's sum s
        mod 2^64 and the sum h of its upper halves determine the sum of its lower halves, s - 2^32 h, so carries are
        not watched leaf by leaf; the top limb needs none.
        """
        x, s, t = (np.zeros((self._w, n), WORD) for _ in range(3))
        upper, h_s, h_t = (np.zeros((self._w - 1, n), WORD) for _ in range(3))
        for j in range(len(self._streams) - 1, -1, -1):
            if self._streams.fill(j, x):
                s += x
                if self._w > 1:
                    np.right_shift(x[:-1], np.uint64(32), out=upper)
                    h_s += upper
            if j:
                t += s
                h_t += h_s
        return _columns(s, h_s), _columns(t, h_t)


def _columns(s: NDArray[np.uint64], h: NDArray[np.uint64]) -> Columns:
    w, n = s.shape
    out = np.empty((w, 2, n), WORD)
    out[:-1, 1] = h
    out[:-1, 0] = s[:-1] - (h << np.uint64(32))
    out[-1, 0], out[-1, 1] = s[-1] & np.uint64(0xFFFFFFFF), s[-1] >> np.uint64(32)
    return out.reshape(2 * w, n).view(np.int64)


def settle(columns: Columns) -> Columns:
    """The same numbers mod 2^(64 w) with every digit in [0, 2^32), in place. (The shift of a negative digit is
    arithmetic: it borrows.)"""
    for i in range(len(columns) - 1):
        columns[i + 1] += columns[i] >> HALF
    columns &= MASK
    return columns


def to_columns(words: NDArray[np.uint64]) -> Columns:
    """(w, n) limbs to columns."""
    w, n = words.shape
    out = np.empty((w, 2, n), np.int64)
    out[:, 0] = words & np.uint64(0xFFFFFFFF)
    out[:, 1] = words >> np.uint64(32)
    return out.reshape(2 * w, n)


def to_words(columns: Columns) -> NDArray[np.uint64]:
    """Settled columns to (w, n) limbs."""
    digits = columns.view(WORD)
    return np.asarray(digits[0::2] | digits[1::2] << np.uint64(32))


class Horner:
    """sum_i 2^(kappa i) y_i, fed from the highest digit down; y_i has as many limbs as its weight leaves of k."""

    def __init__(self, kappa: int, n: int) -> None:
        self._kappa, self._sum = np.int64(kappa), np.zeros((0, n), np.int64)

    def step(self, y: Columns) -> None:
        """Take in the next lower digit's number; overwrites `y`."""
        y[: len(self._sum)] += self._sum << self._kappa
        self._sum = settle(y)

    def words(self) -> NDArray[np.uint64]:
        return to_words(self._sum)
