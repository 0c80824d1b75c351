"""The bit budget."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import F_G, FULL_G, MAX_RANGE, SIGMA, Precision
from pdml_spdz.study.checks import USUAL_RANGE, WIDE_RANGE

precisions = st.builds(
    Precision,
    M=st.integers(2, 30),
    f_out=st.integers(4, 31),
    R=st.integers(4, MAX_RANGE),
    G=st.integers(8, 20),  # more may not fit into the widest ring
    H=st.integers(4, 24),
    f_g=st.sampled_from([F_G, FULL_G]),
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


@given(precisions, st.floats(0, 1))
def test_reciprocal_converges_everywhere_in_the_range(p: Precision, where: float) -> None:
    rho = 2.0 ** (-p.R * where)
    t = rho
    grow, polish = p.reciprocal_steps
    largest = x = 1.0
    for _ in range(grow):
        x, t = x * (56 - 49 * t) / 16, t * (56 - 49 * t) / 16
        largest = max(largest, t)
    for _ in range(polish):
        x, t = x * (2 - t), t * (2 - t)
    assert largest <= 1.0 + 1e-12
    assert abs(1 - t) <= max(2.0 ** -(p.f_inv + 8), 1e-15 * (grow + polish))
    assert x <= 2.0 ** (p.R + 6)


@given(precisions, st.floats(0, 1), st.sampled_from([1, -1]))
def test_inverse_root_converges_everywhere_in_the_range(p: Precision, where: float, sign: int) -> None:
    rho = sign * 2.0 ** (-p.R * where)
    t, x = rho, 1.0
    grow, polish = p.inverse_root_steps
    for _ in range(grow):
        h = (36 - 27 * t * t) / 16
        x, t = x * h, t * h
        assert abs(t) <= 1.0 + 1e-12
    for _ in range(polish):
        h = (3 - t * t) / 2
        x, t = x * h, t * h
    assert abs(sign - t) <= max(2.0 ** -(p.f_inv + 8), 1e-15 * (grow + polish))
    assert x <= 2.0 ** (p.R + 6)


@given(precisions)
def test_out_of_range_rho_stays_within_the_scalars(p: Precision) -> None:
    # x is largest for rho = 0, where every step multiplies by its largest factor; before its shift a step has 16 x h.
    for (grow, polish), fastest, newton in ((p.reciprocal_steps, 3.5, 2.0), (p.inverse_root_steps, 2.25, 1.5)):
        x = Fraction(fastest) ** grow * Fraction(newton) ** polish
        assert x <= 2**p.x_bits
        assert 16 * x * 2 ** (p.f_x + p.f_t) < 2**p.scalar_value_bits


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
