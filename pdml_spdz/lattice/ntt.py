"""Negacyclic number-theoretic transform: polynomials mod X^N + 1 over small primes, as matrix products on float64.

Residues are balanced, |x| <= p/2 < 2^24, and a sum of 32 products of two of them stays below 2^53: exact in float64, in
whatever order BLAS adds. So N is cut into three factors of at most 32, and each of three steps is a product with a
small matrix, then a reduction, then twiddle factors. On two cores this takes 1.6 ms for 13 primes and N = 16384.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import EngineError

Array: TypeAlias = "NDArray[np.float64]"

PRIME_BITS = 25  # primes are below 2^25
TERMS = 32  # products of residues that may be added before a reduction
BATCH = 4  # polynomials at a time, for the cache


@functools.lru_cache
def primes(N: int, count: int) -> tuple[int, ...]:
    """The `count` largest primes below 2^25, and above 2^22, that are 1 mod 2N, from the largest down."""
    found: list[int] = []
    for p in range((1 << PRIME_BITS) - 2 * N + 1, 1 << (PRIME_BITS - 3), -2 * N):
        if len(found) == count:
            break
        if _is_prime(p):
            found.append(p)
    return tuple(found)


def _is_prime(p: int) -> bool:
    """Miller-Rabin with bases that decide every p below 3,215,031,751."""
    odd, twos = p - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7):
        x = pow(base, odd, p)
        if x in (1, p - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % p
            if x == p - 1:
                break
        else:
            return False
    return True


def reduce(x: Array, p: int, scratch: Array | None = None) -> Array:
    """x mod p, balanced, in place; x integers, |x| <= 2^53."""
    t = np.multiply(x, 1 / p, out=scratch)
    np.rint(t, out=t)
    t *= p
    x -= t
    return x


def reduce_all(x: Array, moduli: tuple[int, ...]) -> Array:
    """The same for residues of all primes, which are the first axis; in place."""
    for row, p in zip(x, moduli, strict=True):
        reduce(row, p)
    return x


def _factors(N: int) -> tuple[int, int, int]:
    """Three powers of two, none above 32, whose product is N."""
    log = N.bit_length() - 1
    if 1 << log != N or not 3 <= log <= 15:
        raise ValueError(f"N = {N}: wanted a power of two from 8 to 32768")
    first, second = -(-log // 3), -(-(log - -(-log // 3)) // 2)
    return 1 << first, 1 << second, 1 << (log - first - second)


class Transform:
    """Values of polynomials at the 2N-th roots of -1 mod one prime.

    Index n of a transform belongs to the root psi^exponents[n].

    *Ref:* Bailey, "FFTs in external or hierarchical memory", 1990, for the cut into factors.
    """

    def __init__(self, N: int, p: int) -> None:
        self.N, self.p, self.factors = N, p, _factors(N)
        f1, f2, f3 = self.factors
        self.powers = _powers(_root(p, 2 * N), 2 * N, p)
        k1, k2, k3 = (np.arange(f) for f in self.factors)
        rest = np.arange(f2 * f3)
        first, twist = np.outer(2 * k1 + 1, k1) * (f2 * f3), np.outer(2 * k1 + 1, rest)
        second, between = np.outer(k2, k2) * (2 * f1 * f3), np.outer(k2, k3) * (2 * f1)
        third = np.outer(k3, k3) * (2 * f1 * f2)
        self._first, self._twist, self._second, self._between, self._third = map(
            self.power, (first, twist, second, between, third)
        )
        self._first_back = reduce(self.power(-first.T) * balanced(pow(N, -1, p), p), p)
        self._twist_back, self._second_back, self._between_back, self._third_back = map(
            self.power, (-twist, -second, -between, -third)
        )
        k = k1[:, None, None] + f1 * (k2[:, None] + f2 * k3)
        self.exponents = (2 * k + 1).reshape(-1)
        if p == primes(N, 1)[0]:  # one for each N: others are as large, and their products of the same shapes
            self._check()

    def _check(self) -> None:
        """A known answer, of the largest residues: not every linear algebra library keeps float64 exact.

        (h + h X + .. + h X^(N-1))^2 = sum_k h^2 (2 k + 2 - N) X^k modulo X^N + 1.
        """
        h = self.p // 2
        y = self.forward(np.full((1, self.N), float(h)))
        found = self.back(reduce(y * y, self.p)) % self.p
        wanted = (2 * np.arange(self.N) + 2 - self.N) % self.p * (h * h % self.p) % self.p
        if not np.array_equal(found[0], wanted):
            raise EngineError(
                "this machine's linear algebra does not multiply whole numbers exactly: a known answer is wrong.",
                "products and sums below 2^53 that are exact, as IEEE 754 has them",
                "install NumPy with OpenBLAS (`pip install --force-reinstall numpy`), and report this",
            )

    def power(self, exponents: NDArray[np.int64]) -> Array:
        """psi to these powers."""
        found: Array = self.powers[exponents % (2 * self.N)]
        return found

    def forward(self, x: Array) -> Array:
        """The transforms of polynomials in the rows of x, balanced residues, shape (..., N); a new array."""
        out = np.empty(x.shape)
        for some, to in self._pieces(x, out):
            f1, f2, f3 = self.factors
            y = np.matmul(self._first, some.reshape(-1, f1, f2 * f3))
            t = np.empty_like(y)
            reduce(y, self.p, t)
            y *= self._twist
            reduce(y, self.p, t)
            z = np.matmul(self._second, y.reshape(-1, f2, f3))
            t = t.reshape(z.shape)
            reduce(z, self.p, t)
            z *= self._between
            reduce(z, self.p, t)
            np.matmul(z.reshape(-1, f3), self._third, out=to.reshape(-1, f3))
            reduce(to, self.p, t.reshape(to.shape))
        return out

    def back(self, x: Array) -> Array:
        """The polynomials of these transforms; a new array."""
        out = np.empty(x.shape)
        for some, to in self._pieces(x, out):
            f1, f2, f3 = self.factors
            z = np.matmul(some.reshape(-1, f3), self._third_back)
            t = np.empty_like(z)
            reduce(z, self.p, t)
            z = z.reshape(-1, f2, f3)
            t = t.reshape(z.shape)
            z *= self._between_back
            reduce(z, self.p, t)
            y = np.matmul(self._second_back, z).reshape(-1, f1, f2 * f3)
            t = t.reshape(y.shape)
            reduce(y, self.p, t)
            y *= self._twist_back
            reduce(y, self.p, t)
            np.matmul(self._first_back, y, out=to.reshape(y.shape))
            reduce(to, self.p, t.reshape(to.shape))
        return out

    def _pieces(self, x: Array, out: Array) -> list[tuple[Array, Array]]:
        rows, into = np.ascontiguousarray(x).reshape(-1, self.N), out.reshape(-1, self.N)
        return [(rows[k : k + BATCH], into[k : k + BATCH]) for k in range(0, len(rows), BATCH)]


@functools.lru_cache(maxsize=64)
def transform(N: int, p: int) -> Transform:
    return Transform(N, p)


def forward(x: Array, N: int, moduli: tuple[int, ...]) -> Array:
    """Transforms for all primes: shape (primes, ..., N)."""
    return np.stack([transform(N, p).forward(row) for row, p in zip(x, moduli, strict=True)])


def back(x: Array, N: int, moduli: tuple[int, ...]) -> Array:
    return np.stack([transform(N, p).back(row) for row, p in zip(x, moduli, strict=True)])


def balanced(x: int, p: int) -> int:
    """The residue of x mod p that is nearest to zero."""
    x %= p
    return x - p if x > p // 2 else x


def _root(p: int, order: int) -> int:
    """A primitive root of unity of this order, a power of two: the power of the smallest number that is one."""
    for x in range(2, p):
        root = pow(x, (p - 1) // order, p)
        if pow(root, order // 2, p) == p - 1:
            return root
    raise ValueError(f"{p} has no root of order {order}")


def _powers(root: int, count: int, p: int) -> Array:
    """root^0 .. root^(count - 1), balanced; count a power of two."""
    out = np.ones(count, np.int64)
    done, step = 1, root
    while done < count:
        out[done : 2 * done] = out[:done] * step % p
        done, step = 2 * done, step * step % p
    return reduce(out.astype(np.float64), p)
