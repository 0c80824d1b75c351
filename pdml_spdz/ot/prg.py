"""Symmetric primitives: AES-CTR streams, a fixed-key AES hash, and hashes of named parts. Blocks are 128 bits.

A block is two uint64 (shape (..., 2)), so that numpy can XOR many at once. Nothing here is seeded by anything but its
arguments; fresh blocks come from the operating system.
"""

from __future__ import annotations

import functools
import hashlib
import os
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Blocks: TypeAlias = "NDArray[np.uint64]"  # shape (..., 2)

BLOCK = 16  # bytes
WORD = np.dtype("<u8")


def random_blocks(*shape: int) -> Blocks:
    count = int(np.prod(shape))
    return np.frombuffer(bytearray(os.urandom(BLOCK * count)), WORD).reshape(*shape, 2)


def random_bits(n: int) -> NDArray[np.bool_]:
    raw = np.frombuffer(os.urandom(-(-n // 8)), np.uint8)
    return np.unpackbits(raw, count=n, bitorder="little").astype(np.bool_)


def digest(purpose: bytes, *parts: bytes, size: int = BLOCK) -> bytes:
    """BLAKE2b of the parts, each with its length in front; `purpose` (at most 16 bytes) separates the domains."""
    state = hashlib.blake2b(digest_size=size, person=purpose)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


@functools.lru_cache(maxsize=2)
def _zeros(size: int) -> bytes:
    return bytes(size)


class Streams:
    """AES-CTR under many keys, all counting from the same block. keys : (m, 2); key number `hole` is not known."""

    def __init__(self, keys: Blocks, hole: int | None, block: int) -> None:
        mode, size = modes.CTR(block.to_bytes(BLOCK, "big")), len(keys)
        raw = keys.tobytes()
        ciphers = (Cipher(algorithms.AES(raw[BLOCK * j : BLOCK * (j + 1)]), mode) for j in range(size))
        self._encryptors = [None if j == hole else cipher.encryptor() for j, cipher in enumerate(ciphers)]

    def __len__(self) -> int:
        return len(self._encryptors)

    def fill(self, j: int, out: NDArray[np.uint64]) -> bool:
        """Write the next bytes of stream j to `out` (contiguous, whole blocks); False if it is the unknown one."""
        encryptor = self._encryptors[j]
        if encryptor is None:
            return False
        encryptor.update_into(_zeros(out.nbytes), out.reshape(-1).view(np.uint8).data)
        return True


class Permutation:
    """AES under a public key, taken as a random permutation pi of blocks, on arrays of blocks."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 (a permutation is what is wanted)

    def __call__(self, x: Blocks) -> Blocks:
        data = self._cipher.encryptor().update(np.ascontiguousarray(x).tobytes())
        return np.frombuffer(data, WORD).reshape(x.shape)


class BlockHash:
    """Hashes of blocks from one fixed-key AES, salted by the session.

    *Ref:* Guo, Katz, Wang, Yu, "Efficient and secure multiparty computation from fixed-key block ciphers",
    IEEE S&P 2020: TMMO is tweakable circular correlation robust and MMO, x -> pi(x) ^ x, is correlation robust if pi is
    a random permutation; MMO is used here on seeds that are uniform to whoever lacks them.
    """

    def __init__(self, session: bytes) -> None:
        self._pi = Permutation(digest(b"pdml-ot-hash", session))
        self._left = Permutation(digest(b"pdml-ggm-left", session))
        self._right = Permutation(digest(b"pdml-ggm-right", session))
        self._pad = Permutation(digest(b"pdml-ot-pad", session))

    def tweaked(self, x: Blocks, tweaks: NDArray[np.uint64]) -> Blocks:
        """TMMO: pi(pi(x) ^ i) ^ pi(x), x of shape (n, 2), i = tweaks[n]."""
        y = self._pi(x)
        z = y.copy()
        z[..., 0] ^= tweaks
        return self._pi(z) ^ y

    def children(self, seeds: Blocks) -> Blocks:
        """Two seeds from each: shape (..., m, 2) -> (..., 2m, 2), the children of node j at 2j and 2j+1."""
        *outer, m, _ = seeds.shape
        out = np.empty((*outer, m, 2, 2), WORD)
        out[..., 0, :] = self._left(seeds) ^ seeds
        out[..., 1, :] = self._right(seeds) ^ seeds
        return out.reshape(*outer, 2 * m, 2)

    def expand(self, seeds: Blocks, count: int) -> Blocks:
        """`count` blocks from each seed: shape (n, 2) -> (n, count, 2), block c being pad(s ^ c) ^ s ^ c."""
        x = np.repeat(seeds[:, None, :], count, axis=1)
        x[..., 0] ^= np.arange(count, dtype=WORD)
        return self._pad(x) ^ x
