"""SecSum: the sum of the parties' vectors, and nothing else. [PDML §SecSum]"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, WORD, Format, Reals, Ring, wrapped
from pdml_spdz.primitives.masks import Keys, Masks
from pdml_spdz.transport.base import Link

# Above this many parties a full mesh of vectors costs more than two trips through one party.
AGGREGATE_ABOVE = 5


# Sums of non-negative numbers start from here: data whose squares add up to more take some more rounds.
ORDINARY, HIGHEST = 64, 1000
# A sum that is at least 2^-ENOUGH of its bound shows all but so many of the bits that it may show.
ENOUGH = 3
NONCE = 32  # bytes
REST_BITS = 40  # of a sum that is small beside its addends


@dataclass(frozen=True)
class Accuracy:
    """How much of a sum is opened.

    unit : its last place, 0 if all of it is
    tolerance : how far off it may be, float64's own rounding not counted
    """

    unit: float
    tolerance: float


EXACT = Accuracy(0.0, 0.0)


class SecSum(Protocol):
    """What algorithms receive: the sum over all parties of x, each addend at most `bound` in size."""

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals: ...

    def accuracy(self, bound: float) -> Accuracy: ...


class EngineSum(SecSum, Protocol):
    """What an engine offers: SecSum of reals within a bound, of reals of any size, of integers, and of flags."""

    @property
    def link(self) -> Link: ...

    def positive(self, x: Reals, purpose: str, bits: int = OPENED_BITS) -> Reals: ...

    def rest(self, x: Reals, unit: float, purpose: str) -> Reals: ...

    def integer(self, n: int, purpose: str) -> int: ...

    def anywhere(self, flags: Sequence[bool], purpose: str) -> list[bool]: ...


class MaskedSum:
    """The sum of M vectors by masks that cancel, to 44 bits below their bound.

    1. z_m = encode(x_m), checked against the bound before anything is sent
    2. y_m = z_m + sum_l (F_kml(j) - F_klm(j)) in Z_2^64, without its low `drop` bits
    3. m sends y_m to every party, or to the aggregator alone
    4. everyone (or the aggregator, who sends the result back) adds the M vectors in Z_2^(64 - drop); the masks cancel
       but for carries of what was dropped, which is uniform for every party
    5. s = decode(sum), with the mean of what was dropped added

    Reveals: s, to OPENED_BITS bits below the bound, with a random last place, to every party. A coalition that leaves
    out at least two parties sees, of those, vectors that are uniform but for the sum of their z_m: the same
    distribution for every split of it, in the last place too. (Bits dropped, or noise added, before the mask would show
    how the sum splits.) A coalition of M - 1 learns the last addend, as it does from s itself.
    Cost: one round and 6 d bytes to each of M - 1 peers (7 d from 8 parties on); with an aggregator two rounds, 12 d
    bytes a party.
    Ref: [PDML §SecSum, implementation-specific improvements].
    """

    def __init__(self, link: Link, keys: Keys, *, aggregator: int | None = None) -> None:
        self.link, self.masks, self.aggregator = link, Masks(keys), aggregator
        self._call = 0

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        return self._reals(x, Format.for_bound(bound, self.link.M), purpose)

    def accuracy(self, bound: float) -> Accuracy:
        form = Format.for_bound(bound, self.link.M)
        return Accuracy(form.unit, form.tolerance)

    def positive(self, x: Reals, purpose: str, bits: int = OPENED_BITS) -> Reals:
        """The sums of numbers that are zero or more and of any size, each to `bits` bits below its own size.

        1. which sums are zero (all their addends are), and whether any number is beyond 2^ORDINARY <- anywhere
        2. t <- ORDINARY, or HIGHEST, for every sum: no addend is larger than 2^t
        3. v <- SecSum(x / 2^t), to `bits` bits below 1
        4. a sum with v >= 2^-ENOUGH is done; for the others t is lowered to what v shows that no sum exceeds, and so no
           addend either; back to 3

        Reveals: every sum, to `bits` bits below its own size, and what follows from that: how often step 3 is
        repeated. That some number is beyond 2^ORDINARY.
        Cost: one round for step 1, 8 bytes a number and peer, and for step 3 one round for every 40 bits between 2^64
        and the sum, and at most two more, 6 bytes for each number that is left. Ref: -
        """
        own = _check_positive(x).reshape(-1)
        *live, beyond = self.anywhere([*(own > 0), bool(np.any(own >= 2.0**ORDINARY))], purpose)
        form = Format.for_bound(1.0, self.link.M, bits)
        s, t = np.zeros(own.size), np.full(own.size, HIGHEST if beyond else ORDINARY)
        left = np.flatnonzero(live)
        while left.size:
            v = self._reals(np.ldexp(own[left], -t[left]), form, purpose)
            s[left] = np.ldexp(v, t[left])
            t[left] += np.frexp(v + form.tolerance)[1]
            left = left[v < 2.0**-ENOUGH]
        return s.reshape(x.shape)

    def rest(self, x: Reals, unit: float, purpose: str) -> Reals:
        """Sums that are known to be below 2^REST_BITS units, a power of two, whatever their addends are.

        1. z_m = x_m in parts of the unit, modulo 2^64: addends may wrap, for their sum does not
        2. s <- SecSum(z_m), without the bits below the unit

        Reveals: s, to the unit, with a random last place. Cost: as of a SecSum. Ref: -
        """
        drop = WORD - 1 - REST_BITS - self.link.M.bit_length()
        form = Format(drop - math.frexp(unit)[1] + 1, self.link.M, drop)
        return form.decode(self.words(wrapped(np.ldexp(x, form.f)), purpose, drop=drop))

    def integer(self, n: int, purpose: str) -> int:
        """The sum of one integer of each party, exactly: for numbers that everyone may know, such as that of all rows.

        1. s <- SecSum(n_m) in Z_2^64, nothing dropped

        Reveals: s. Cost: one round, 8 bytes a peer. Ref: as above.
        """
        if abs(n) >= 2**63 // self.link.M:
            raise QuotaError(f"an integer to be summed is {n}; it was not sent.", "one below 2^63 / M in size")
        return int(self.words(np.array([n], np.int64).view(np.uint64), purpose).view(np.int64)[0])

    def anywhere(self, flags: Sequence[bool], purpose: str) -> list[bool]:
        """For each flag, whether any party has set it.

        1. party m inputs a fresh uniform number where its flag is set, and 0 where it is not
        2. s <- SecSum in Z_2^64: zero if no party has set the flag, and else uniform

        Reveals: the disjunction, not who or how many; and to a party that has set its flag whether another one has too
        (s less its own number is zero or not). A flag that is set is missed once in 2^64.
        Cost: one round, 8 bytes a flag and peer. Ref: -
        """
        own = ring.random(len(flags), WORD)[:, 0] * np.array(flags, np.uint64)
        return [bool(s) for s in self.words(own, purpose)]

    def _reals(self, x: Reals, form: Format, purpose: str) -> Reals:
        return form.decode(self.words(form.encode(x), purpose, drop=form.drop))

    def words(self, z: Ring, purpose: str, bits: int = WORD, drop: int = 0) -> Ring:
        """The sum of ring vectors (any shape) in Z_2^bits, bits up to 64, without their low `drop` bits.

        Only so many bits are sent, in whole bytes.
        """
        with self.link.clock("crypto"):
            masked = self.masks.words(purpose, self._next_call(), z.size, self.link.heard, bits)
            masked += z.reshape(-1)
            masked >>= np.uint64(drop)
        return self._add_up(purpose, masked, bits - drop).reshape(z.shape)

    def wide(self, z: list[int], purpose: str, bits: int, drop: int = 0, *, committed: bool = False) -> list[int]:
        """The sums of the integers in z modulo 2^bits, without their low `drop` bits; for a few scalars of any size.

        What is dropped is dropped from masked numbers: the carries that are lost are the same for every split of a sum.

        committed : each party first sends a hash of its addends and of 32 random bytes, so that none can choose its own
            by those of others. Cost: one round more
        """
        size, modulus = -(-(bits - drop) // 8), 1 << bits - drop
        with self.link.clock("crypto"):
            mask = self.masks.wide(purpose, self._next_call(), len(z), self.link.heard, bits)
            sums = [(a + b) % (1 << bits) >> drop for a, b in zip(z, mask, strict=True)]
        own = b"".join(s.to_bytes(size, "little") for s in sums)
        own += secrets.token_bytes(NONCE) if committed else b""
        hashes = self.link.all_to_all(f"commit:{purpose}", _commitment(self.link.me, own)) if committed else {}
        for peer, data in self.link.all_to_all(f"sum:{purpose}", own).items():
            check_size(len(own), data.nbytes, peer)
            if committed and _commitment(peer, data) != bytes(hashes[peer]):
                raise ProtocolError(
                    f"P{peer} opened other numbers than it had committed itself to.",
                    "parties that follow the protocol",
                    f"P{peer} deviates: no result of this run is to be trusted",
                    culprit=peer,
                )
            for i in range(len(z)):
                sums[i] += int.from_bytes(data[i * size : (i + 1) * size], "little")
        return [s % modulus for s in sums]

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
        received = link.exchange(f"sum:{purpose}", outgoing, link.each(own.nbytes) if link.me == root else {})
        total = ring.pack_words(_total(masked, received, bits), bits) if link.me == root else None
        return unpack(link.broadcast(f"total:{purpose}", total, root, most=own.nbytes), masked.size, bits, root)


class ClearSum:
    """The same sum with nothing hidden: every party's vector travels as it is. For comparison only."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        # Added in the order of the parties, so that all get the same last bit.
        received = self.link.all_to_all(f"sum:{purpose}", x)
        most = 2.0 * bound or 2.0**HIGHEST  # what a party that follows the protocol stays below
        addends = {l: _reals(data, x.size, l, most) for l, data in received.items()} | {self.link.me: x.reshape(-1)}
        total: Reals = np.sum([addends[l] for l in sorted(addends)], axis=0)
        return total.reshape(x.shape)

    def accuracy(self, bound: float) -> Accuracy:
        return EXACT

    def positive(self, x: Reals, purpose: str, bits: int = OPENED_BITS) -> Reals:
        return self(_check_positive(x), 0.0, purpose)

    def rest(self, x: Reals, unit: float, purpose: str) -> Reals:
        return self(x, 0.0, purpose)

    def integer(self, n: int, purpose: str) -> int:
        return round(float(self(np.array([float(n)]), 0.0, purpose)[0]))

    def anywhere(self, flags: Sequence[bool], purpose: str) -> list[bool]:
        return [bool(s) for s in self(np.array(flags, np.float64), 0.0, purpose)]


def masked_sum(link: Link, run: bytes, aggregator: str) -> MaskedSum:
    """With fresh keys for this run. aggregator : as in the study"""
    return MaskedSum(link, Keys.agree(link, run), aggregator=choose_aggregator(aggregator, link.M))


def choose_aggregator(setting: str, M: int) -> int | None:
    """The study's `aggregator`: "auto", "none" or a party's number."""
    if setting == "auto":
        return 0 if M > AGGREGATE_ABOVE else None
    return None if setting == "none" else int(setting)


def positive_tolerance(M: int, bits: int = OPENED_BITS) -> float:
    """How far a sum of M numbers by `positive` may be off, relative to itself."""
    off = Format.for_bound(1.0, M, bits).tolerance
    return off / (2.0**-ENOUGH - off)


def _check_positive(x: Reals) -> Reals:
    if not np.all((x >= 0) & (x < 2.0**HIGHEST)):  # NaN must not pass
        raise QuotaError(
            "a number to be summed is negative, too large or not a number; it was not sent.",
            f"numbers from 0 to 2^{HIGHEST}",
            "scale the data",
        )
    return x


def _commitment(party: int, addends: bytes | memoryview) -> bytes:
    return hashlib.sha256(f"P{party} ".encode() + addends).digest()


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


def _reals(data: memoryview, n: int, peer: int, most: float) -> NDArray[np.float64]:
    check_size(8 * n, data.nbytes, peer)
    reals: Reals = np.frombuffer(data, "<f8")
    if not np.all(np.abs(reals) <= most):  # NaN must not pass
        raise ProtocolError(f"P{peer} sent numbers beyond the bound of a sum.", f"at most {most:g}", culprit=peer)
    return reals
