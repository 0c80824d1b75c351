"""How far off the paper's programs may be, by the numbers of `pdml_spdz.programs.paper`."""

from __future__ import annotations

import math

from pdml_spdz.programs.paper import _division_fraction, _largest_root, _step, sqrt_steps, value_bits

FIRST_GUESS = 0.0858  # |1 - b w| of the linear w that a division starts from: (2.9142 - 2 c) c for c in [1/2, 1]


def division_error(f: int) -> float:
    """How far off, in ulp, MP-SPDZ's a / b (Goldschmidt) is for b up to twice the largest root, |a/b| up to the same.

    w = (1 - e) / b is corrected to a w (1 + e) (1 + e^2) (1 + e^4) ...; what is left is |e|^(2^theta). Each product is
    truncated at g fraction bits, the last one at f; the powers of e are off by less than 2 units at 2 g.
    """
    k, g = value_bits(f), _division_fraction(f)
    theta = math.ceil(math.log2(k / 3.5))
    largest = 2 * _largest_root(f)
    e = FIRST_GUESS + math.ldexp(largest + 4, -2 * g)  # w itself is truncated, and the constant in it
    left = largest * math.pow(e, 2**theta)
    stray = math.ldexp(2 * largest, -f - g)
    error = 1.0
    for _ in range(theta - 1):
        error, e = error * (1 + e) + stray + 1, e * e
    return math.ldexp(error * (1 + e) + stray, f - g) + left + 1


def sqrt_error(f: int) -> float:
    """How far off, in ulp, the square root of any number of the format is.

    A step adds half a division's error and the half ulp of halving. Relative to the root all errors shrink as the root
    grows: what a root r1 allows, times r2, holds for every root in [r1, r2].
    """
    noise = division_error(f) / 2 + 0.5
    finer = math.pow(2, 1 / 16)
    worst, r = 0.0, math.sqrt(math.ldexp(1.0, f))  # the root of one ulp
    while r <= _largest_root(f):
        low, high = -0.4 - 0.5 / r, 1 + 0.5 / r  # the start, rounded
        for _ in range(sqrt_steps(f)):
            low, high = -noise / r, max(_step(low), _step(high)) + noise / r
        r *= finer
        worst = max(worst, -low * r, high * r)
    return worst


def normed_sum_error(f: int, d: int, norm: float) -> float:
    """How far off, in ulp, each number of u = s/||s|| is for s of length d and norm `norm`; infinite if s is too small.

    Each of d squares is truncated by less than an ulp, the root and the division are off by their own errors.
    """
    square = math.ldexp(norm, f) * norm - d
    least = math.sqrt(math.ldexp(max(square, 0.0), f)) - sqrt_error(f)
    if least < 1:
        return math.inf
    return math.ldexp(math.ldexp(norm, f) / least - 1, f) + division_error(f)
