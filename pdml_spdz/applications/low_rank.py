"""Low rank approximation of a party's rows in the common subspace. [PDML App. Learning Uplift, LRA] Nothing is sent."""

from __future__ import annotations

import numpy as np

from pdml_spdz.applications.score import Score
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows

BLOCK_NUMBERS = 1 << 22  # sparse rows are made dense so many numbers at a time


def coordinates(X: RowsLike, V: Reals, mean: Reals | None = None) -> Reals:
    """(X - 1 mean^T) V of shape (n, k), for one party's rows X; sparse rows stay so.

    Dense rows are centred first: X V and mean V may both be much larger than their difference.
    """
    rows = as_rows(X)
    if len(rows.shape) != 2 or rows.shape[1] != len(V):
        raise InputError(
            f"the rows have the shape {rows.shape} and V has {len(V)} features.", "as many columns as in V"
        )
    if mean is None:
        return rows.times(V)
    return rows.times(V) - mean @ V if rows.sparse else rows.shifted(mean).times(V)


def reconstruction(X: RowsLike, V: Reals, mean: Reals | None = None) -> Score:
    """||X - X V V^T||_F^2 and the number of rows; with a mean, of the rows less it."""
    rows = as_rows(X)
    Z = coordinates(rows, V, mean)
    total = 0.0
    # The residual itself: ||X||^2 - ||X V||^2 would lose the digits of a good fit.
    for chosen, X_b in rows.numbered_blocks(BLOCK_NUMBERS):
        E = X_b - Z[chosen] @ V.T
        if mean is not None:
            E -= mean
        total += float(np.vdot(E, E))
    return Score(total, rows.shape[0])


def reconstruction_error(X: RowsLike, V: Reals, mean: Reals | None = None) -> float:
    """||X - X V V^T||_F, the paper's measure, on held-out rows."""
    return float(np.sqrt(reconstruction(X, V, mean).total))
