"""Random polynomials: secret ones from a generator with a fresh key of the operating system, public ones from a seed.

Secrets and u are uniform in {-1, 0, 1}; errors are Gaussian on the integers with deviation 8/sqrt(2 pi), cut at 29
(9 deviations, where 64 bits of randomness end): the distributions of the tables in `security_tables`.
"""

from __future__ import annotations

import functools
import os
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from pdml_spdz.lattice.ntt import PRIME_BITS, Array, reduce
from pdml_spdz.lattice.residues import DIGIT, Digits

TAIL = 29  # largest size of an error
KEY = 32  # bytes of a key or seed
EXTRA = 1.3  # candidates drawn for each number wanted, where some are rejected


class Sampler:
    """Secret random numbers: AES-256 in counter mode under a fresh key from the operating system's generator.

    insecure_key : for test vectors only
    """

    def __init__(self, insecure_key: bytes | None = None) -> None:
        self._stream = Cipher(algorithms.AES(insecure_key or os.urandom(KEY)), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int, dtype: str) -> NDArray[Any]:
        """Uniform numbers of a type such as "<u8"."""
        size = np.dtype(dtype).itemsize * count
        return np.frombuffer(self._stream.update(bytes(size)), dtype)

    def key(self) -> bytes:
        return self._stream.update(bytes(KEY))

    def digits(self, count: int, bits: int) -> Digits:
        """Uniform numbers below 2^bits, in as many digits as they need."""
        whole, rest = divmod(bits, DIGIT)
        out = self.words(count * (whole + (rest > 0)), "<u2").reshape(count, -1).copy()
        if rest:
            out[:, -1] &= np.uint16((1 << rest) - 1)
        return out

    def ternary(self, *shape: int) -> Array:
        """Uniform in {-1, 0, 1}: bytes below 255, mod 3."""
        count = int(np.prod(shape))
        kept = np.empty(0, np.uint8)
        while len(kept) < count:
            drawn = self.words(int(1.02 * count) + 64, "<u1")
            kept = np.concatenate([kept, drawn[drawn < 255]])
        return (kept[:count] % 3).astype(np.float64).reshape(shape) - 1

    def errors(self, *shape: int) -> Array:
        """Gaussian: the number of thresholds that a uniform word is not below."""
        words = self.words(int(np.prod(shape)), "<u8")
        return np.searchsorted(_thresholds(), words, side="right").astype(np.float64).reshape(shape) - TAIL


@functools.lru_cache
def _thresholds() -> NDArray[np.uint64]:
    """2^64 P(e <= x) for x = -29 .. 28, rounded down: 58 numbers, in arithmetic of 50 digits, the same everywhere."""
    with localcontext() as context:
        context.prec = 50
        pi = Decimal("3.14159265358979323846264338327950288419716939937511")
        variance = 32 / pi  # (8 / sqrt(2 pi))^2
        weights = [(-Decimal(x * x) / (2 * variance)).exp() for x in range(-TAIL, TAIL + 1)]
        total, so_far, out = sum(weights), Decimal(0), []
        for weight in weights[:-1]:
            so_far += weight
            out.append(min(int(so_far / total * (1 << 64)), (1 << 64) - 1))
    return np.array(out, np.uint64)


def public(seed: bytes, label: int, N: int, moduli: tuple[int, ...]) -> Array:
    """A polynomial's transform, uniform mod every prime, that all who have the seed can compute; shape (primes, N).

    For prime number j: AES-256 in counter mode under the seed from block 2^64 label + 2^32 j on; of each 32-bit word,
    little endian, the low 25 bits; those that are not below the prime are left out.

    *Ref:* as FrodoKEM-AES makes its public matrix (Alkim et al., specification 2021): AES is taken as an ideal cipher.
    """
    out = np.empty((len(moduli), N))
    for j, p in enumerate(moduli):
        stream = Cipher(algorithms.AES(seed), modes.CTR(((label << 64) + (j << 32)).to_bytes(16, "big"))).encryptor()
        kept = np.empty(0, np.uint32)
        while len(kept) < N:
            words = np.frombuffer(stream.update(bytes(4 * int(EXTRA * N))), "<u4") & np.uint32((1 << PRIME_BITS) - 1)
            kept = np.concatenate([kept, words[words < p]])
        out[j] = reduce(kept[:N].astype(np.float64), p)
    return out
