"""The numbers of the paper's own programs, fixed_point_sqrt and normed_sum_paper: format, square root, error bounds.

A number is an integer of k = 2 f bits, f of them behind the point: sfix.set_precision(f, 2 f). Errors are counted in
units of the last place, ulp = 2^-f. Truncation is MP-SPDZ's probabilistic one: one of the two nearest integers.

The width k is not free. Inside a division the values that are squared have 2 g fraction bits, g = max(k/2 + 1, f), and
are masked as if 2 k bits were enough for them: below k = 2 f - 3 they are not, and would be opened nearly bare.

In a ring (semi2k) the same programs need 4 f + 3 bits and no room for masks: -R 128 holds f = 31.
"""

from __future__ import annotations

import math

from pdml_spdz.programs.precision import Precision

STATISTICAL = 40  # MP-SPDZ's own security parameter, in bits


def value_bits(f: int) -> int:
    """k: the largest number is 2^(f-1), the smallest 2^-f, so that a number and its root are well inside."""
    return 2 * f


def paper_field_bits(precision: Precision) -> int:
    """The prime that both programs need. The longest value is the last product of a division: a quotient of k - f bits
    before the point and 3 g behind it; its mask is STATISTICAL bits longer, and one bit keeps the sum from wrapping.
    """
    f, k = precision.f_out, value_bits(precision.f_out)
    return k - f + 3 * _division_fraction(f) + STATISTICAL + 1


def powers_of_ten(f: int) -> list[int]:
    """Where the decades begin: 10^j as an integer, rounded up, from the last 10^j within one ulp to the largest."""
    return [_ceil(j, f) for j in _decades(f)]


def starts(f: int) -> list[int]:
    """Where the root of S = a 10^(2n) starts, for each decade: at 2 * 10^n (a < 10) or 6 * 10^n (a >= 10)."""
    return [_nearest(6 if j % 2 else 2, j // 2, f) for j in _decades(f)]


def sqrt_steps(f: int) -> int:
    """Babylonian steps after which the largest root is exact to a quarter of an ulp, if nothing is rounded.

    The start is between 0.6 and 2 times the root. With x = (1 + e) root a step makes e^2 / (2 (1 + e)) of e, which is
    1/4 at most after the first step, and from e = 1 at the worst.
    """
    e, steps = 1.0, 0
    while e * _largest_root(f) > 0.25:
        e, steps = _step(e), steps + 1
    return steps


def _division_fraction(f: int) -> int:
    """g: fraction bits inside a division."""
    return max(value_bits(f) // 2 + 1, f)


def _largest_root(f: int) -> float:
    """The root of the largest number, in ulp."""
    return math.sqrt(math.ldexp(1.0, value_bits(f) - 1 + f))


def _step(e: float) -> float:
    """What a Babylonian step makes of the relative error e."""
    return e * e / (2 * (1 + e))


def _decades(f: int) -> range:
    """The powers of ten that the format tells apart, the first one within one ulp."""
    first, last = 0, 0
    while _ceil(first, f) > 1:
        first -= 1
    while _ceil(last + 1, f) < 2 ** (value_bits(f) - 1):
        last += 1
    return range(first, last + 1)


def _ceil(j: int, f: int) -> int:
    """10^j with f fraction bits, rounded up."""
    numerator, denominator = _power(j)
    return -(-(numerator << f) // denominator)


def _nearest(a: int, n: int, f: int) -> int:
    """a * 10^n with f fraction bits, rounded."""
    numerator, denominator = _power(n)
    return ((a * numerator << f + 1) + denominator) // (2 * denominator)


def _power(j: int) -> tuple[int, int]:
    """10^j as a fraction."""
    return int(10 ** max(j, 0)), int(10 ** max(-j, 0))
