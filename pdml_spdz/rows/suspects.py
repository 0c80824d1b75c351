"""Columns that are probably not features: a party is warned of them, and nobody else hears of it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import SCALE
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column, listed
from pdml_spdz.rows.present import present

SHARE = 0.99  # of all squares: a component of unit length is then nearly that column
CODES = [sign * (10.0**k - 1) for k in range(2, 8) for sign in (-1, 1)]  # -99, 999 and so on
LEAST_ROWS = 8  # by chance alone fewer numbers may go up by equal steps
CONSTANT = "the same number in all of this party's rows"
IDENTIFIER = "looks like an identifier or a row number"
DOMINANT = "carries nearly all of the"
WHOLE, FINE = 2.0**53, 2.0**-22  # beyond, float64 has not all whole numbers; deviations beside it that feel that
ROUNDED = "may have been rounded as it was read: float64 has not all whole numbers beyond 2^53"
CODE = "far from its other numbers: if that stands for a missing value, leave these cells empty"
ZEROS = "are zero, and are taken as missing (--weighted)"
# Kinds of columns, and of rows, from which the scale of level `normed` may follow.
TWO_VALUES, WHOLE_KIND, CONSTANT_KIND = "two values", "whole", "constant"
UNIT_ROWS, EQUAL_SUMS = "rows of one length", "rows of one sum"
MANY = 10**6  # numbers by which kinds are told
PARTS = 1, 2, 3, 4, 5, 10, 100, 1000  # numbers with few decimals are whole as often as that
ID = re.compile(r"(?:.*[\W_])?(?:id|ID|Id|iD)|.*[a-z](?:Id|ID)")


def identifiers(data: Data) -> list[str]:
    """Warnings of columns that look like identifiers: integers by equal steps, or all different under such a name."""
    rows = data.rows.sample()
    found = set(_counters(rows)) | {j for j in _called_id(data) if _all_different(_column(rows, j))}
    text = f"{IDENTIFIER}; leave it out if it is not a feature"
    return [f"{column(data.features, j)} {text}" for j in sorted(found)]


def dominant_column(data: Data, *, centred: bool) -> list[str]:
    """A warning of a column that has nearly all of the variance, or of the squares where rows are not centred."""
    rows = data.rows
    squares = rows.column_squares(rows.column_sums() / data.n if centred else None)
    j, total = int(np.argmax(squares)), float(squares.sum())
    if data.d < 2 or not total * SHARE < squares[j]:
        return []
    what = "variance" if centred else "sum of squares"
    text = f"{DOMINANT} {what} of this party's rows: the first vector will be that column"
    text += ", and a sealed run may end without any"
    return [f"{column(data.features, j)} {text}; {SCALE}, or leave it out if it is no feature"]


def rounded_integers(data: Data) -> list[str]:
    """Warnings of columns of numbers so large that float64 may not have them, beside deviations that feel that."""
    some = replace(data, rows=data.rows.sample())
    sums, there = some.known.column_sums(), np.maximum(some.n - some.missing(), 1)
    mean: Reals = sums / there
    if not np.any(large := np.abs(mean) > WHOLE):
        return []
    deviation = np.sqrt(present(some, sums).rows.column_squares(mean) / there)
    found = np.flatnonzero(large & (deviation > 0) & (deviation < FINE * np.abs(mean)))
    text = (
        f"{ROUNDED}, and what deviates from its mean is small beside that; if so, take off a number near it in the file"
    )
    return [f"{column(data.features, int(j))} {text}" for j in found]


def zeros_as_missing(data: Data) -> list[str]:
    """A warning, where only what is there counts, of zeros in a dense table, which sparse rows could store."""
    zeros = 0 if data.rows.sparse else data.n * data.d - data.rows.nonzero
    text = f"{ZEROS}; where a zero is a value, give the rows as a sparse file that stores it, or as triplets"
    return [f"{zeros:,} of the {data.n * data.d:,} entries of {data.source} {text}"] if zeros else []


def values(data: Data) -> list[str]:
    """Notes of columns that are constant, and of those in which -99, 9999 and the like stand far from all others, more
    than once.
    """
    ends = np.full((data.d, 2), np.nan)
    for block in data.rows.blocks():
        np.fmin(ends[:, 0], np.fmin.reduce(block, axis=0), out=ends[:, 0])
        np.fmax(ends[:, 1], np.fmax.reduce(block, axis=0), out=ends[:, 1])
    same = [column(data.features, int(j)) for j in np.flatnonzero(ends[:, 0] == ends[:, 1])]
    return [*([f"{CONSTANT}: {listed(same)}"] if same and data.n > 1 else []), *_codes(data, ends)]


def _codes(data: Data, ends: Reals) -> list[str]:
    """ends : (d, 2) the least and the largest number of each column, NaN where it has none"""
    suspected = {(j, float(x)) for j, x in np.argwhere(np.isin(ends, CODES)) for x in [ends[j, x]]}
    if not suspected:
        return []
    places = sorted(suspected)
    columns, code = np.array([j for j, _ in places]), np.array([x for _, x in places])
    times, nearest = np.zeros(len(places), np.int64), np.full(len(places), np.inf)
    for block in data.rows.columns(columns).blocks():
        is_code = block == code
        times += is_code.sum(axis=0)
        away = np.abs(np.where(is_code | np.isnan(block), np.inf, block - code))
        nearest = np.minimum(nearest, away.min(axis=0, initial=np.inf))
    apart = (times > 1) & np.isfinite(nearest) & (nearest > np.abs(code) / 2)
    return [
        f"{column(data.features, j)} is {x:g} in {n:,} rows, {CODE}"
        for (j, x), n, odd in zip(places, times.tolist(), apart, strict=True)
        if odd
    ]


def kinds(data: Data) -> set[str]:
    """Which kinds of columns there are, and whether rows have one length or sum, by the first of the rows."""
    rows = data.rows.sample()[: max(LEAST_ROWS, MANY // data.d)].dense()
    if not len(rows):
        return set()
    whole = np.any([np.all(_near_whole(rows * m) | np.isnan(rows), axis=0) for m in PARTS], axis=0)
    least, most = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
    two = np.all((rows == least) | (rows == most) | np.isnan(rows), axis=0)
    squares, sums = np.sum(rows**2, axis=1), np.sum(rows, axis=1)
    found = {
        CONSTANT_KIND: np.any(least == most),
        TWO_VALUES: np.any(two & (least < most)),
        WHOLE_KIND: np.any(whole & (least < most)),
        UNIT_ROWS: len(rows) > 1 and np.allclose(squares, squares[0], rtol=1e-9, atol=0.0),
        EQUAL_SUMS: len(rows) > 1 and sums[0] != 0 and np.allclose(sums, sums[0], rtol=1e-9, atol=0.0),
    }
    return {kind for kind, there in found.items() if there}


def _near_whole(x: Reals) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = np.abs(x - np.rint(x)) <= 1e-6
    return near


def warn_of_columns(said: Iterable[str], caller: int) -> None:
    """Those of a report's warnings that are about the rows, as Python's: whoever calls a function does not see what
    parties print. caller : how many frames above this one
    """
    for text in said:
        if any(known in text for known in (IDENTIFIER, DOMINANT, ROUNDED, ZEROS, CODE)):
            warnings.warn(text, UserWarning, stacklevel=caller + 1)


def _counters(X: Rows) -> list[int]:
    """Dense columns of integers that go up, or down, by equal steps."""
    if X.sparse or X.shape[0] < LEAST_ROWS:
        return []
    first = X[:LEAST_ROWS].dense()
    steps = np.diff(first, axis=0)
    candidates = np.flatnonzero((steps[0] != 0) & np.all(steps == steps[0], axis=0) & (first[0] == np.rint(first[0])))
    return [int(j) for j in candidates if _equal_steps(_column(X, int(j)))]


def _column(X: Rows, j: int) -> Reals:
    return X.columns([j]).dense()[:, 0]


def _equal_steps(x: Reals) -> bool:
    steps = np.diff(x)
    return bool(np.all(steps == steps[0]) and np.all(x == np.rint(x)))


def _called_id(data: Data) -> list[int]:
    return [j for j, name in enumerate(data.features or ()) if ID.fullmatch(name.strip())]


def _all_different(x: Reals) -> bool:
    return bool(len(x) > 1 and np.all(x == np.rint(x)) and len(np.unique(x)) == len(x))
