"""SecSum: the sum of the parties' vectors, and nothing else. [PDML §SecSum]"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pdml_spdz import ring
from pdml_spdz.errors import ProtocolError
from pdml_spdz.fixedpoint import EXACT_BITS, Format, Reals, Ring, decode_exact, encode_exact
from pdml_spdz.primitives.masks import Keys, Masks
from pdml_spdz.transport.base import Link

# Above this many parties a full mesh of vectors costs more than two trips through one party.
AGGREGATE_ABOVE = 5


class SecSum(Protocol):
    """What algorithms receive: the sum over all parties of x, each addend at most `bound` in size."""

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals: ...


class MaskedSum:
    """The sum of M vectors by masks that cancel.

    1. z_m = encode(x_m), checked against the bound before anything is sent
    2. m sends z_m + sum_l (F_kml(j) - F_klm(j)) in Z_2^64 to every party, or to the aggregator alone
    3. everyone (or the aggregator, who sends the result back) adds the M masked vectors; the masks cancel
    4. s = decode(sum)

    Reveals: s to every party. A coalition that leaves out at least two parties sees, of those, only the sum of their
    addends; a coalition of M - 1 learns the last addend, as it does from s itself.
    Cost: one round and 8 d bytes to each of M - 1 peers; with an aggregator two rounds and 16 d bytes a party.
    Ref: [PDML §SecSum, implementation-specific improvements].
    """

    def __init__(self, link: Link, keys: Keys, *, aggregator: int | None = None) -> None:
        self.link, self.masks, self.aggregator = link, Masks(keys), aggregator
        self._call = 0

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        form = Format.for_bound(bound, self.link.M)
        return form.decode(self.words(form.encode(x), purpose))

    def words(self, z: Ring, purpose: str, bits: int = 64) -> Ring:
        """The sum of ring vectors (any shape) in Z_2^bits, bits up to 64; only so many are sent, in whole bytes."""
        with self.link.clock("crypto"):
            masked = z.reshape(-1) + self.masks.words(purpose, self._next_call(), z.size, bits)
        return self._add_up(purpose, masked, bits).reshape(z.shape)

    def wide(self, z: list[int], purpose: str, bits: int) -> list[int]:
        """The sums of the integers in z modulo 2^bits; for a few scalars of any size."""
        size, modulus = bits // 8, 1 << bits
        with self.link.clock("crypto"):
            mask = self.masks.wide(purpose, self._next_call(), len(z), bits)
            sums = [(a + b) % modulus for a, b in zip(z, mask, strict=True)]
        own = b"".join(s.to_bytes(size, "little") for s in sums)
        for peer, data in self.link.all_to_all(f"sum:{purpose}", own).items():
            check_size(len(own), data.nbytes, peer)
            for i in range(len(z)):
                sums[i] += int.from_bytes(data[i * size : (i + 1) * size], "little")
        return [s % modulus for s in sums]

    def exact(self, x: float, purpose: str) -> float:
        """The sum of one float of each party, of whatever size: needs no bound."""
        return decode_exact(self.wide([encode_exact(x)], purpose, EXACT_BITS)[0])

    def _next_call(self) -> int:
        # One counter for all purposes: a (purpose, call) pair, and with it a mask, never comes twice in a run.
        self._call += 1
        return self._call

    def _add_up(self, purpose: str, masked: Ring, bits: int) -> Ring:
        link, root = self.link, self.aggregator
        own = ring.pack_words(masked, bits)
        if root is None:
            return _total(masked, link.all_to_all(f"sum:{purpose}", own), bits)
        outgoing = {} if link.me == root else {root: own}
        received = link.exchange(f"sum:{purpose}", outgoing, link.peers if link.me == root else [])
        total = ring.pack_words(_total(masked, received, bits), bits) if link.me == root else None
        return unpack(link.broadcast(f"total:{purpose}", total, root), masked.size, bits, root)


class ClearSum:
    """The same sum with nothing hidden: every party's vector travels as it is. For comparison only."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        # Added in the order of the parties, so that all get the same last bit.
        received = self.link.all_to_all(f"sum:{purpose}", x)
        addends = {l: _reals(data, x.size, l) for l, data in received.items()} | {self.link.me: x.reshape(-1)}
        total: Reals = np.sum([addends[l] for l in sorted(addends)], axis=0)
        return total.reshape(x.shape)

    def exact(self, x: float, purpose: str) -> float:
        return float(self(np.array([x]), 0.0, purpose)[0])


def choose_aggregator(setting: str, M: int) -> int | None:
    """The study's `aggregator`: "auto", "none" or a party's number."""
    if setting == "auto":
        return 0 if M > AGGREGATE_ABOVE else None
    return None if setting == "none" else int(setting)


def _total(own: Ring, received: dict[int, memoryview], bits: int) -> Ring:
    total = own.copy()
    for peer, data in received.items():
        total += unpack(data, own.size, bits, peer)
    return total & ring.low(bits)


def check_size(own: int, found: int, peer: int) -> None:
    """A peer's message is as long as ours."""
    if own != found:
        raise ProtocolError(
            f"P{peer} sent {found} bytes for a sum of {own} bytes.", "vectors of the same length", culprit=peer
        )


def unpack(data: memoryview, n: int, bits: int, peer: int) -> Ring:
    """The n numbers of a peer's message, each below 2^bits."""
    check_size(-(-bits // 8) * n, data.nbytes, peer)
    return ring.unpack_words(data, n, bits)


def _reals(data: memoryview, n: int, peer: int) -> NDArray[np.float64]:
    check_size(8 * n, data.nbytes, peer)
    reals: Reals = np.frombuffer(data, "<f8")
    return reals
