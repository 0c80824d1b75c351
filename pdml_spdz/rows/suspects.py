"""Columns that are probably not features: a party is warned of them, and nobody else hears of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics import sparse as sp
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import Rows, column_sums, dense
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column

SHARE = 0.99  # of all squares: a component of unit length is then nearly that column
LEAST_ROWS = 8  # by chance alone fewer numbers may go up by equal steps
BLOCK = 1 << 20  # entries that are looked at together
IDENTIFIER = "looks like an identifier or a row number"
DOMINANT = "carries nearly all of the"
ID = re.compile(r"(?:.*[\W_])?(?:id|ID|Id|iD)|.*[a-z](?:Id|ID)")


def identifiers(data: Data) -> list[str]:
    """Warnings of columns that look like identifiers: integers by equal steps, or all different under such a name."""
    found = set(_counters(data.X)) | {j for j in _called_id(data) if _all_different(dense(data.X[:, [j]])[:, 0])}
    text = f"{IDENTIFIER}; leave it out if it is not a feature"
    return [f"{column(data.features, j)} {text}" for j in sorted(found)]


def dominant(data: Data, *, centred: bool) -> list[str]:
    """A warning of a column that has nearly all of the variance, or of the squares where rows are not centred."""
    squares = _squares(data.X, centred=centred)
    j, total = int(np.argmax(squares)), float(squares.sum())
    if data.d < 2 or not total * SHARE < squares[j]:
        return []
    what = "variance" if centred else "sum of squares"
    text = f"{DOMINANT} {what} of this party's rows: the first vector will be that column"
    return [f"{column(data.features, j)} {text}; scale the features (--scale), or leave it out if it is not one"]


def among(warnings: Iterable[str]) -> list[str]:
    """Those of a report's warnings that are about columns: whoever calls a function does not see what parties print."""
    return [text for text in warnings if IDENTIFIER in text or DOMINANT in text]


def _counters(X: Rows) -> list[int]:
    """Dense columns of integers that go up, or down, by equal steps."""
    if sp.issparse(X) or len(X) < LEAST_ROWS:
        return []
    steps = np.diff(X[:LEAST_ROWS], axis=0)
    candidates = np.flatnonzero((steps[0] != 0) & np.all(steps == steps[0], axis=0) & (X[0] == np.rint(X[0])))
    return [int(j) for j in candidates if _equal_steps(X[:, j])]


def _equal_steps(x: Reals) -> bool:
    steps = np.diff(x)
    return bool(np.all(steps == steps[0]) and np.all(x == np.rint(x)))


def _called_id(data: Data) -> list[int]:
    return [j for j, name in enumerate(data.features or ()) if ID.fullmatch(name.strip())]


def _all_different(x: Reals) -> bool:
    return bool(len(x) > 1 and np.all(x == np.rint(x)) and len(np.unique(x)) == len(x))


def _squares(X: Rows, *, centred: bool) -> NDArray[np.float64]:
    """Sums of squares of each column, around its mean or zero."""
    n = X.shape[0]
    if sp.issparse(X):
        sums, squares = column_sums(X), column_sums(X.multiply(X))
        return np.maximum(squares - sums * sums / n, 0.0) if centred else squares
    around = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    total, rows = np.zeros(X.shape[1]), max(1, BLOCK // X.shape[1])
    for i in range(0, n, rows):
        block = X[i : i + rows] - around
        total += np.einsum("ij,ij->j", block, block)
    return total
