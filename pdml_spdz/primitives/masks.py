"""Zero-sharings: for every call M masks that look random one by one and sum to zero.

Every ordered pair (m, l) has a key k_ml, drawn from the operating system by m at the start of the process, sent to l
over their TLS connection and stored nowhere. In call j party m's mask is sum_l (F_kml(j, h) - F_klm(j, h)), where h is
a hash of all that was said to all before; summed over m, everything cancels.
"""

from __future__ import annotations

import hmac
import secrets

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from pdml_spdz.transport.base import Link

KEY_BYTES, BLOCK = 32, 16
DOMAIN = b"pdml-spdz zero-sharing v2"


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
    """The zero-sharings of one run; every (purpose, modulus, call) may be asked for once.

    heard : what all have heard before the call (`Link.heard`). Between parties that have heard different things the
        masks do not cancel: the sum that they open is a random number
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._derived: dict[tuple[bytes, str, int], bytes] = {}

    def words(self, purpose: str, call: int, n: int, heard: bytes, bits: int = 64) -> NDArray[np.uint64]:
        """Party me's mask of n numbers in Z_2^64, for sums of which only the low `bits` bits are sent."""
        mask = np.zeros(n, np.uint64)
        stream = np.empty(8 * n, np.uint8)
        zeros = bytes(8 * n)
        for own, other in self._pairs():
            for key, sign in ((own, np.add), (other, np.subtract)):
                self._stream(key, purpose, bits, call, heard).update_into(zeros, stream.data)
                sign(mask, stream.view("<u8"), out=mask)
        return mask

    def wide(self, purpose: str, call: int, n: int, heard: bytes, bits: int) -> list[int]:
        """Party me's mask of n numbers in Z_2^bits, as Python integers."""
        size = -(-bits // 8)
        mask = [0] * n
        for own, other in self._pairs():
            for key, sign in ((own, 1), (other, -1)):
                stream = self._stream(key, purpose, bits, call, heard).update(bytes(size * n))
                for i in range(n):
                    mask[i] += sign * int.from_bytes(stream[i * size : (i + 1) * size], "little")
        return [z % (1 << bits) for z in mask]

    def _pairs(self) -> list[tuple[bytes, bytes]]:
        return [(self._keys.mine[l], self._keys.theirs[l]) for l in self._keys.mine]

    def _stream(self, key: bytes, purpose: str, bits: int, call: int, heard: bytes) -> CipherContext:
        """F_k(call, heard): AES-256-CTR from 0, under a key of its own."""
        of_call = hmac.digest(self._key(key, purpose, bits), call.to_bytes(8, "big") + heard, "sha256")
        return Cipher(algorithms.AES(of_call), modes.CTR(bytes(BLOCK))).encryptor()

    def _key(self, key: bytes, purpose: str, bits: int) -> bytes:
        name = (key, purpose, bits)
        if name not in self._derived:
            info = DOMAIN + b"|" + purpose.encode() + b"|" + str(bits).encode()
            self._derived[name] = HKDF(hashes.SHA256(), KEY_BYTES, self._keys.run, info).derive(key)
        return self._derived[name]
