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
GROUP = 16  # trees under one AES key: a key for each would cost 1.6 times the time of short trees


def random_blocks(*shape: int) -> Blocks:
    count = int(np.prod(shape))
    return np.frombuffer(bytearray(os.urandom(BLOCK * count)), WORD).reshape(*shape, 2)


def random_bits(n: int) -> NDArray[np.bool_]:
    raw = np.frombuffer(os.urandom(-(-n // 8)), np.uint8)
    return np.unpackbits(raw, count=n, bitorder="little").astype(np.bool_)


def digest(purpose: bytes, *parts: bytes, size: int = BLOCK) -> bytes:
    """BLAKE2b of the parts, each with its length in front; `purpose` (at most 16 bytes) separates the domains."""
    return Digest(purpose, *parts, size=size)()


class Digest:
    """`digest` of parts of which the first ones are always the same."""

    def __init__(self, purpose: bytes, *parts: bytes, size: int = BLOCK) -> None:
        self._state = hashlib.blake2b(_joined(parts), digest_size=size, person=purpose)

    def __call__(self, *parts: bytes) -> bytes:
        state = self._state.copy()
        state.update(_joined(parts))
        return state.digest()


def _joined(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


@functools.lru_cache(maxsize=2)
def _zeros(size: int) -> bytes:
    return bytes(size)


class Streams:
    """AES-128 in counter mode under many keys, all counting from the same block.

    keys  : (m, 2); key number `hole` is not known
    block : where to start, below 2^64
    nonce : the upper half of the counter: streams of different trees have no block in common
    """

    def __init__(self, keys: Blocks, hole: int | None, block: int, nonce: int = 0) -> None:
        mode, size = modes.CTR((nonce << 64 | block).to_bytes(BLOCK, "big")), len(keys)
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

    def rows(self, words: int) -> NDArray[np.uint64]:
        """The next words of every stream, shape (m, words); zeros for the unknown one."""
        out, size = np.zeros((len(self), words), WORD), WORD.itemsize * words
        whole, zeros = out.reshape(-1).view(np.uint8).data, _zeros(size)
        for j, encryptor in enumerate(self._encryptors):
            if encryptor is not None:
                encryptor.update_into(zeros, whole[size * j : size * (j + 1)])
        return out


class Permutation:
    """AES under a public key, taken as a random permutation pi of blocks, on arrays of blocks."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305 (a permutation is what is wanted)

    def __call__(self, x: Blocks) -> Blocks:
        data = self._cipher.encryptor().update(np.ascontiguousarray(x).tobytes())
        return np.frombuffer(data, WORD).reshape(x.shape)


class BlockHash:
    """Hashes of blocks from one fixed-key AES, salted by the session.

    Security: to find one of N hashed secrets by Q evaluations of AES, Q N is about 2^128. N is the number of OTs of an
    ordered pair and session here, some 2^20 for a long fit. Trees, which are more, have keys of their own (`Forest`).

    *Ref:* Guo, Katz, Wang, Yu, "Efficient and secure multiparty computation from fixed-key block ciphers",
    IEEE S&P 2020: TMMO is tweakable circular correlation robust and MMO, x -> pi(x) ^ x, is correlation robust if pi is
    a random permutation; MMO is used here on seeds that are uniform to whoever lacks them.
    """

    def __init__(self, session: bytes) -> None:
        self._pi = Permutation(digest(b"pdml-ot-hash", session))
        self._pad = Permutation(digest(b"pdml-ot-pad", session))
        self._tree_keys, self._trees = Permutation(digest(b"pdml-ggm-keys", session)), 0

    def tweaked(self, x: Blocks, tweaks: NDArray[np.uint64]) -> Blocks:
        """TMMO: pi(pi(x) ^ i) ^ pi(x), x of shape (n, 2), i = tweaks[n]."""
        y = self._pi(x)
        z = y.copy()
        z[..., 0] ^= tweaks
        return self._pi(z) ^ y

    def expand(self, seeds: Blocks, count: int) -> Blocks:
        """`count` blocks from each seed: shape (n, 2) -> (n, count, 2), block c being pad(s ^ c) ^ s ^ c."""
        x = _counted(seeds, count)
        return self._pad(x) ^ x

    def forest(self, count: int) -> Forest:
        """The next `count` trees, with labels pi'(0), pi'(1), ...: no two trees have the same."""
        numbers = np.zeros((count, 2), WORD)
        numbers[:, 0] = np.arange(self._trees, self._trees + count)
        self._trees += count
        return Forest(self._tree_keys(numbers))


class Forest:
    """The hashes of some GGM trees: E(x ^ i) ^ x ^ i, i being the tree's number among the 16 that share the key of E.

    labels : (trees, 2), public, all different; the first one of each 16 is their key, its low word a tree's nonce

    Security, AES being an ideal cipher: whoever lacks the path to a leaf lacks depth + 1 uniform blocks of that tree.
    An evaluation of AES has one key, so it is a guess at the blocks of 16 trees only: Q of them find one with
    probability 16 Q (depth + 1) 2^-126, 2^-118 Q for depth 8, however many trees there are; with one key for all
    it would be their number instead of 16. And two blocks under one key may coincide, one of them not known:
    16 (depth + 1) 2^(depth + 3 - 128) for each tree, together 2^-90 for a million trees of depth 8.

    *Ref:* Guo, Katz, Wang, Weng, Yu, "Better concrete security for half-gates garbling (in the multi-instance
    setting)", CRYPTO 2020: fixed-key hashes lose the number of instances, which tweaks alone do not mend and keys do.
    """

    def __init__(self, labels: Blocks) -> None:
        raw, mode = labels.tobytes(), modes.ECB()  # noqa: S305 (a permutation is what is wanted)
        starts = range(0, len(raw), GROUP * BLOCK)
        self._ciphers = [Cipher(algorithms.AES(raw[i : i + BLOCK]), mode).encryptor() for i in starts]
        self.nonces = [int(nonce) for nonce in labels[:, 0]]  # for `Streams` of its leaves

    def __len__(self) -> int:
        return len(self.nonces)

    def children(self, nodes: Blocks) -> Blocks:
        """Two seeds from each: shape (trees, m, 2) -> (trees, 2m, 2), the children of node j at 2j and 2j+1."""
        trees, m, _ = nodes.shape
        return self._hash(_counted(nodes, 2), 0).reshape(trees, 2 * m, 2)

    def expand(self, leaves: Blocks, count: int, first: int) -> Blocks:
        """`count` blocks from each leaf of the trees from number `first` on: (trees, m, 2) -> (trees, m, count, 2).

        (The formula is that of children. A leaf has none.)
        """
        return self._hash(_counted(leaves, count), first)

    def _hash(self, x: Blocks, first: int) -> Blocks:
        """The hash of x, overwritten, in trees along the first axis: a group with each cipher."""
        if first % GROUP:
            raise ValueError(f"trees from number {first} on: wanted a multiple of {GROUP}")
        x[..., 1] ^= (np.arange(len(x), dtype=WORD) % GROUP).reshape(-1, *[1] * (x.ndim - 2))
        raw, size = memoryview(x.tobytes()), GROUP * x[:1].nbytes
        ciphers = self._ciphers[first // GROUP : -(-(first + len(x)) // GROUP)]
        data = b"".join([cipher.update(raw[size * i : size * (i + 1)]) for i, cipher in enumerate(ciphers)])
        return np.frombuffer(data, WORD).reshape(x.shape) ^ x


def _counted(seeds: Blocks, count: int) -> Blocks:
    """s, s ^ 1, ..., s ^ (count - 1) for each seed: shape (..., 2) -> (..., count, 2)."""
    x = np.repeat(seeds[..., None, :], count, axis=-2)
    x[..., 0] ^= np.arange(count, dtype=WORD)
    return x
