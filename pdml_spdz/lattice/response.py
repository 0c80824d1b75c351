"""The other side: multiplies a peer's ciphertexts by its own matrix, hides that, and returns what is wanted.

For each response, to the holder of (p0, p1):

    c0 = sum_k S_k c0_k + p0 u + e0 + round(q mask / 2^w)
    c1 = sum_k S_k a_k  + p1 u + e1

u is ternary and fresh for every response, e1 is an error, e0 is the flooding, uniform and 2^64 times as large as all
that depends on secrets in the noise, mask is uniform mod 2^w. Without p u the holder would divide sum S_k a_k by a_k.
Both are switched to the modulus 2^(w + 16), which only rounds what could be sent as it is; of c0 only wanted
coefficients travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt, sampling
from pdml_spdz.lattice.encryption import CiphertextSet, PublicKey, encoded, from_bytes
from pdml_spdz.lattice.ntt import TERMS, Array, reduce, reduce_all
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.residues import Digits, digits_of, residues, scaled, to_ring
from pdml_spdz.lattice.ring_parameters import RingParameters
from pdml_spdz.lattice.sampling import Sampler
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Buffer

ROWS = 16  # responses made at a time
LONGEST_SHORT = 96  # coefficients of a polynomial from which on the whole transform is faster
POLYNOMIALS = 128  # of these at a time: 16 MB
POINTS = 1 << 17  # values of short polynomials at a time: 1 MB


class Ciphertexts:
    """What peers have sent for one group of products: c0 and a of every ciphertext, in the order in which they serve.

    Shape (primes, N, ciphertexts, 2 columns peers); float32 holds residues below 2^24 exactly.
    """

    def __init__(self, p: Parameters, peers: Sequence[int], columns: int) -> None:
        self._p, self._peers, self._columns = p, list(peers), columns
        self.values = np.empty((p.count, p.N, p.packing.ciphertexts, len(peers), columns, 2), np.float32)

    def put(self, peer: int, key: PublicKey, raw: Buffer, unit: CiphertextSet, place: int, k: int) -> None:
        """Ciphertext k of a unit whose block of columns is number `place` here."""
        p = self._p
        values = self.values[:, :, k, self._peers.index(peer), place]
        values[..., 0] = from_bytes(raw, p.N, p.primes, peer)
        values[..., 1] = sampling.public(key.seed, unit.label(p, k), p.N, p.primes)

    def multiply(self, short: Array) -> NDArray[np.float32]:
        """sum_k S_k times ciphertext k, for rows of short polynomials S.

        Transforms, (primes, peers, columns, 2, rows, N), in float32.

        short : residues (primes, D, rows, ciphertexts)
        """
        p, (_, D, rows, count) = self._p, short.shape
        flat = self.values.reshape(p.count, p.N, count, -1)
        out = np.empty((p.count, flat.shape[-1], rows, p.N), np.float32)
        some = max(1, POLYNOMIALS // count) if D > LONGEST_SHORT else rows
        for j, prime in enumerate(p.primes):
            for first in range(0, rows, some):
                few = short[j, :, first : first + some]
                for points, sums in _sums(ntt.transform(p.N, prime), few, flat[j]):
                    out[j, :, first : first + some, points] = sums.transpose(2, 1, 0)
        return out.reshape(p.count, len(self._peers), self._columns, 2, rows, p.N)


def _sums(transform: ntt.Transform, short: Array, ciphertexts: NDArray[np.float32]) -> Iterator[tuple[slice, Array]]:
    """(points, sum_k S_k times ciphertext k there), for some points of the transform at a time.

    short : (D, rows, k)
    ciphertexts : (N, k, columns)
    """
    D, rows, count = short.shape
    coefficients = np.ascontiguousarray(short).reshape(D, -1)
    whole = _transformed(transform, coefficients) if D > LONGEST_SHORT else None
    step = max(1, POINTS // (rows * count))
    for start in range(0, transform.N, step):
        points = slice(start, min(start + step, transform.N))
        values = _evaluated(transform, coefficients, points) if whole is None else whole[points]
        yield points, _products(values.reshape(-1, rows, count), ciphertexts[points].astype(np.float64), transform.p)


def _transformed(transform: ntt.Transform, coefficients: Array) -> Array:
    """The transforms of polynomials that are not so short: (N, polynomials)."""
    padded = np.zeros((coefficients.shape[1], transform.N))
    padded[:, : len(coefficients)] = coefficients.T
    return np.ascontiguousarray(transform.forward(padded).T)


def _evaluated(transform: ntt.Transform, coefficients: Array, points: slice) -> Array:
    """Some values of the transforms of short polynomials: (points, polynomials)."""
    D = len(coefficients)
    powers = transform.power(np.outer(transform.exponents[points], np.arange(D)))
    total = np.zeros((len(powers), coefficients.shape[1]))
    for k in range(0, D, TERMS):
        part = powers[:, k : k + TERMS] @ coefficients[k : k + TERMS]
        total = reduce(part, transform.p) if D <= TERMS else total + reduce(part, transform.p)
    return total if D <= TERMS else reduce(total, transform.p)


def _products(values: Array, ciphertexts: Array, p: int) -> Array:
    """(points, rows, k) times (points, k, columns), mod p."""
    count = values.shape[2]
    parts = (
        reduce(np.matmul(values[:, :, k : k + TERMS], ciphertexts[:, k : k + TERMS]), p) for k in range(0, count, TERMS)
    )
    total = next(parts)
    for part in parts:
        total += part
    return reduce(total, p) if count > TERMS else total


@dataclass(frozen=True)
class Response:
    """c1, c0 : what travels, in digits: (rows N, .) and (rows wanted, .)
    share : this party's share of the result, minus the mask: (rows wanted, limbs)
    """

    c1: Digits
    c0: Digits
    share: ring.Vector


class Hiding:
    """What hides an answer to one key holder. u, e0 and e1 are drawn anew for each call and response."""

    def __init__(self, parameters: RingParameters, key: PublicKey, source: Sampler | None = None) -> None:
        self._ring, self._key, self._source = parameters, key, source or Sampler()

    def rerandomised(self, products: NDArray[Any], wanted: NDArray[np.intp]) -> tuple[Array, Array]:
        """c1 and the wanted coefficients of c0, with a fresh encryption of zero: residues mod q, (primes, .).

        products : transforms (primes, 2, rows, N)
        wanted : coefficients (rows, .)
        """
        p, rows = self._ring, len(wanted)
        u, e1 = self._fresh_zero(rows)
        c1, c0 = np.empty((p.count, rows, p.N)), np.empty((p.count, *wanted.shape))
        for j, prime in enumerate(p.primes):
            transform = ntt.transform(p.N, prime)
            zero = transform.forward(u)
            for part, key in ((0, self._key.p0[j]), (1, self._key.p1[j])):
                hidden = reduce(zero * key, prime)
                hidden += products[j, part]
                coefficients = transform.back(reduce(hidden, prime))
                if part:
                    c1[j] = coefficients + e1
                else:
                    c0[j] = np.take_along_axis(coefficients, wanted, axis=1)
        return reduce_all(c1, p.primes).reshape(p.count, -1), c0.reshape(p.count, -1)

    def flooded(self, c0: Array, mask: Array, wanted: NDArray[np.intp]) -> Array:
        """c0 with the encoding of a mask and flooding."""
        return reduce_all(c0 + mask + self._flooding(wanted), self._ring.primes)

    def _fresh_zero(self, rows: int) -> tuple[Array, Array]:
        """u and e1 of a fresh encryption of zero for each response."""
        return self._source.ternary(rows, self._ring.N), self._source.errors(rows, self._ring.N)

    def _flooding(self, wanted: NDArray[np.intp]) -> Array:
        """e0 uniform in [-2^f, 2^f), mod every prime."""
        bits = self._ring.flooding_bits
        return centred(self._source.digits(wanted.size, bits + 1), bits, self._ring.primes)


def centred(digits: Digits, bits: int, moduli: tuple[int, ...]) -> Array:
    """Residues of x - 2^bits: of numbers in [-2^bits, 2^bits), if x is below 2^(bits + 1)."""
    half = np.array([[ntt.balanced(1 << bits, prime)] for prime in moduli], np.float64)
    return residues(digits, moduli) - half


class Responder(Hiding):
    """Answers to one key holder. The mask is drawn anew too."""

    def __init__(self, parameters: Parameters, key: PublicKey, source: Sampler | None = None) -> None:
        super().__init__(parameters, key, source)
        self._p = parameters

    def respond(self, products: NDArray[np.float32], wanted: NDArray[np.intp]) -> Response:
        p = self._p
        c1, c0, mask = self.hide(products, wanted)
        return Response(scaled(c1, p.primes, p.travel_bits), scaled(c0, p.primes, p.travel_bits), ring.neg(mask))

    def hide(self, products: NDArray[np.float32], wanted: NDArray[np.intp]) -> tuple[Array, Array, ring.Vector]:
        """c1 and the wanted coefficients of c0 as residues mod q, (primes, .), and the mask."""
        p = self._p
        c1, c0 = self.rerandomised(products, wanted)
        mask = self._mask(wanted)
        return c1, self.flooded(c0, encoded(mask, p.w, p.primes, p.q), wanted), mask

    def _mask(self, wanted: NDArray[np.intp]) -> ring.Vector:
        """Uniform mod 2^w."""
        return to_ring(self._source.digits(wanted.size, self._p.w), self._p.w)


def short_polynomials(p: Parameters, S: NDArray[Any], group: int) -> Iterator[tuple[range, Array]]:
    """Residues of the left matrices, some responses at a time: (which, (primes, D, rows, ciphertexts)).

    S : int64 (count, n, i), or numbers of numerics/ring.py (count, n, i, limbs), read as signed
    """
    layout = p.packing
    short = layout.left(S, group)
    for first in range(0, layout.responses, ROWS):
        some = short[first : first + ROWS]
        shape = some.shape[:3]
        numbers = np.ascontiguousarray(some).reshape(int(np.prod(shape)), -1)
        found = residues(digits_of(numbers, 64 * numbers.shape[1]), p.primes, signed=True)
        which = range(first, first + len(some))
        yield which, np.ascontiguousarray(found.reshape(p.count, *shape).transpose(0, 3, 1, 2))
