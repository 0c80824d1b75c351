"""Attacks that use that noise is regular: products of two noise numbers of one block are zero.

All of them guess first that some samples have no noise, mu of each of f blocks, which holds with probability
(1 - mu t / n)^f, and then solve polynomial equations by linear algebra.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.lpn.decoding import DEGREES, GUESSED_BLOCKS, STRASSEN, Bits, Instance, log2, total

STRASSEN_FACTOR = 5.64


@dataclass(frozen=True)
class Sizes:
    """Of the linear systems of degree 2, 3, ..., for every guess: arrays over (f, mu).

    columns  : monomials of degree 1 to d
    fewer    : monomials in what is unknown when the linear equations have been substituted
    left     : those that the equations do not determine, as the Hilbert series has it; at least 1
    solved   : where none is left
    chance   : of the guess, log2
    unknowns : that are left after it, log2
    free     : that are left when the linear equations have been substituted, log2
    """

    columns: list[Bits]
    fewer: list[Bits]
    left: list[Bits]
    solved: list[NDArray[np.bool_]]
    chance: Bits
    unknowns: Bits
    free: Bits


def sizes(at: Instance, *, large: bool, degrees: int = DEGREES) -> Sizes:
    """H(z) = (1 + (b - mu - 1) z)^f (1 + (b - 1) z)^(t - f) times the equations' part, blocks of b.

    Equations: (1 + z)^-(n - k - 1) over F_2, (1 - z)^(n - k - t) over large fields, where a monomial may also
    have the t - 1 other values of noise. *Ref:* Briaud, Oygarden, EUROCRYPT 2023, sections 4 and 5.
    """
    b, t, checks = at.block, at.t, at.n - at.k
    f = np.arange(t + 1, dtype=np.float64)[:, None]
    mu = np.arange(b, dtype=np.float64)[None, :]
    free = [f * (b - mu - 1) ** j + (t - f) * (b - 1.0) ** j for j in range(1, degrees + 1)]
    odd = [(-1.0) ** j for j in range(1, degrees + 1)]
    if large:
        series = coefficients([x + (checks - t) * sign for x, sign in zip(free, odd, strict=True)])
        monomials = coefficients([x - (t - 1) * sign for x, sign in zip(free, odd, strict=True)])
    else:
        series, monomials = coefficients([x - (checks - 1) for x in free]), coefficients(free)
    # Mod 2 the sum of every block is known, too, and the square of a number is itself.
    u = np.maximum(at.k - f * mu if large else at.k + 1 - f * mu - t, 1.0)
    in_u = coefficients([-u * sign if large else u for sign in odd])
    columns, fewer, left = [], [], []
    solved: list[NDArray[np.bool_]] = []
    first = 2 if large else 1
    for d in range(2, degrees + 1):
        rest = sum(series[first : d + 1])
        columns.append(log2(sum(monomials[1 : d + 1])))
        fewer.append(log2(sum(in_u[1 : d + 1])))
        left.append(log2(rest))
        solved.append((rest < 1) | (series[d] < 1) | (solved[-1] if solved else np.False_))
    possible = f * mu < at.k + 1
    chance = np.where(possible, f * np.log2(1 - mu / b), -np.inf)
    unknowns = log2(np.where(possible, at.k + 1 - f * mu, 1))
    return Sizes(columns, fewer, left, solved, chance, unknowns, log2(u))


def coefficients(powers: list[Bits]) -> list[Bits]:
    """The coefficients of a product of (1 + x_i z)^m_i from the sums of m_i x_i^j, j = 1, 2, ...

    By Newton's identities: factors are never multiplied out, large numbers of which little is left over do not arise.
    """
    made = [np.ones_like(powers[0])]
    for d in range(1, len(powers) + 1):
        terms = ((-1) ** (j - 1) * powers[j - 1] * made[d - j] for j in range(1, d + 1))
        made.append(sum(terms) / d)
    return made


def algebraic(made: Sizes) -> float:
    """Macaulay matrices of the lowest degree that solves the system, by Wiedemann's algorithm.

    *Ref:* Briaud, Oygarden, "A new algebraic approach to the regular syndrome decoding problem and implications for
    PCG constructions", EUROCRYPT 2023.
    """
    costs = (
        np.where(solved, 2 * columns + made.unknowns + np.log2(3) - made.chance, np.inf)
        for columns, solved in zip(made.columns, made.solved, strict=True)
    )
    return min(float(np.min(cost)) for cost in costs)


def substituted(made: Sizes) -> float:
    """The same when the parity checks have been substituted: fewer monomials, and rows that are dense.

    The quotient of the ring is the same, and so are Hilbert series and degree. A row is a monomial times a quadratic
    equation, of u^2 / 2 entries for u unknowns. Our own estimate.
    """
    costs = (
        np.where(solved, 2 * (fewer + made.free) + np.log2(3 / 2) - made.chance, np.inf)
        for fewer, solved in zip(made.fewer, made.solved, strict=True)
    )
    return min(float(np.min(cost)) for cost in costs)


def algebraic_twice(made: Sizes) -> float:
    """AGB 2.0: a smaller guess (f', mu') and one elimination of what it makes linear; then, for every continuation to
    a guess (f, mu) that solves the system, only what was left.

    *Ref:* "AGB 2.0", ePrint 2025/1476, in the variant with two steps.
    """
    best = np.inf
    for columns, left, solved in zip(made.columns, made.left, made.solved, strict=True):
        guesses = np.where(solved, -made.chance, np.inf)
        for axis in (0, 1):  # the cheapest guess with f >= f' and mu >= mu'
            guesses = np.flip(np.minimum.accumulate(np.flip(guesses, axis), axis), axis)
        found = np.maximum(
            columns + np.log2(-np.expm1(np.minimum(-1e-12, (left - columns) * np.log(2)))), 0
        )  # equations
        dense = np.log2(STRASSEN_FACTOR) + STRASSEN * columns
        first = np.minimum(dense, columns + 2 * found - np.log2(np.maximum(found, 1)))
        then = np.log2(STRASSEN_FACTOR) + STRASSEN * np.minimum(left, found)
        best = min(best, float(np.min(total(first - made.chance, then + guesses))))
    return best


def hybrid(at: Instance, *, large: bool) -> float:
    """Guess u or u + 1 samples of each block, and where the noise is in q others; linearise the quadratic equations.

    *Ref:* ePrint 2025/1284, "hybrid" attack on regular syndrome decoding.
    """
    at, best = at.whole(), np.inf
    for q in range(min(GUESSED_BLOCKS, at.t)):
        u, f = np.arange(at.block - 1.0)[:, None], np.arange(at.t - q, dtype=np.float64)
        some = _hybrid_with(at, q, u, f[:: max(1, at.t // 60)], large)  # first some f, then all where it is cheapest
        near = u[np.argsort(some.min(axis=1))[:2]]
        best = min(best, float(np.min(_hybrid_with(at, q, near, f, large))))
    return best


def _hybrid_with(at: Instance, q: int, u: Bits, f: Bits, large: bool) -> Bits:
    n, k, t, b = at.n, at.k, at.t, at.block
    one = 0 if large else 1  # mod 2 a block's sum is known: one unknown and one place less
    chance = np.log2(1 - (u + 1) / b) * f + np.log2(1 - u / b) * (t - q - f)
    unknowns = k - one * t - (u + 1) * f - (t - f - q) * u
    kept = n - k - (n - k) // (b - one) * (b - u - 1 - one)
    gauss = log2(kept * (n - k) * (kept + unknowns))
    quadratic = (t - f - q) * (b - u - 1) * (b - u - 2 * one) / 2 + f * (b - u - 2) * (b - u - 1 - 2 * one) / 2
    w = (b - one) * q
    v = unknowns - w
    if large:
        linear = v + 2 * q + q * v + q * (q - 1) / 2
        enough = quadratic - v * (v + 1) / 2 >= 2.5 * linear
        once = STRASSEN * log2(unknowns * (unknowns + 1) / 2 + unknowns)
        each = total(STRASSEN * log2(2.5 * linear), log2(2.5 * linear * (v + 2 * w + w * v + w * (w - 1) / 2)))
    else:
        enough = v <= np.sqrt(np.maximum(0, 2 * quadratic)) - 2
        once = 4 * log2(v) + 2 * log2(unknowns) - 3 - np.log2(log2(np.maximum(v**2 / 2, 2)))
        each = total(
            log2(1.25 * (2 * v * v * w + v * w * w)), 3 * log2(2.5 * v) - np.log2(log2(np.maximum(2.5 * v, 2)))
        )
    none = (v == 0) & (not large)
    cost = total(gauss, np.where(none, 0, once), np.where(none, 0, each) + q * np.log2(b))
    cost = np.where(unknowns <= 0, gauss, np.where((v >= 0) & (enough | none), cost, np.inf))
    return np.where(n - one * t - f - (t - q) * u > 0, cost - chance, np.inf)
