"""The grid attack: the norm of a sum from the fixed-point grid that its inputs lie on."""

from __future__ import annotations

import numpy as np
from fpylll import LLL, IntegerMatrix

COORDINATES = 40


def norm_from_grid(u: np.ndarray, f_in: int, uncertainty: float) -> float | None:
    """||s|| if the entries of s = n 2^-f_in, n integer, show through u = s/||s||, known to +-uncertainty; else None.

    With the largest entry as reference, a_i = u_i/u_0 = n_i/n_0: simultaneous approximation of the a_i with the
    common denominator q = n_0, by lattice reduction. Then ||n|| = q/u_0. Accepted if q a_i is integer at coordinates
    that the reduction did not see.
    """
    order = np.argsort(-np.abs(u))
    seen, held_out = order[:COORDINATES], order[COORDINATES:]
    a = u[seen] / u[seen[0]]
    precision = uncertainty / abs(u[seen[0]])
    scale = int(2 ** min(60, max(1, round(-np.log2(precision)))))
    n = len(a)
    basis = IntegerMatrix(n, n)
    basis[0, 0] = 1
    for i in range(1, n):
        basis[0, i] = round(float(a[i]) * scale)
        basis[i, i] = scale
    LLL.reduction(basis)
    q = abs(basis[0, 0])
    if q == 0:
        return None
    residue = q * u[held_out] / u[seen[0]]
    off = np.abs(residue - np.rint(residue))
    # By chance the mean distance to the next integer is 1/4.
    if len(held_out) == 0 or off.mean() > 0.1:
        return None
    return float(q / abs(u[seen[0]]) * 2.0**-f_in)


def recovered(found: float | None, norm: float) -> bool:
    """Right, or right up to the common divisor that the entries of s may have."""
    return found is not None and any(abs(found * c / norm - 1) < 1e-4 for c in range(1, 9))
