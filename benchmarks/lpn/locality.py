"""What it is worth to an attacker that a row of A has ten ones only. Our own estimate: we know of no published one.

1. Leave out places of r, and with them all rows that touch them. A part of s places keeps m rows; the fewer places, the
   fewer samples without noise have to be guessed. With m >= s the part can be solved for alone; the rest of r is
   then easy, for rows with one place outside the part are samples of one unknown.
2. How large m can be for a part of s places: in a random code there are, on average, C(k, s) P[Bin(n, p) >= m] parts
   with m rows or more, p being the chance that ten different places lie in the part. Where this is below 1, take it
   that there is none (first moment). So the part is the best that exists, whether or not anyone can find it;
   `found_part` looks for one and finds less.
3. The part is attacked in two ways, and all s are tried:
   guessing        s of its m rows, as many of each block, and among them p noisy ones that are found with two lists
                   whose members agree in m - s places at the most (as by Stern and Dumer);
   algebra         as on all of A (`algebraic`), but with m / t rows in a block, and without the equations mod 2
                   that a whole block gives: mu rows of each block are guessed.
   The system of a part is sparse: a solution costs 20 s^2 (Wiedemann).

Not counted: finding the part; that its rows are not spread evenly over the blocks. That sums of few rows vanish (even
covers of the code) is no help here: those that Kikuchi matrices of level l can use need n / k of order (k / l)^4, so
that l is more than k / 2 (Guruswami, Kothari, Manohar, STOC 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lpn.algebraic import coefficients
from benchmarks.lpn.decoding import DEGREES, Bits, Instance, binomial, log2, total

SPARSE = 20  # operations of Wiedemann's algorithm for a matrix with ten ones in a row, in squares of its size
PARTS = 400  # sizes of parts that are tried


def rows_of_parts(at: Instance, ones: int, s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most rows that a part of s places has (step 2), by bisection."""
    p = np.exp2(sum(np.log2((s - i) / (at.k - i)) for i in range(ones)))
    low, high = at.n * p, np.full_like(s, at.n)
    parts = binomial(at.k, s)
    for _ in range(60):
        m = (low + high) / 2
        there = parts - at.n * _divergence(m / at.n, p) >= 0
        low, high = np.where(there, m, low), np.where(there, high, m)
    return low


def _divergence(a: Any, p: Any) -> Bits:
    """P[Bin(n, p) >= a n] <= 2^(-n D(a, p)), a >= p."""
    a, p = np.clip(a, p, 1 - 1e-15), np.minimum(p, 1 - 1e-15)
    return np.asarray(a * np.log2(a / p) + (1 - a) * np.log2((1 - a) / (1 - p)))


def smallest_part(at: Instance, ones: int) -> int:
    """Places of the smallest part that may have as many rows."""
    s = np.arange(ones, at.k + 1, dtype=np.float64)
    return int(s[np.argmax(rows_of_parts(at, ones, s) >= s)])


def guesses(at: Instance, samples: Any) -> Bits:
    """log2 of how many times one must guess that as many samples have no noise, as many of each block."""
    return np.asarray(-at.t * np.log2(1 - samples / at.n))


def locality(at: Instance, ones: int) -> float:
    """The cheaper of both attacks on the best part (step 3)."""
    s = np.linspace(smallest_part(at, ones), at.k, PARTS).round()
    m = rows_of_parts(at, ones, s)
    return float(min(np.min(_guessing(at, s, m)), np.min(_algebra(at, s, m))))


def _guessing(at: Instance, s: NDArray[np.float64], m: NDArray[np.float64]) -> Bits:
    p = np.arange(0, 60, 2.0)[:, None]
    share = s / at.n
    hit = binomial(at.t, p) + p * np.log2(share) + (at.t - p) * np.log2(1 - share)
    hit += 2 * binomial(at.t // 2, p // 2) - binomial(at.t // 2 * 2, p)  # half of them in each half of the blocks
    half = binomial(at.t // 2, p // 2) + p / 2 * np.log2(s / at.t)
    agreed = np.minimum(m - s, 2 * half)
    return np.asarray(total(np.log2(SPARSE * s**2), 1 + half, 2 * half - agreed) - hit)


def _algebra(at: Instance, s: NDArray[np.float64], m: NDArray[np.float64]) -> Bits:
    rows = m / at.t
    mu = np.linspace(0, 1, PARTS)[:, None] * np.minimum(rows, s / at.t)
    free = [at.t * (rows - mu) ** j for j in range(1, DEGREES + 1)]
    series, monomials = coefficients([x - (m - s) for x in free]), coefficients(free)
    best = np.full(mu.shape, np.inf)
    for d in range(2, DEGREES + 1):
        solved = (series[d] < 1) | (sum(series[1 : d + 1]) < 1)
        cost = 2 * log2(sum(monomials[1 : d + 1])) + log2(3 * (s - at.t * mu))
        best = np.minimum(best, np.where(solved, total(np.log2(SPARSE * s**2), cost), np.inf))
    return best + guesses(at, at.t * mu)


def found_part(places: NDArray[np.integer[Any]], secret: int) -> int:
    """Places of a part with as many rows that is found in a given code: leave out the places with the fewest rows, one
    in two hundred at a time, again and again. places : (n, ones)"""
    part, rows = np.ones(secret, np.bool_), np.ones(len(places), np.bool_)
    while True:
        degree = np.bincount(places[rows].reshape(-1), minlength=secret)
        inside = np.flatnonzero(part)
        out = inside[np.argsort(degree[inside], kind="stable")[: max(1, len(inside) // 200)]]
        smaller = part.copy()
        smaller[out] = False
        rows = smaller[places].all(axis=1)
        if rows.sum() < smaller.sum():
            return int(part.sum())
        part = smaller
