"""The paper's own programs on plain integers: the same arithmetic, with every choice that truncation has."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction

import pytest
from click.testing import CliRunner

from pdml_spdz.cli.programs import render as render_command
from pdml_spdz.engines.embedded import machine
from pdml_spdz.errors import EngineError
from pdml_spdz.programs.paper import (
    STATISTICAL,
    paper_field_bits,
    powers_of_ten,
    sqrt_steps,
    starts,
    value_bits,
)
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import render
from tests.paper_errors import FIRST_GUESS, division_error, normed_sum_error, sqrt_error

PAPER = (10, 20, 31)
ALL = range(4, 32)
NAMES = ("fixed_point_sqrt", "normed_sum_paper")

Truncate = Callable[[int, int], int]


def down(x: int, m: int) -> int:
    return x >> m


def up(x: int, m: int) -> int:
    return -(-x >> m)


def either(seed: int) -> Truncate:
    generator = random.Random(seed)
    return lambda x, m: generator.choice((down, up))(x, m)


TRUNCATIONS = {"down": down, "up": up, "either": either(1)}


def divide(a: int, b: int, f: int, truncate: Truncate) -> int:
    """MP-SPDZ's FPDiv(a, b, k, f) for b >= 0 (Compiler/library.py)."""
    k = value_bits(f)
    g = max(k // 2 + 1, f)
    v = 2 ** (k - b.bit_length()) if b else 0
    w = truncate((int(2.9142 * 2**k) - 2 * b * v) * v, 2 * (k - g))
    x = 4**g - b * w
    y = truncate(a * w, g)
    for _ in range(math.ceil(math.log2(k / 3.5)) - 1):
        y = truncate(y * (4**g + x), 2 * g)
        x = truncate(x * x, 2 * g)
    return truncate(y * (4**g + x), 3 * g - f)


def start(S: int, f: int) -> int:
    return [0, *starts(f)][bisect_right(powers_of_ten(f), S)]


def square_root(S: int, f: int, truncate: Truncate) -> int:
    x = start(S, f)
    for _ in range(sqrt_steps(f)):
        x = truncate(x + divide(S, x, f, truncate), 1)
    return x


def root_is_off_by(S: int, f: int, truncate: Truncate) -> float:
    # The root in ulp is sqrt(S 2^f); isqrt keeps ten bits of it behind the point.
    return abs(square_root(S, f, truncate) - math.isqrt(S << f + 20) / 2**10)


def whole_range(f: int) -> list[int]:
    """Numbers from one ulp to the largest: small ones, the edges of decades and powers of two, others in between."""
    top = 2 ** (value_bits(f) - 1) - 1
    edges = [*powers_of_ten(f), *(2**i for i in range(top.bit_length())), top]
    generator = random.Random(f)
    between = [int(2 ** generator.uniform(0, top.bit_length())) for _ in range(1000)]
    near = {edge + i for edge in edges for i in (-2, -1, 0, 1, 2)}
    return sorted(S for S in near.union(range(1, 300), between) if 1 <= S <= top)


@pytest.mark.parametrize("f", ALL)
def test_powers_of_ten_are_where_the_decades_begin(f: int) -> None:
    powers, ten = powers_of_ten(f), Fraction(10)
    assert powers[0] == 1
    assert len(powers) == len(starts(f))
    zero = powers.index(2**f)  # 10^0
    for S in whole_range(f):
        j = bisect_right(powers, S) - 1 - zero
        assert ten**j <= Fraction(S, 2**f) < ten ** (j + 1)


@pytest.mark.parametrize("f", ALL)
def test_start_is_between_three_fifths_and_twice_the_root(f: int) -> None:
    for S in whole_range(f):
        root = math.sqrt(S * 2**f)
        assert 0.6 * root - 0.5 <= start(S, f) <= 2 * root + 0.5


@pytest.mark.parametrize("f", ALL)
def test_steps_are_enough_and_not_one_too_many(f: int) -> None:
    # In exact arithmetic, from the worst start, for the largest root of the format.
    root = 2.0 ** ((3 * f - 1) / 2)
    e = Fraction(1)
    errors = [1.0]
    for _ in range(sqrt_steps(f)):
        e = e * e / (2 * (1 + e))
        errors.append(float(e))
    assert errors[-1] * root <= 0.25 < errors[-2] * root


@pytest.mark.parametrize("truncate", TRUNCATIONS.values(), ids=TRUNCATIONS)
@pytest.mark.parametrize("f", PAPER)
def test_square_root_over_the_whole_range(f: int, truncate: Truncate) -> None:
    bound = sqrt_error(f)
    assert [S for S in whole_range(f) if root_is_off_by(S, f, truncate) > bound] == []


@pytest.mark.parametrize("truncate", TRUNCATIONS.values(), ids=TRUNCATIONS)
@pytest.mark.parametrize("f", [4, 5, 6])
def test_square_root_of_every_number_of_a_small_format(f: int, truncate: Truncate) -> None:
    assert max(root_is_off_by(S, f, truncate) for S in range(2 ** (2 * f - 1))) <= sqrt_error(f)


@pytest.mark.parametrize("truncate", TRUNCATIONS.values(), ids=TRUNCATIONS)
@pytest.mark.parametrize("f", ALL)
def test_square_root_of_zero_is_zero(f: int, truncate: Truncate) -> None:
    assert square_root(0, f, truncate) == 0


@pytest.mark.parametrize("truncate", TRUNCATIONS.values(), ids=TRUNCATIONS)
@pytest.mark.parametrize("f", PAPER)
def test_normed_sum_is_within_its_bound(f: int, truncate: Truncate) -> None:
    d, generator = 8, random.Random(f)
    for norm in (1.0, 0.5, 0.2, 0.13):
        s = [generator.gauss(0, 1) for _ in range(d)]
        s = [int(x * norm / math.hypot(*s) * 2**f) for x in s]
        n = square_root(sum(truncate(x * x, f) for x in s), f, truncate)
        true = math.hypot(*s)
        bound = normed_sum_error(f, d, true / 2**f)
        assert math.isfinite(bound)
        for x in s:
            assert abs(divide(x, n, f, truncate) - x / true * 2**f) <= bound


def test_normed_sum_of_vanishing_squares_has_no_bound() -> None:
    assert normed_sum_error(31, 8, 2.0**-14) == math.inf
    assert normed_sum_error(31, 8, 2.0**-12) < math.inf


@pytest.mark.parametrize("f", ALL)
def test_bounds_are_those_of_the_templates(f: int) -> None:
    assert division_error(f) < 4
    assert sqrt_error(f) < 3
    # r + 4 ulp, r to first order
    d, norm = 8, 0.5
    if f >= 20:
        assert normed_sum_error(f, d, norm) < (d / 2 / norm**2 + 3 / norm) + 4


@pytest.mark.parametrize("f", ALL)
def test_prime_fits_what_mp_spdz_is_built_for(f: int) -> None:
    assert paper_field_bits(Precision(3, f)) == 4 * f + 44 <= 256


@pytest.mark.parametrize("f", PAPER)
def test_masks_in_a_division_cover_their_values(f: int) -> None:
    k = value_bits(f)
    g = max(k // 2 + 1, f)
    # x, at 2 g fraction bits, is squared and then masked as a signed number of 2 k bits.
    largest = 2 * 2.0 ** ((3 * f - 1) / 2)
    x = FIRST_GUESS + (largest + 4) / 4**g
    assert 2 * math.log2(x) + 4 * g <= 2 * k - 1
    assert max(2 * k + 1, k - f + 3 * g) + STATISTICAL < paper_field_bits(Precision(3, f))


@pytest.mark.parametrize("name", NAMES)
def test_embedded_engine_names_what_it_does_not_offer(name: str) -> None:
    program = render(name, Precision(3), 8, 1)
    line = 1 + program.text.splitlines().index("sfix.set_precision(F, K)")
    with pytest.raises(EngineError, match=rf"{name}\.mpc, line {line}: name 'sfix' is not defined") as caught:
        machine.plan(program)
    assert "run this program on the engine mp-spdz" in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_command_renders_the_program(name: str) -> None:
    result = CliRunner().invoke(render_command, [name, "--dim", "5", "--bits", "20"])
    assert result.exit_code == 0
    assert result.output == render(name, Precision(3, 20), 5, 1).text
