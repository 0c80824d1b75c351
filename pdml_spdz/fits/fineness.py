"""Means as exact as deviations need them: where 44 bits of the largest feature are too few for a small one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import REST_BITS
from pdml_spdz.rows.base import added_up
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import PartyRun
from pdml_spdz.transport.base import Link

Counted: TypeAlias = int | Reals

MEAN_BITS = 46  # of a party's sums: what float64 makes of them is below (tests/properties/test_last_digits.py)
STEPS_BITS = 30  # by which sums are made finer at once
MOVED = 3.0  # half-roundings of sums of x - mu: mu itself, over agreed scales, and what is added to it


@dataclass(frozen=True)
class MeanFound:
    """A mean, and how well it is known.

    mu : (d,); n : rows, or the values of each feature that there are; weight : numbers that are off if mu is, at most
    place : the last one, a power of two, of the sums that it was made of; 0 if all of them was opened
    over : what these sums were divided by
    rounded : (d,), how far float64 has put it off at most
    steps : by which that place is finer than before
    """

    mu: Reals
    n: Counted
    weight: Counted
    place: float
    over: Counted
    rounded: Reals
    steps: int = 0


@dataclass(frozen=True)
class Need:
    """enough : of what `off_by` says, that does not matter
    roundings : half-roundings of mu that count, once it has been made finer
    bits : of a step
    """

    purpose: str
    enough: float
    roundings: float
    bits: int = 10


def finer(run: PartyRun, data: Data, known: MeanFound, engine: Engine, link: Link, need: Need) -> MeanFound:
    """mu as exact as the rows' deviations need it, or as it can be made at once; `known` itself, if it cannot.

    1. t_m <- own sums of x - mu, those of features with fewer values multiplied by as much: all means are made of them
       to the same place
    2. as if the last place were finer, step by step, until a party says that it is fine enough (`anywhere`), but no
       finer than 46 bits of any party's own t_m, and no finer than their sum has bits
    3. mu <- mu + SecSum(t_m) / max(n), to that place

    Reveals: mu, finer, and how many steps that took: votes are disjunctions, of which all parties but one know the last
    party's part. Cost: a round of 16 bytes for each step, 30 bits of them at most, and a SecSum. Ref: -
    """
    sec_sum, mu, n, most = engine.sec_sum, known.mu, float(np.max(known.n)), largest(data, known.mu)
    own, unit, steps = data.rows.sums_less(mu) * (n / known.n), _power(known.place * float(np.max(n / known.over))), 0
    finest = 2.0 ** (1 - REST_BITS) * float(np.max(run.study.M * unit + n * (known.rounded + rounding(mu, MOVED))))

    def with_place(place: float) -> MeanFound:
        return replace(known, place=place, over=int(n), rounded=rounding(mu, need.roundings), steps=steps)

    while unit and (steps + 1) * need.bits <= STEPS_BITS:
        place = unit * 2.0 ** -(need.bits * (steps + 1))
        if place < finest:
            break
        right = off_by(run, with_place(place), most) <= need.enough
        stop, good = sec_sum.anywhere([bool(np.any(np.abs(own) > 2.0**MEAN_BITS * place)), right], need.purpose)
        steps += not stop
        if stop or good:
            break
    if unit and not steps:
        return known
    place = unit * 2.0 ** -(need.bits * steps)
    shift = agreed_sum(sec_sum.rest(own, place, need.purpose), link, place) / n
    rounded = rounding(mu + shift, need.roundings) + rounding(shift, rounding_of_sums(known.n))
    return replace(with_place(place), mu=mu + shift, rounded=rounded)


def _power(x: float) -> float:
    """The power of two that is no smaller, or 0."""
    fraction, exponent = math.frexp(x)
    return x if fraction in (0.0, 0.5) else math.ldexp(1.0, exponent)


def off_by(run: PartyRun, known: MeanFound, variance: float) -> float:
    """||mu - its true value||^2 at most, as often as it counts, over the largest variance of this party's rows."""
    error = run.study.M * known.place / 2 / known.over + known.rounded
    off = float(np.sum(known.weight * error**2))
    return off / variance if variance > 0 else math.inf if off else 0.0


def largest(data: Data, mu: Reals | None) -> float:
    """The largest sum of (x - mu)^2 of a feature: no more than the largest eigenvalue of this party's covariance around
    mu, of X^T X where there is none.
    """
    return float(data.rows.column_squares(mu).max(initial=0.0))


def rounding_of_sums(n: Counted) -> float:
    """How many times a sum of n is rounded, at most."""
    return float(added_up(int(np.max(n))))


def rounding(size: Reals, times: float) -> Reals:
    """What is left of so many half-roundings of numbers of this size."""
    rounded: Reals = times * EPS / 2 * np.abs(size)
    return rounded


def agreed_sum(total: Reals, link: Link, unit: float = 0.0) -> Reals:
    """A sum that all parties have, as the same bytes for all. unit : its last place, where it is small beside others"""
    tolerance = np.array([unit or 1e-9 * max(1.0, float(np.abs(total).max()))])
    return Agreement(link)(total[:, None], (), tolerance)[0][:, 0]
