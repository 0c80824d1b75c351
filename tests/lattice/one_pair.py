"""One key holder and one other party without a network: what each draws, and what the holder sees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice import ntt, sampling
from pdml_spdz.lattice.encryption import CiphertextSet, KeyHolder, from_bytes
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.residues import modulus
from pdml_spdz.lattice.response import Ciphertexts, short_polynomials
from pdml_spdz.lattice.ring_parameters import RingParameters
from pdml_spdz.numerics import ring
from tests.lattice.parties import integers

UNIT = CiphertextSet(0, 0)


def centred(x: NDArray[Any], q: int) -> NDArray[Any]:
    """Integers mod q, the nearest to zero."""
    return (x + q // 2) % q - q // 2


def as_integers(residues: NDArray[np.float64], p: RingParameters) -> NDArray[Any]:
    """Residues (primes, n) as integers mod q."""
    return whole(residues, p.primes)


def whole(residues: NDArray[np.float64], primes: tuple[int, ...]) -> NDArray[Any]:
    """By the Chinese remainder theorem on integers of Python."""
    q, total = modulus(primes), np.zeros(residues.shape[1], object)
    for row, prime in zip(residues, primes, strict=True):
        part = q // prime
        total += row.astype(np.int64).astype(object) * (part * pow(part, -1, prime))
    return centred(total, q)


class Pair:
    """A holder with R encrypted, and the other's left matrix S (n, i)."""

    def __init__(self, p: Parameters, S: NDArray[np.int64]) -> None:
        layout = p.packing
        self.p, self.S, self.holder = p, S, KeyHolder(p)
        self.R = ring.random(layout.i * layout.c, p.w).reshape(1, layout.i, layout.c, -1)
        self.ciphertexts = list(self.holder.encrypt(self.R, UNIT))

    def products(self) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        """What `Responder.hide` is given: S times the ciphertexts, and the wanted coefficients."""
        received = Ciphertexts(self.p, [0], 1)
        for k, raw in enumerate(self.ciphertexts):
            received.put(0, self.holder.public, raw, UNIT, 0, k)
        ((which, short),) = short_polynomials(self.p, self.S[None], 0)
        wanted = [self.p.packing.results(r).reshape(-1) for r in which]
        return received.multiply(short)[:, 0, 0], np.stack(wanted)

    def errors(self) -> NDArray[np.float64]:
        """e with the rounding of what was encoded, of the first ciphertext, as its holder knows it."""
        p = self.p
        c0 = from_bytes(self.ciphertexts[0], p.N, p.primes, 0)
        a = sampling.public(self.holder.seed, UNIT.label(p, 0), p.N, p.primes)
        values = ntt.reduce_all(c0 + a * self.holder._secret, p.primes)
        total = as_integers(ntt.back(values, p.N, p.primes), p)
        encoded = np.zeros(p.N, object)
        encoded[p.packing.places(0).reshape(-1)] = integers(p.packing.right(self.R, 0, 0)[0]).reshape(-1)
        scaled = centred((total << p.w) - encoded * p.q, p.q << p.w)
        return (scaled / (1 << p.w)).astype(np.float64)

    def a(self, k: int = 0) -> NDArray[Any]:
        """The public polynomial of ciphertext k, as integers."""
        values = sampling.public(self.holder.seed, UNIT.label(self.p, k), self.p.N, self.p.primes)
        return as_integers(ntt.back(values, self.p.N, self.p.primes), self.p)

    def secret_times(self, c1: NDArray[np.float64]) -> NDArray[np.float64]:
        """c1 s mod q, of residues (primes, rows N)."""
        p = self.p
        x = ntt.forward(c1.reshape(p.count, -1, p.N), p.N, p.primes) * self.holder._secret[:, None]
        return ntt.back(ntt.reduce_all(x, p.primes), p.N, p.primes)

    def noise(self, c1: NDArray[np.float64], c0: NDArray[np.float64], wanted: NDArray[np.intp]) -> NDArray[Any]:
        """What the holder finds: c0 + c1 s less the nearest round(q x / 2^w), and x."""
        p = self.p
        product = np.take_along_axis(self.secret_times(c1), np.broadcast_to(wanted, (p.count, *wanted.shape)), axis=2)
        total = as_integers(ntt.reduce_all(product.reshape(p.count, -1) + c0, p.primes), p) % p.q
        x = ((total << p.w) + p.q // 2) // p.q
        nearest = ((x * p.q << 1) + (1 << p.w)) >> (p.w + 1)
        return np.stack([centred(total - nearest, p.q), x % (1 << p.w)])

    def product(self) -> NDArray[Any]:
        """(S R)[a, k] in the order of wanted coefficients, integers mod 2^w; one block of rows."""
        product = self.S.astype(object) @ integers(self.R[0])
        return product.reshape(-1) % (1 << self.p.w)
