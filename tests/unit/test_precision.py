"""The bit budget."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import BELOW_BITS, F_G, FULL_G, MAX_RANGE, MIN_RANGE, SIGMA, Precision
from pdml_spdz.programs.steps import FLOOR_BITS, INVERSE_ROOT, RECIPROCAL, TOP, Family, steps
from pdml_spdz.study.checks import USUAL_RANGE, WIDE_RANGE

precisions = st.builds(
    Precision,
    M=st.integers(2, 30),
    f_out=st.integers(4, 31),
    R=st.integers(4, MAX_RANGE),
    G=st.integers(8, 20),  # more may not fit into the widest ring
    H=st.integers(4, 24),
    f_g=st.sampled_from([F_G, FULL_G]),
    hidden_mean=st.booleans(),
)


def test_defaults_are_those_of_the_design() -> None:
    p = Precision(3)
    assert (p.f_out, p.R, p.G, p.H) == (31, 40, 16, 13)
    assert (p.f_in, p.f_inv, p.vector_bits, p.scalar_bits) == (87, 47, 160, 320)
    assert Precision(3, 31, 20).vector_bits == 128


def test_window_takes_a_ring_of_224_bits_and_the_agreed_bound_its_160() -> None:
    """All bits of g have room in either."""
    assert [Precision(3, 31, R, f_g=FULL_G).vector_bits for R in (USUAL_RANGE, WIDE_RANGE)] == [160, 224]


@given(precisions)
def test_every_line_of_the_budget_adds_up(p: Precision) -> None:
    assert all(used <= room for _, used, room, _ in p.budget())
    assert p.scalar_bits >= p.scalar_value_bits + SIGMA + math.log2(p.M) + 2
    assert p.vector_bits >= 2 * p.f_out + p.R + 2 * p.G + p.H + 1


class Emulated:
    """What a program does with rho, in integers; every truncation is off by up to M units."""

    def __init__(self, p: Precision, rho: Fraction, seed: int) -> None:
        self.p, self._random = p, random.Random(seed)
        raw = round(rho * 2**p.f_rho)
        self.rho, self.x = self._truncated(raw, p.f_rho - p.f_t), 1 << p.f_x
        self.t, self.y = self.rho, self._truncated(raw, p.f_rho - p.f_y)
        self.largest = abs(raw)

    def _truncated(self, z: int, shift: int) -> int:
        return (z >> shift) + self._random.randint(1 - self.p.M, self.p.M - 1)

    def _see(self, *values: int) -> None:
        self.largest = max(self.largest, *map(abs, values))

    def step(self, h: int, *, last: bool) -> None:
        p, shift = self.p, 2 * self.p.f_y + self.p.f_h
        x, t = self.x * h, self.t * h
        self._see(x, t)
        self.x, self.t = self._truncated(x, shift), self._truncated(t, shift + (p.f_t - p.f_x if last else 0))
        self.y = self._truncated(t, shift + p.f_t - p.f_y)

    def newton(self, h: int, shift: int) -> None:
        self._see(self.x * h)
        self.x = self._truncated(self.x * h, shift)
        self._see(self.rho * self.x)  # the gate

    def reciprocal(self) -> Emulated:
        p = self.p
        for i, (a, b, c) in enumerate(steps := p.reciprocal_steps, 1):
            self.step(a * 4**p.f_y - b * 2**p.f_y * self.y + c * self.y**2, last=i == len(steps))
        self.newton(2 * 2**p.f_x - self.t, p.f_x)
        return self

    def inverse_root(self) -> Emulated:
        p = self.p
        for i, (a, b) in enumerate(steps := p.inverse_root_steps, 1):
            self.step(a * 4**p.f_y - b * self.y**2, last=i == len(steps))
        self._see(self.t**2)
        self.newton(3 * 2**p.f_x - self._truncated(self.t**2, p.f_x), p.f_x + 1)
        return self

    def error(self) -> Fraction:
        """How far |rho| x is from 1."""
        return abs(1 - abs(Fraction(self.rho, 2**self.p.f_t)) * Fraction(self.x, 2**self.p.f_x))


def rounding(p: Precision, count: int) -> float:
    """What `count` truncations of x and t, each by less than M units, may leave: x is 2^-3 at least and t 2^-R."""
    return count * p.M * (2.0 ** (FLOOR_BITS - p.f_x) + 2.0 ** (p.R - p.f_t))


seeds = st.integers(0, 2**32)


@given(precisions, st.floats(0, 1), seeds)
def test_reciprocal_converges_everywhere_in_the_range(p: Precision, where: float, seed: int) -> None:
    steps = p.reciprocal_steps
    made = Emulated(p, Fraction(2.0 ** (-p.R * where)), seed).reciprocal()
    assert made.error() <= 2.0 ** -(p.f_inv + 8) + rounding(p, len(steps) + 2)
    assert made.x <= 2 ** (p.R + p.f_x) * 1.01
    assert made.largest < 2 ** (p.scalar_value_bits - 1)


@given(precisions, st.floats(0, 1), st.sampled_from([1, -1]), seeds)
def test_inverse_root_converges_everywhere_in_the_range(p: Precision, where: float, sign: int, seed: int) -> None:
    made = Emulated(p, sign * Fraction(2.0 ** (-p.R * where)), seed).inverse_root()
    assert made.error() <= 2.0 ** -(p.f_inv + 8) + rounding(p, len(p.inverse_root_steps) + 2)
    assert made.x <= 2 ** (p.R + p.f_x) * 1.01
    assert made.largest < 2 ** (p.scalar_value_bits - 1)


@given(precisions, st.sampled_from([0, 1]), seeds)
def test_out_of_range_rho_stays_within_the_scalars(p: Precision, below: int, seed: int) -> None:
    """x is largest for rho = 0, where every step multiplies by its largest factor, or just below it: the gate sees it.

    A step takes y for t, which is off by 2^-(half + 1) at the most; a negative t at least doubles; |h'| <= 4 h there.
    """
    rho, count = Fraction(-below, 2 ** (p.R + BELOW_BITS)), max(len(p.reciprocal_steps), len(p.inverse_root_steps))
    more = math.exp(4 * (count * 2.0 ** -(p.half + 1) + below * 2.0 ** (1 - BELOW_BITS)))
    for made in (Emulated(p, rho, seed).reciprocal(), Emulated(p, rho, seed).inverse_root()):
        assert made.x <= 2 ** (p.x_bits + p.f_x) * more
        assert made.largest < 2 ** (p.scalar_value_bits - 1) * more
        assert made.error() > 2.0**-p.R


@pytest.mark.parametrize("R", [MIN_RANGE, USUAL_RANGE, MAX_RANGE])
@pytest.mark.parametrize("family", [RECIPROCAL, INVERSE_ROOT])
def test_no_step_of_a_range_is_left_out(family: Family, R: int) -> None:
    """Each interval is mapped into the next one, up to 2^-10 of what rounded coefficients do, and none grows."""
    l, top = 2.0**-R, 1.0
    for step in steps(family, R, 28):
        t = np.exp(np.linspace(np.log(l), np.log(top), 20_001))
        mapped = np.array([family.at(step, value) for value in t])
        assert mapped.max() < TOP
        assert mapped[t > 2.0**-FLOOR_BITS].min() > 2.0**-FLOOR_BITS * (1 - 2.0**-7)
        assert mapped.min() > min(family.at(step, l), family.least(step)) * (1 - 1e-9)
        l, top = float(mapped.min()), float(mapped.max())
    assert 1 - l < 2.0**-28
    with_less = steps(family, R, 28)[1:]
    t = 2.0**-R
    for step in with_less:
        t = family.at(step, t)
    assert 1 - t > 2.0**-28


@pytest.mark.parametrize("settings", [{"f_out": 32}, {"f_out": 2}, {"R": MAX_RANGE + 1}, {"M": 1}, {"M": 31}, {"G": 4}])
def test_setting_out_of_range_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(StudyError, match=r" is \d+\."):
        Precision(**({"M": 3} | settings))


def test_ring_that_nothing_was_tested_in_is_refused() -> None:
    with pytest.raises(StudyError, match="vector ring needs 256 bits of 224"):
        Precision(3, 31, 96, G=32, H=24)


def test_explanation_names_every_width() -> None:
    text = Precision(3).explain()
    for word in ("f_out = 31", "R = 40", "G = 16", "f_in = f_out + R + G = 87", "Z_2^160", "Z_2^320", "gate"):
        assert word in text
