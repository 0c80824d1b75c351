"""Low rank approximation of a party's rows in the common subspace. [PDML App. Learning Uplift, LRA] Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from pdml_spdz.applications.score import Score
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import Rows, dense

BLOCK_NUMBERS = 1 << 22  # sparse rows are made dense so many numbers at a time


def coordinates(X: Rows, V: Reals, mean: Reals | None = None) -> Reals:
    """(X - 1 mean^T) V of shape (n, k), for one party's rows X; sparse rows stay so.

    Dense rows are centred first: X V and mean V may both be much larger than their difference.
    """
    if X.ndim != 2 or X.shape[1] != len(V):
        raise InputError(f"the rows have the shape {X.shape} and V has {len(V)} features.", "as many columns as in V")
    if mean is not None and not sp.issparse(X):
        X, mean = X - mean, None
    XV: Reals = np.asarray(X @ V)
    return XV if mean is None else XV - mean @ V


def reconstruction(X: Rows, V: Reals, mean: Reals | None = None) -> Score:
    """||X - X V V^T||_F^2 and the number of rows; with a mean, of the rows less it."""
    Z = coordinates(X, V, mean)
    total = 0.0
    # The residual itself: ||X||^2 - ||X V||^2 would lose the digits of a good fit.
    for rows, X_b in _blocks(X):
        E = X_b - Z[rows] @ V.T
        if mean is not None:
            E -= mean
        total += float(np.vdot(E, E))
    return Score(total, X.shape[0])


def reconstruction_error(X: Rows, V: Reals, mean: Reals | None = None) -> float:
    """||X - X V V^T||_F, the paper's measure, on held-out rows."""
    return float(np.sqrt(reconstruction(X, V, mean).total))


def _blocks(X: Rows) -> Iterator[tuple[slice, Reals]]:
    n, d = X.shape
    size = max(1, BLOCK_NUMBERS // max(d, 1))
    for first in range(0, n, size):
        rows = slice(first, first + size)
        yield rows, dense(X[rows])
