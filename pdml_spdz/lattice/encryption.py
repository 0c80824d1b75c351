"""The key holder's side: a fresh key for each run, encryption of a random matrix, decryption of what comes back.

    key         s uniform in {-1, 0, 1};  public sample (p0, p1) = (-p1 s + e_p, p1)
    encrypt     c0 = -a s + e + round(q x / 2^w),  a public (from a seed, as p1)
    decrypt     x = round(2^w (c0 + c1 s) / q) at the coefficients that were returned

Polynomials travel as transforms, in residues of 25 bits. What is encoded is round(q x / 2^w) and not x times a
constant: S times it is then right mod 2^w however often S x wraps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.lattice import ntt, sampling
from pdml_spdz.lattice.ntt import PRIME_BITS, Array, balanced, reduce_all
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.residues import DIGIT, Digits, carry, digits_of, lifted, residues, to_ring
from pdml_spdz.lattice.ring_parameters import SWITCH, RingParameters
from pdml_spdz.lattice.sampling import Sampler
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Buffer, view

KEY_LABEL = 0  # of p1; ciphertexts are numbered from 1 on


def encoded(x: ring.Vector, w: int, moduli: tuple[int, ...], q: int) -> Array:
    """round(q x / 2^w) mod every prime, shape (primes, n).

    With y = q x + 2^(w-1) mod 2^w it is (q x + 2^(w-1) - y) / 2^w, where primes divide q.
    """
    half = ring.from_ints([1 << (w - 1)], w)
    y = ring.add(ring.scale(x, q % (1 << w)), half)
    rest = residues(digits_of(y, w), moduli)
    shift = np.array([[balanced(pow(2, -w, p), p)] for p in moduli], np.float64)
    constant = np.array([[balanced(pow(2, w - 1, p), p)] for p in moduli], np.float64)
    return reduce_all(reduce_all(constant - rest, moduli) * shift, moduli)


def to_bytes(x: Array, moduli: tuple[int, ...]) -> NDArray[np.uint8]:
    """Residues, shape (primes, N), in 25 bits each: three bytes of all, then the 25th bits, 8 in a byte."""
    rows = []
    for row, p in zip(x, moduli, strict=True):
        words = np.where(row < 0, row + p, row).astype("<u4")
        low = words.view(np.uint8).reshape(-1, 4)[:, :3]
        rows += [low.reshape(-1), np.packbits((words >> 24).astype(np.uint8), bitorder="little")]
    return np.concatenate(rows)


def from_bytes(raw: Buffer, N: int, moduli: tuple[int, ...], peer: int) -> Array:
    """What `to_bytes` made, balanced. Residues that are none end the run."""
    data = np.frombuffer(view(raw), np.uint8).reshape(len(moduli), PRIME_BITS * N // 8)
    out = np.empty((len(moduli), N))
    for row, piece, p in zip(out, data, moduli, strict=True):
        words = np.zeros((N, 4), np.uint8)
        words[:, :3] = piece[: 3 * N].reshape(N, 3)
        words[:, 3] = np.unpackbits(piece[3 * N :], bitorder="little")
        row[:] = words.reshape(-1).view("<u4")
        if row.max() >= p:
            raise ProtocolError(
                f"P{peer} sent a coefficient that is not below its prime.",
                f"residues below {p}",
                "start all parties with the same study file and version",
                culprit=peer,
            )
        row -= p * (row > p // 2)
    return out


@dataclass(frozen=True)
class CiphertextSet:
    """A set of ciphertexts: of one group of products, one block of columns, for one peer or (None) for all."""

    group: int
    column: int
    peer: int | None = None

    def label(self, p: Parameters, k: int) -> int:
        """The number of ciphertext k, by which its a is found: no two of a key have the same."""
        columns, count = p.packing.units // p.packing.groups, p.packing.ciphertexts
        receiver = 0 if self.peer is None else 1 + self.peer
        return 1 + ((receiver * p.packing.groups + self.group) * columns + self.column) * count + k


@dataclass(frozen=True)
class PublicKey:
    """A party's public sample: an encryption of zero, as transforms. seed : of p1 and of all its ciphertexts"""

    seed: bytes
    p0: Array
    p1: Array

    @classmethod
    def make(cls, seed: bytes, p0: Array, p: RingParameters) -> PublicKey:
        return cls(seed, p0, sampling.public(seed, KEY_LABEL, p.N, p.primes))


class RingKey:
    """One party's key of one run: a fresh secret and its public sample."""

    def __init__(self, parameters: RingParameters, source: Sampler | None = None) -> None:
        self._ring, self._source = parameters, source or Sampler()
        p = parameters
        self._ternary = self._source.ternary(p.N)
        self._secret = self._of_secret(p.primes)
        self.seed = self._source.key()
        p1 = sampling.public(self.seed, KEY_LABEL, p.N, p.primes)
        self.public = PublicKey(self.seed, self._hidden(p1, self._errors(1)[:, 0]), p1)

    def _hidden(self, a: Array, message: Array) -> Array:
        """The transform of -a s + message, of the transform of a."""
        out = ntt.forward(message[:, None], self._ring.N, self._ring.primes)[:, 0]
        return reduce_all(out - a * self._secret, self._ring.primes)

    def _errors(self, count: int) -> Array:
        """Fresh errors, the same for all primes: shape (primes, count, N)."""
        e = self._source.errors(count, self._ring.N)
        return np.broadcast_to(e, (self._ring.count, *e.shape)).copy()

    def _of_secret(self, moduli: tuple[int, ...]) -> Array:
        """The transform of s, (primes, N)."""
        return ntt.forward(np.broadcast_to(self._ternary, (len(moduli), self._ring.N)), self._ring.N, moduli)


class KeyHolder(RingKey):
    """A key with what it encrypts and decrypts: right matrices, and coefficients in which results are."""

    def __init__(self, parameters: Parameters, source: Sampler | None = None) -> None:
        super().__init__(parameters, source)
        self._p, self._exact = parameters, self._of_secret(parameters.exact_primes)

    def encrypt(self, R: NDArray[np.uint64], unit: CiphertextSet) -> Iterator[NDArray[np.uint8]]:
        """The ciphertexts of one unit of right matrices (count, i, c, limbs), one after the other."""
        p, layout = self._p, self._p.packing
        numbers = layout.right(R, unit.group, unit.column)
        for k in range(layout.ciphertexts):
            a = sampling.public(self.seed, unit.label(p, k), p.N, p.primes)
            message = self._errors(1)
            values = encoded(numbers[k].reshape(-1, numbers.shape[-1]), p.w, p.primes, p.q)
            message[:, 0, layout.places(k).reshape(-1)] += values
            yield to_bytes(self._hidden(a, reduce_all(message, p.primes)[:, 0]), p.primes)

    def decrypt(self, c1: Digits, c0: Digits, wanted: NDArray[np.intp]) -> ring.Vector:
        """The numbers mod 2^w of responses.

        c1 : digits (responses N, .)
        c0 : digits (responses wanted, .)
        wanted : coefficients (responses, wanted)
        """
        p, moduli = self._p, self._p.exact_primes
        x = residues(c1, moduli, signed=True).reshape(len(moduli), -1, p.N)
        product = np.empty((len(moduli), *wanted.shape))
        for j, prime in enumerate(moduli):
            transform = ntt.transform(p.N, prime)
            values = ntt.reduce(transform.forward(x[j]) * self._exact[j], prime)
            product[j] = np.take_along_axis(transform.back(values), wanted, axis=1)
        sums = lifted(product.reshape(len(moduli), -1), moduli, p.travel_bits).astype(np.float64) + c0
        sums[:, 0] += 1 << (SWITCH - 1)  # rounds, and the digit below 2^w is dropped
        return to_ring(carry(sums)[:, SWITCH // DIGIT :], p.w)
