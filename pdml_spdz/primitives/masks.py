"""Zero-sharings: for every call M masks that look random one by one and sum to zero.

Every ordered pair (m, l) has a key k_ml, drawn from the operating system by m at the start of the process, sent to l
over their TLS connection and stored nowhere. In call j party m's mask is sum_l (F_kml(j) - F_klm(j)); summed over m,
everything cancels.
"""

from __future__ import annotations

import secrets

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from pdml_spdz.transport.base import Link

KEY_BYTES, BLOCK = 32, 16
DOMAIN = b"pdml-spdz zero-sharing v1"


class Keys:
    """Party me's ends of the directed pair keys: `mine[l]` = k_ml, drawn here; `theirs[l]` = k_lm, drawn at l."""

    def __init__(self, mine: dict[int, bytes], theirs: dict[int, bytes], run: bytes) -> None:
        self.mine, self.theirs, self.run = mine, theirs, run

    @classmethod
    def agree(cls, link: Link, run: bytes) -> Keys:
        """Agree on fresh pair keys.

        1. m draws k_ml for every l and sends it to l alone.
        Reveals: k_ml to l, nothing else. Cost: one round, 32 bytes a peer. Ref: [PDML §SecSum, improvements].
        """
        mine = {l: secrets.token_bytes(KEY_BYTES) for l in link.peers}
        received = link.exchange_all("keys", mine, KEY_BYTES)
        return cls(mine, {l: bytes(k) for l, k in received.items()}, run)


class Masks:
    """The zero-sharings of one run; every (purpose, modulus, call) may be asked for once."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._derived: dict[tuple[bytes, str, int], bytes] = {}
        self._ciphers: dict[tuple[bytes, str, int], CipherContext] = {}

    def words(self, purpose: str, call: int, n: int, bits: int = 64) -> NDArray[np.uint64]:
        """Party me's mask of n numbers in Z_2^64, for sums of which only the low `bits` bits are sent."""
        mask = np.zeros(n, np.uint64)
        stream = np.empty(8 * n, np.uint8)
        zeros = bytes(8 * n)
        for own, other in self._pairs():
            for key, sign in ((own, np.add), (other, np.subtract)):
                self._stream(key, purpose, bits, call).update_into(zeros, stream.data)
                sign(mask, stream.view("<u8"), out=mask)
        return mask

    def wide(self, purpose: str, call: int, n: int, bits: int) -> list[int]:
        """Party me's mask of n numbers in Z_2^bits (a multiple of 8), as Python integers."""
        size = bits // 8
        mask = [0] * n
        for own, other in self._pairs():
            for key, sign in ((own, 1), (other, -1)):
                stream = self._blocks(key, purpose, bits, call, size * n)
                for i in range(n):
                    mask[i] += sign * int.from_bytes(stream[i * size : (i + 1) * size], "little")
        return [z % (1 << bits) for z in mask]

    def _pairs(self) -> list[tuple[bytes, bytes]]:
        return [(self._keys.mine[l], self._keys.theirs[l]) for l in self._keys.mine]

    def _stream(self, key: bytes, purpose: str, bits: int, call: int):  # type: ignore[no-untyped-def]
        """F_k(call): AES-256-CTR under a key of its own for run, purpose and modulus;
        the counter block is call | index.
        """
        block = call.to_bytes(8, "big") + bytes(8)
        return Cipher(algorithms.AES(self._key(key, purpose, bits)), modes.CTR(block)).encryptor()

    def _blocks(self, key: bytes, purpose: str, bits: int, call: int, size: int) -> bytes:
        """The first bytes of `_stream`, for a few scalars: a cipher is made once for a key, not once for a call."""
        name = (key, purpose, bits)
        if name not in self._ciphers:
            one = Cipher(algorithms.AES(self._key(*name)), modes.ECB())  # noqa: S305 (of counters, none of them twice)
            self._ciphers[name] = one.encryptor()
        front = call.to_bytes(8, "big")
        counters = b"".join(front + i.to_bytes(8, "big") for i in range(-(-size // BLOCK)))
        return self._ciphers[name].update(counters)[:size]

    def _key(self, key: bytes, purpose: str, bits: int) -> bytes:
        name = (key, purpose, bits)
        if name not in self._derived:
            info = DOMAIN + b"|" + purpose.encode() + b"|" + str(bits).encode()
            self._derived[name] = HKDF(hashes.SHA256(), KEY_BYTES, self._keys.run, info).derive(key)
        return self._derived[name]
