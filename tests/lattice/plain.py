"""Polynomials on integers of Python, written from the definitions: no transform, no residues, no NumPy."""

from __future__ import annotations

from collections.abc import Sequence


def negacyclic(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """a b mod X^N + 1."""
    N, out = len(a), [0] * len(a)
    for j, x in enumerate(a):
        for k, y in enumerate(b):
            if j + k < N:
                out[j + k] += x * y
            else:
                out[j + k - N] -= x * y
    return out


def value_at(a: Sequence[int], x: int, p: int) -> int:
    total = 0
    for coefficient in reversed(a):
        total = (total * x + int(coefficient)) % p
    return total


def crt(residues: Sequence[int], moduli: Sequence[int]) -> int:
    """The number below q that has these residues."""
    q = 1
    for p in moduli:
        q *= p
    return sum(r * (q // p) * pow(q // p, -1, p) for r, p in zip(residues, moduli, strict=True)) % q


def root(p: int, order: int) -> int:
    """The root of unity that transforms use: the power of the smallest number that is primitive."""
    return next(r for r in (pow(x, (p - 1) // order, p) for x in range(2, p)) if pow(r, order // 2, p) == p - 1)


def coefficients(values: Sequence[int], exponents: Sequence[int], p: int) -> list[int]:
    """The polynomial mod p with these values at psi^exponent: sum_n values[n] psi^(-exponent k) / N."""
    N = len(values)
    psi = root(p, 2 * N)
    powers = [pow(psi, k, p) for k in range(2 * N)]
    inverse = pow(N, -1, p)
    return [
        inverse * sum(v * powers[-e * k % (2 * N)] for v, e in zip(values, exponents, strict=True)) % p
        for k in range(N)
    ]
