"""Between numbers in digits of 16 bits and residues mod many primes, by small matrix products on float64.

A number is a row of digits, the lowest first: uint16, shape (n, k), in memory the little-endian bytes of the number.
Residues are balanced and have the primes as first axis. Every sum stays below 2^53.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.ntt import TERMS, Array, balanced, reduce_all
from pdml_spdz.numerics import ring

Digits: TypeAlias = "NDArray[np.uint16]"  # shape (n, k)

DIGIT = 16
PIECE = 1 << 12  # numbers at a time, for the cache
GUARD = 48  # bits that `scaled` computes below the last one that it keeps


def digits_of(a: NDArray[Any], bits: int) -> Digits:
    """The low `bits` bits of numbers of numerics/ring.py, shape (n, limbs), or of int64, shape (n,)."""
    limbs = np.ascontiguousarray(a).reshape(len(a), -1)
    return limbs.view("<u2")[:, : bits // DIGIT]


def to_ring(digits: Digits, w: int) -> ring.Vector:
    """The numbers of numerics/ring.py, mod 2^w, that have these digits."""
    out = np.zeros((len(digits), 4 * ring.limbs(w)), "<u2")
    out[:, : digits.shape[1]] = digits
    return out.view(ring.WORD)


def carry(sums: Array) -> Digits:
    """sum_j 2^(16 j) sums[:, j] mod 2^(16 k): sums are integers below 2^53, of any sign."""
    return np.ascontiguousarray(_carried(sums.T).T)


def _carried(sums: Array) -> Digits:
    """The same with digits as first axis."""
    columns = sums.astype(np.int64, order="C")
    for j in range(len(columns) - 1):
        columns[j + 1] += columns[j] >> DIGIT
    return columns.astype(np.uint16)


def residues(digits: Digits, moduli: tuple[int, ...], *, signed: bool = False) -> Array:
    """Residues of numbers in digits, shape (primes, n); signed: read as two's complement."""
    values = digits.astype(np.float64)
    if signed:
        values[:, -1] = np.ascontiguousarray(digits[:, -1]).view(np.int16)
    return reduce_all(_weights(moduli, digits.shape[1]) @ values.T, moduli)


@functools.lru_cache
def _weights(moduli: tuple[int, ...], count: int) -> Array:
    """2^(16 j) mod each prime."""
    return np.array([[balanced(1 << DIGIT * j, p) for j in range(count)] for p in moduli], np.float64)


def _rows(values: list[int], count: int) -> Array:
    """Digits of some numbers, mod 2^(16 count)."""
    mask = (1 << DIGIT * count) - 1
    return np.array([[(v & mask) >> DIGIT * j & 0xFFFF for j in range(count)] for v in values], np.float64)


@functools.lru_cache
def _parts(moduli: tuple[int, ...]) -> tuple[int, tuple[int, ...], Array]:
    """q; q / p; (q / p)^-1 mod p, as a column."""
    q = modulus(moduli)
    cofactors = tuple(q // p for p in moduli)
    inverses = [[balanced(pow(part, -1, p), p)] for part, p in zip(cofactors, moduli, strict=True)]
    return q, cofactors, np.array(inverses, np.float64)


def modulus(moduli: tuple[int, ...]) -> int:
    """q; of more sets of primes than `_parts` are wanted of: parameters are chosen by it."""
    return prod(moduli)


@functools.lru_cache
def _scaling(moduli: tuple[int, ...], bits: int) -> Array:
    return _rows([((2 << bits + GUARD) // p + 1) // 2 for p in moduli], (bits + GUARD) // DIGIT)


def scaled(x: Array, moduli: tuple[int, ...], bits: int) -> Digits:
    """round(2^bits x / q) mod 2^bits of residues x, shape (primes, n): switching the modulus from q to 2^bits.

    x / q = sum_p y_p / p mod 1 with y_p = x (q / p)^-1 mod p, and 1 / p is rounded GUARD bits below the last one kept:
    what is computed is off by less than 1/2 + primes 2^(24 - 1 - GUARD) < 1/2 + 2^-19.
    """
    out = np.empty((x.shape[1], bits // DIGIT), np.uint16)
    for first in range(0, len(out), PIECE):
        some = slice(first, first + PIECE)
        y = reduce_all(x[:, some] * _parts(moduli)[2], moduli)
        sums = _scaling(moduli, bits).T @ y
        sums[GUARD // DIGIT - 1] += 1 << (DIGIT - 1)  # half of the last bit kept
        out[some] = _carried(sums)[GUARD // DIGIT :].T
    return out


@functools.lru_cache
def _lifting(moduli: tuple[int, ...], bits: int) -> Array:
    q, cofactors, _ = _parts(moduli)
    return _rows([*cofactors, -q], bits // DIGIT)


def lifted(x: Array, moduli: tuple[int, ...], bits: int) -> Digits:
    """The integers of these residues, mod 2^bits. They are below q/2 - q 2^-40 in size.

    x = sum_p y_p q / p - k q with the integer k for which it is that small: k = round(sum_p y_p / p).
    """
    y = reduce_all(x * _parts(moduli)[2], moduli)
    k = np.rint((1 / np.array(moduli, np.float64)) @ y)
    return carry(np.concatenate([y, k[None]]).T @ _lifting(moduli, bits))


@functools.lru_cache
def _conversion(moduli: tuple[int, ...], others: tuple[int, ...]) -> Array:
    if len(moduli) >= TERMS:
        raise ValueError(f"a conversion from {len(moduli)} primes: wanted below {TERMS}, for sums below 2^53")
    q, cofactors, _ = _parts(moduli)
    return np.array([[balanced(part, p) for part in (*cofactors, -q)] for p in others], np.float64)


def converted(x: Array, moduli: tuple[int, ...], others: tuple[int, ...]) -> Array:
    """The integers of these residues, of size q/2 at most, as residues mod other primes.

    Where one is within q 2^-40 of q/2, it may be taken for the one on the other side of zero.
    """
    y = reduce_all(x * _parts(moduli)[2], moduli)
    k = np.rint((1 / np.array(moduli, np.float64)) @ y)
    return reduce_all(_conversion(moduli, others) @ np.concatenate([y, k[None]]), others)


def divided(x: Array, dropped: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """round(x / D) mod every kept prime, of x mod the dropped primes, whose product is D, and then mod the kept ones.

    The rounding is off by 1/2 + 2^-40 at most.
    """
    rest = converted(x[: len(dropped)], dropped, kept)
    return reduce_all(reduce_all(x[len(dropped) :] - rest, kept) * _inverse(dropped, kept), kept)


def rescaled(x: Array, moduli: tuple[int, ...], others: tuple[int, ...]) -> Array:
    """round(Q' x / Q) mod Q', where Q is the product of `moduli` and Q' that of the others, which are none of them:
    (Q' x)/Q, and Q' x is zero mod all others.
    """
    factor = np.array([[balanced(modulus(others), p)] for p in moduli], np.float64)
    scaled_up = reduce_all(x * factor, moduli)
    return divided(np.concatenate([scaled_up, np.zeros((len(others), x.shape[1]))]), moduli, others)


@functools.lru_cache
def _inverse(dropped: tuple[int, ...], kept: tuple[int, ...]) -> Array:
    """D^-1 mod every kept prime, as a column."""
    return np.array([[balanced(pow(modulus(dropped), -1, p), p)] for p in kept], np.float64)
