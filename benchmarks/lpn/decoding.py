"""What the known attacks on LPN with regular noise cost, as log2 of operations.

An instance has n samples, k unknowns and t noisy samples, one in each block of n/t. Everything is computed with
logarithms and over whole grids of an attack's own parameters. Formulas are those of the papers named at each function;
where a paper leaves a choice, the one that favours the attacker. Over Z_2^w, noise that is always odd makes the problem
mod 2 the binary one with all its noise; where an attack has a form for large fields, the cheaper of both counts, as if
the ring were a field of 2^w elements.

*Ref:* Liu, Wang, Yang, Yu, "The hardness of LPN over any integer ring and field for PCG applications", EUROCRYPT 2024.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Bits: TypeAlias = "NDArray[np.float64]"  # logarithms to base 2

STRASSEN = 2.8
DEGREES = 9  # of the algebraic attacks: published estimates end at 4, which is too early for as many bits as these
ENUMERATED = 40  # noisy samples in the lists of a decoder, at the most
GUESSED_BLOCKS = 40  # wholly guessed by the hybrid attack, at the most: each costs log2(n/t) bits


@dataclass(frozen=True)
class Instance:
    n: int
    k: int
    t: int

    @property
    def block(self) -> int:
        return self.n // self.t

    def whole(self) -> Instance:
        """With t blocks of equal size, as the attacks on regular noise take it: n - k, the parity checks, stays."""
        n = self.block * self.t
        return Instance(n, self.k - (self.n - n), self.t)

    def odd(self) -> Instance:
        """The numbers of a block add up to r's part and an odd number: mod 2, t equations without noise."""
        return Instance(self.n - self.t, self.k - self.t, self.t)


def binomial(n: Any, k: Any) -> Bits:
    """log2 of n over k, -inf where there is none."""
    n, k = np.asarray(n, np.float64), np.asarray(k, np.float64)
    possible = (k >= 0) & (n >= k)
    n, k = np.where(possible, n, 0), np.where(possible, k, 0)
    bits = (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2)
    return np.where(possible, bits, -np.inf)


def total(*terms: Any) -> Bits:
    """log2 of a sum of powers of two."""
    return np.asarray(reduce(np.logaddexp2, terms))


def log2(x: Any) -> Bits:
    """log2, of at least 1."""
    return np.asarray(np.log2(np.maximum(x, 1.0)))


# --- decoding ---------------------------------------------------------------------------------------------------------


def pooled_gauss(at: Instance) -> float:
    """k samples without noise, guessed, and a system of linear equations. *Ref:* Liu et al., EUROCRYPT 2024, 5.1."""
    hit = binomial(at.n - at.k, at.t) - binomial(at.n, at.t)
    return float(STRASSEN * log2(min(at.k, at.n - at.k)) - hit)


def stern_dumer(at: Instance, field: float = 1) -> float:
    """Information set decoding with two lists of p/2 noisy samples that agree in l places; field : log2 of its size.

    *Ref:* Finiasz, Sendrier, ASIACRYPT 2009; Liu et al., EUROCRYPT 2024, 5.2.
    """
    n, k, t = at.n, at.k, at.t
    most = max(1, min(n - k - 8, 2000))
    p = np.arange(0, min(t // 2, ENUMERATED), 2)[:, None]
    l = (np.arange(most) + k) // 2 * 2 - k + 2  # k + l is even
    units = np.log2(2.0**field - 1) if field < 64 else field
    half = binomial((k + l) // 2, p // 2) + p / 2 * units
    pairs = 2 * half - l * field
    gauss = log2((n - k - l) * n / log2(n - k - l))
    once = log2(n) + total(gauss, 1 + half, 1 + pairs)
    hit = binomial(n - k - l, t - p) - binomial(n, t) + l * field - p * units + pairs
    return float(np.min(np.where(hit < 0, once - hit, np.inf)))


def bjmm(at: Instance) -> float:
    """The same with lists of lists, whose members overlap in e2 and e1 places.

    *Ref:* Becker, Joux, May, Meurer, EUROCRYPT 2012; Hamdaoui, Sendrier, ePrint 2013/162 (r1, r2).
    """
    n, k, t = at.n, at.k, at.t
    l = (np.arange(min((n - k - 2) // 8, 400)) + k) // 2 * 2 - k + 2
    gauss, best = log2((n - k - l) * n / log2(n - k - l)), np.inf
    for p2, e2, e1 in _overlaps(t):
        p1, p = 2 * (p2 - e2), 4 * (p2 - e2) - 2 * e1
        s3 = binomial((k + l) // 2, p2 // 2)
        mu2 = binomial(p2, e2) + binomial(k + l - p2, p2 - e2) - binomial(k + l, p2)
        mu1 = binomial(p1, e1) + binomial(k + l - p1, p1 - e1) - binomial(k + l, p1)
        r2 = np.clip(np.floor(mu2 + 4 * s3 - binomial(k + l, p1)), 0, l - 1)
        r1 = np.clip(np.floor(mu1 + 2 * binomial(k + l, p1) - binomial(k + l, p)) - r2, 0, l - r2 - 1)
        c3 = 2 * s3 - r2
        c2 = 2 * c3 - r1
        c1 = 2 * np.minimum(mu2 + c2, binomial(k + l, p1) - r1 - r2) - l + r1 + r2
        s0 = np.minimum(mu1 + c1, binomial(k + l, p) - l)
        once = log2(n) + total(gauss, 3 + s3, 2 + c3, 1 + c2, 1 + c1)
        hit = binomial(n - k - l, t - p) + l + s0 - binomial(n, t)
        best = min(best, float(np.min(np.where(hit < 0, once - hit, np.inf))))
    return best


def _overlaps(t: int) -> Iterator[tuple[int, int, int]]:
    for p2 in range(2, 14, 2):
        for e2 in range(p2):
            p1 = 2 * (p2 - e2)
            for e1 in range(max(0, p1 - t // 2), p1):
                yield p2, e2, e1


def regular_decoding(at: Instance) -> float:
    """Decoders that take the same number of samples of every block: permutation, enumeration, representation.

    *Ref:* Esser, Santini, "Not just regular decoding", CRYPTO 2024.
    """
    at = at.whole()
    k, hit = at.k - at.t, -at.t * np.log2(1 - (at.k - at.t) / at.n)
    guessed = hit + min(STRASSEN * float(log2(k)), float(2 * log2(at.n - k) + log2(at.n)))
    return min(float(guessed), _enumeration(at), _representation(at))


def _window(at: Instance, p: NDArray[np.int64], l: Any) -> tuple[Any, Bits]:
    """Samples that are taken of each block (of which there are enough), and the chance of p noisy ones, half and
    half."""
    v = np.minimum((at.k - at.t + l) / at.t, at.block - 1e-9)
    share = v / at.block
    ways = binomial(at.t // 2, p // 2) + binomial(-(-at.t // 2), p // 2)
    return v, ways + np.log2(share) * p + np.log2(1 - share) * (at.t - p)


def _enumeration(at: Instance) -> float:
    k = at.k - at.t
    p, l = np.arange(0, min(ENUMERATED, at.t), 2)[:, None], np.arange(1, min(1000, at.n - k))
    v, hit = _window(at, p, l)
    size = binomial(round(at.t / 2), p // 2) + np.log2(v) * p / 2
    once = log2(at.n) + np.maximum(2 * log2(at.n - k), np.maximum(1 + size, 2 * size - l))
    return float(np.min(once - hit))


def _representation(at: Instance) -> float:
    k, best = at.k - at.t, np.inf
    p, l = np.arange(0, min(ENUMERATED, at.t), 4)[:, None], np.arange(1, min(1000, at.n - k))
    v, hit = _window(at, p, l)
    for extra in range(0, 32, 2):
        weight = p // 2 + extra
        ways = np.floor(2 * (binomial(p // 2, p // 4) + binomial(at.t / 2 - p / 2, extra // 2)))
        size = binomial(round(at.t / 2), weight // 2) + np.log2(v) * weight / 2
        possible = (ways <= l) & np.isfinite(size + ways)
        size, ways = np.where(possible, size, 0), np.where(possible, ways, 0)
        first = 2 * size - ways
        lists = np.maximum(np.maximum(2 + size, 1 + first), 2 * first - (l - ways))
        once = log2(at.n) + np.maximum(2 * log2(at.n - k), lists)
        best = min(best, float(np.min(np.where(possible, once - hit, np.inf))))
    return best


def statistical_decoding(at: Instance, field: float = 1) -> float:
    """Parity checks of low weight, version 2.0: as many unknowns as Gauss costs bits are left to a transform.

    *Ref:* Carrier, Debris-Alazard, Meyer-Hilfiger, Tillich, ASIACRYPT 2022; Liu et al., EUROCRYPT 2024, 5.3.
    """
    left = at.k - int(pooled_gauss(at) / field)
    if field == 1:
        return float(log2(left + 1) + 2 * at.t * np.log2((at.n - at.t + 1) / (at.n - left - at.t)))
    return float(log2(left + 1) + 2 * (binomial(at.n, at.t) - binomial(at.n - left - 1, at.t)))
