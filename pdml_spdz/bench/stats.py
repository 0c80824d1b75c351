"""Medians with their quartiles, ratios with their bounds, straight lines with their R^2."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Spread(NamedTuple):
    """Median and quartiles of n repetitions; of one, or of a count, all three are the same."""

    median: float
    low: float
    high: float
    n: int = 1

    def times(self, factor: float) -> Spread:
        return Spread(self.median * factor, self.low * factor, self.high * factor, self.n)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """(low, median, high)"""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def spread(values: Sequence[float]) -> Spread:
    low, median, high = quartiles([float(v) for v in values])
    return Spread(median, low, high, len(values))


def exact(value: float) -> Spread:
    """A number that does not vary, such as a count."""
    return Spread(float(value), float(value), float(value))


def ratio(a: Spread, b: Spread) -> Spread:
    """a/b: of the medians, and at the least and at the most if both are anywhere between their quartiles."""
    if b.median == 0:
        return exact(1.0 if a.median == 0 else float("inf"))
    low = a.low / b.high if b.high else 0.0
    return Spread(a.median / b.median, low, a.high / b.low if b.low else float("inf"), min(a.n, b.n))


class Line(NamedTuple):
    """y = intercept + slope x, and the share of y's variance that it explains."""

    intercept: float
    slope: float
    r2: float

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x


def line(x: Sequence[float], y: Sequence[float]) -> Line:
    """Least squares; through two points it is exact, through one it is proportional."""
    if len(x) == 1:
        return Line(0.0, y[0] / x[0], 1.0)
    slope, intercept = np.polyfit(x, y, 1)
    rest = float(np.sum((np.asarray(y) - intercept - slope * np.asarray(x)) ** 2))
    whole = float(np.sum((np.asarray(y) - np.mean(y)) ** 2))
    return Line(float(intercept), float(slope), 1.0 - rest / whole if whole else 1.0)
