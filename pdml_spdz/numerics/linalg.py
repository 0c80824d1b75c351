"""Linear algebra on columns: orthonormal bases, angles between them, signs, starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals

EPS = float(np.finfo(np.float64).eps)
TIED = 1e-6  # of the largest: entries that near to it are taken for as large; a result is known to 1e-7


def orthonormalise(Y: Reals) -> tuple[Reals, Reals]:
    """Q with orthonormal columns and r = diag(R) >= 0 of the QR factorisation Y = Q R.

    With a non-negative diagonal Q is unique, so centralised and distributed iterations can be compared column by
    column, and scaling a column of Y by a positive number leaves Q as it is.
    """
    Q, R = np.linalg.qr(Y)
    signs = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * signs, np.abs(np.diag(R))


def qr_tolerance(r: Reals, d: int) -> Reals:
    """How far column i of Q may differ between two correct computations on the same unit columns.

    QR amplifies rounding by the reciprocal of how much of a column is left after the earlier ones are removed; 1e-10 is
    the agreed floor.
    """
    left = np.minimum.accumulate(np.maximum(r, EPS))
    tolerance: Reals = np.maximum(1e-10, 8.0 * d * EPS / left)
    return tolerance


def fix_signs(V: Reals) -> Reals:
    """V with each column's largest entry (in size) made positive: a singular vector is defined up to its sign.

    Of several that are as large (two categories of one column are opposite) the first one, whatever rounding makes of
    them.
    """
    size = np.abs(V)
    first = np.argmax(size >= (1.0 - TIED) * size.max(axis=0), axis=0)
    return V * np.where(np.take_along_axis(V, first[None, :], axis=0) < 0, -1.0, 1.0)


def sine(V: Reals, W: Reals) -> float:
    """Sine of the largest principal angle between the column spaces of two orthonormal bases;
    1 if W has more columns.
    """
    if W.shape[1] > V.shape[1]:
        return 1.0
    rest = W - V @ (V.T @ W)
    # The largest singular value of a tall matrix, and no other: that of its Gram matrix is as exact.
    return min(1.0, float(np.sqrt(max(np.linalg.eigvalsh(rest.T @ rest)[-1], 0.0))))


def gaussian(rng: np.random.Generator, d: int, k: int, deviation: float) -> NDArray[np.float64]:
    return deviation * rng.standard_normal((d, k))
