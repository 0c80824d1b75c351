"""Steps that take t from anywhere in [2^-R, 1] to 1: polynomials of degree three, each as steep at 0 as the one before
lets it be. The programs multiply x and t by the same factor h in each of them: t = rho x throughout.

A number t of an interval [l, 1] is mapped into a shorter one, [l', 1]. Of all polynomials t h(t) of degree three that
stay below 1, the one whose least value on [l, 1] is largest takes that value at l and inside (or at 1), so there is one
number to find: where its maximum is. What these do one after the other no other polynomials of that degree do in fewer
steps (but for the floor below).

*Ref:* Chen and Chow, "A stable scaling of Newton-Schulz for improving the sign function computation of a Hermitian
matrix", ANL/MCS 2014; Amsel, Persson, Musco, Gower, "The Polar Express", 2025 (the best polynomial of each
interval in turn is the best of all).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2, sqrt
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

COEFFICIENT_BITS = 10
ONE = 1 << COEFFICIENT_BITS
# t may be a little larger than 1, by rounding of coefficients and of t: a step takes everything up to here below 1.
TOP = 1 + 2.0**-7
OVER = 1.5 / ONE  # by coefficients: three, half a unit each
# No step takes a t near 1 below that: x = t / rho would lose its bits. It costs one step of thirty.
FLOOR_BITS = 3

Number = TypeVar("Number", float, NDArray[np.float64])
Step: TypeAlias = tuple[int, ...]  # h = (a - b t + c t^2) / ONE, or (a - b t^2) / ONE


@dataclass(frozen=True)
class Family:
    """Polynomials t h(t) of one shape.

    of : the one whose maximum, 1, is at this place in (0, 1); steepest : the place for which the least value is 0
    least : the least value on an interval that ends at 1, its left end apart
    polish : the one that makes small errors of t smaller; after : what it leaves of an error e = 1 - t
    """

    of: Callable[[float], Step]
    steepest: float
    least: Callable[[Step], float]
    polish: Step
    after: Callable[[float], float]

    @staticmethod
    def at(step: Step, t: Number) -> Number:
        a, b, *c = step
        return t * (a - b * t + c[0] * t * t if c else a - b * t * t) / ONE


@lru_cache(maxsize=64)
def steps(family: Family, R: int, bits: int) -> tuple[Step, ...]:
    """As few as possible after which |1 - t| is below 2^-bits for all t in [2^-R, 1]."""
    l, growing = 2.0**-R, list[Step]()
    best: list[Step] | None = None
    while best is None or len(growing) < len(best):
        if (polished := _polishing(family, (1 - l, -OVER if growing else 0.0), bits)) is not None:
            whole = growing + [family.polish] * polished
            best = whole if best is None or len(whole) < len(best) else best
        step = _steepest(family, l)
        growing.append(step)
        l = min(family.at(step, l), family.least(step))
    return tuple(best)


def largest_factor(chosen: Sequence[Step]) -> float:
    """How often x may be doubled by them: h is largest for t = 0."""
    return sum(log2(a / ONE) for a, *_ in chosen)


def _polishing(family: Family, errors: tuple[float, ...], bits: int) -> int | None:
    """How many of the last kind; None if these are too large for it. errors : 1 - t at both ends"""
    n = 0
    while max(map(abs, errors)) >= 2.0**-bits:
        if n > 8 or max(errors) > 0.9:
            return None
        errors, n = tuple(map(family.after, errors)), n + 1
    return n


def _steepest(family: Family, l: float) -> Step:
    """By bisection: further left the maximum makes a step steeper, and lower where it is low."""
    first = _lowest(family)
    if family.at(first, l) <= 2.0**-FLOOR_BITS:
        return first
    return _bisected(family, lambda step: family.least(step) >= max(family.at(step, l), 2.0**-FLOOR_BITS))


@lru_cache(maxsize=2)
def _lowest(family: Family) -> Step:
    """The steepest of all that keep above the floor: most steps are this one."""
    return _bisected(family, lambda step: family.least(step) >= 2.0**-FLOOR_BITS)


def _bisected(family: Family, enough: Callable[[Step], bool]) -> Step:
    left, right = family.steepest, 1.0
    for _ in range(40):
        middle = (left + right) / 2
        if enough(family.of(middle)):
            right = middle
        else:
            left = middle
    return family.of(right)


def _rounded(*coefficients: float) -> Step:
    return tuple(round(ONE * c) for c in coefficients)


def _reciprocal(t: float) -> Step:
    """1 + (z - t)^2 (z - TOP) / (t^2 TOP): 1 at t and at TOP, 0 at 0."""
    return _rounded(2 / t + 1 / TOP, (2 * t + TOP) / (t * t * TOP), 1 / (t * t * TOP))


def _least_reciprocal(step: Step) -> float:
    """At its minimum between the two places where it is 1."""
    a, b, c = step
    root = b * b - 3.0 * a * c
    return Family.at(step, (b + sqrt(root)) / (3 * c)) if root > 0 else 1.0


def _inverse_root(t: float) -> Step:
    """Odd, with its maximum 1 at t."""
    return _rounded(1.5 / t, 0.5 / (t * t * t))


RECIPROCAL = Family(_reciprocal, 0.25, _least_reciprocal, (3 * ONE, 3 * ONE, ONE), lambda e: e**3)
INVERSE_ROOT = Family(
    _inverse_root,
    1 / sqrt(3),
    lambda step: Family.at(step, TOP),
    (3 * ONE // 2, ONE // 2),
    lambda e: 1.5 * e * e - 0.5 * e**3,
)
