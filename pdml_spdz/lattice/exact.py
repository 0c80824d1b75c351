"""Products of matrices of integers mod 2^w on one machine, exact: a party's own terms, and the plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.residues import DIGIT, carry, digits_of, to_ring
from pdml_spdz.numerics import ring

ROWS = 1 << 20  # products of two digits that may be added: 2^52
COLUMNS = 1 << 22  # numbers of float64 at a time


def multiply(S: NDArray[Any], R: NDArray[np.uint64], w: int) -> NDArray[np.uint64]:
    """S R mod 2^w: S int64 (count, n, i) or (count, n, i, limbs), read as signed; R (count, i, c, limbs).

    Digits of 16 bits as float64, one product of matrices for each digit of S and all digits of R. Returns
    (count, n, c, limbs).
    """
    (batch, n, i), c, count = S.shape[:3], R.shape[2], w // DIGIT
    if i > ROWS:
        raise ValueError(f"an inner dimension of {i}: wanted at most {ROWS}")
    left = _digits(S)[..., :count]
    right = digits_of(R.reshape(batch * i * c, -1), w).reshape(batch, i, c, count)
    out = np.empty((batch, n, c, ring.limbs(w)), np.uint64)
    step = max(1, COLUMNS // (batch * max(n, i) * count))
    for first in range(0, c, step):
        columns = slice(first, min(first + step, c))
        sums = _sums(left, right[:, :, columns])
        out[:, :, columns] = to_ring(carry(sums), w).reshape(batch, n, -1, out.shape[3])
    return out


def _digits(S: NDArray[Any]) -> NDArray[np.float64]:
    """Digits of signed numbers: the highest has the sign. Numbers of numerics/ring.py are taken mod 2^(64 limbs)."""
    numbers = S.reshape(int(np.prod(S.shape[:3])), -1)
    raw = digits_of(numbers, 64 * numbers.shape[1])
    values = raw.astype(np.float64)
    values[:, -1] = np.ascontiguousarray(raw[:, -1]).view(np.int16)
    return values.reshape(*S.shape[:3], -1)


def _sums(left: NDArray[np.float64], right: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Digits of the products before the last carries, (batch n c, digits): each product of digits, a sum below 2^52, is
    cut into a digit and what it carries, so that all of them can be added.
    """
    batch, n, i, many = left.shape
    columns, count = right.shape[2:]
    flat = right.reshape(batch, i, -1).astype(np.float64)
    total = np.zeros((batch, n, columns, count))
    for k in range(many):
        part = np.matmul(left[..., k], flat).reshape(total.shape)
        high = np.floor(part * 2.0**-DIGIT)
        part -= high * 2.0**DIGIT
        total[..., k:] += part[..., : count - k]
        total[..., k + 1 :] += high[..., : count - k - 1]
    return total.reshape(-1, count)
