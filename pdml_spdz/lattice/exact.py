"""Products of matrices of integers mod 2^w on one machine, exact: a party's own terms, and the plain twin."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.residues import carry, digits_of, to_ring
from pdml_spdz.numerics import ring

ROWS = 1 << 20  # products of two digits that may be added: 2^52
COLUMNS = 1 << 22  # numbers of float64 at a time


def multiply(S: NDArray[Any], R: NDArray[np.uint64], w: int) -> NDArray[np.uint64]:
    """S R mod 2^w: S int64 (n, i) or (n, i, limbs), read as signed; R (i, c, limbs) -> (n, c, limbs).

    Digits of 16 bits as float64, one product of matrices for each digit of S and all digits of R.
    """
    n, i = S.shape[:2]
    c, count = R.shape[1], w // 16
    left = _digits(S)[:, :, :count]
    right = digits_of(R.reshape(i * c, -1), w).reshape(i, c, count)
    if i > ROWS:
        raise ValueError(f"an inner dimension of {i}: wanted at most {ROWS}")
    out = np.empty((n, c, ring.limbs(w)), np.uint64)
    step = max(1, COLUMNS // (max(n, i) * count))
    for first in range(0, c, step):
        columns = slice(first, min(first + step, c))
        sums = _sums(left, right[:, columns], w)
        out[:, columns] = to_ring(carry(sums), w).reshape(n, -1, out.shape[2])
    return out


def _digits(S: NDArray[Any]) -> NDArray[np.float64]:
    """Digits of signed numbers: the highest has the sign. Numbers of numerics/ring.py are taken mod 2^(64 limbs)."""
    n, i = S.shape[:2]
    raw = digits_of(S.reshape(n * i, -1), 64 * (S.size // max(n * i, 1)))
    values = raw.astype(np.float64)
    values[:, -1] = np.ascontiguousarray(raw[:, -1]).view(np.int16)
    return values.reshape(n, i, -1)


def _sums(left: NDArray[np.float64], right: NDArray[np.uint16], w: int) -> NDArray[np.float64]:
    """Digits of the product before carries, (n c, digits). Each is a sum of at most 32 products, hence carried at once."""
    n, i, many = left.shape
    columns, count = right.shape[1:]
    flat = right.reshape(i, -1).astype(np.float64)
    total = np.zeros((n, columns, count))
    for k in range(many):
        part = (left[:, :, k] @ flat).reshape(n, columns, count)
        high = np.floor(part * 2.0**-16)  # keeps all sums small: digit and carry apart
        part -= high * 2.0**16
        total[:, :, k:] += part[:, :, : count - k]
        total[:, :, k + 1 :] += high[:, :, : count - k - 1]
    return total.reshape(n * columns, count)

