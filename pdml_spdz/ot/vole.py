"""VOLE over Z_2^k for ordered pairs of parties: w = u*delta + v, u and v at the sender, w and delta at the receiver.

A party has one u for all its receivers, and one delta for all its senders.

delta = sum_i 2^(kappa i) delta_i has one tree for each digit: of its 2^kappa leaves the receiver lacks leaf delta_i.
The leaves are made once for each delta; each of them is the key of a stream as long as anyone needs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.ring import Vector, limbs
from pdml_spdz.ot import extension, ggm
from pdml_spdz.ot.ggm import Columns, Horner, LeafSums, settle, to_columns, to_words
from pdml_spdz.ot.prg import Blocks
from pdml_spdz.transport.base import Link

KAPPA = 4  # bits per digit: 5 sends 0.81 times the bytes in 1.35 times the time, which pays below 200 Mbit/s
FEWER_BYTES = 5  # and where so few numbers are made that it is less than a tenth of a second (`on_demand.kappa_for`)
CHUNK = 8192  # elements worked on at a time: the sums stay in the cache. Both ends must have the same
HEADER = struct.Struct("<QQ")  # position and number of elements: a receiver elsewhere in the stream notices

Words: TypeAlias = "NDArray[np.uint64]"  # shape (w, n): limb by limb


@dataclass
class Digits:
    """How a number of k bits is cut, and where in its streams an end is. Equal at both ends."""

    bits: int
    kappa: int
    position: int = 0

    def __len__(self) -> int:
        return -(-self.bits // self.kappa)

    def take(self, n: int) -> int:
        """Move on by n elements (an even number); returns where they start. What is taken is never given again."""
        start, self.position = self.position, self.position + n + n % 2
        return start

    def words(self, i: int) -> int:
        """Limbs that the number of weight 2^(kappa i) needs."""
        return -(-self.width(i) // 64)

    def width(self, i: int) -> int:
        """Bits of a correction of weight 2^(kappa i)."""
        return self.bits - self.kappa * i

    def message_size(self, n: int) -> int:
        """Bytes that `VoleSender.extend(n)` sends."""
        lengths, widths = chunks(n), [self.width(i) for i in range(len(self))]
        return HEADER.size + sum(packed_size(length, width) for length in lengths for width in widths)


class Sums:
    """The sums over the leaves of each tree, from where an end is in their streams.

    keeps : whether these are read on from call to call: to begin them takes as long as hundreds of numbers, and memory,
            a kilobyte for each leaf
    """

    def __init__(self, digits: Digits, leaves: Blocks, nonces: Sequence[int], holes: Sequence[int | None]) -> None:
        self._digits, self.leaves, self.nonces, self._holes = digits, leaves, nonces, holes
        self.keeps, self._kept = False, dict[int, tuple[int, LeafSums]]()  # by tree: where they are, and they

    def of(self, i: int, start: int) -> LeafSums:
        """Of tree i, from element `start` on, all of what the end has taken last. Sums that a call left where they were
        (its message was refused) are begun anew."""
        reached, sums = self._kept.get(i, (-1, None))
        if sums is None or reached != start:
            sums = LeafSums(self.leaves[i], self._holes[i], start, self._digits.words(i), self.nonces[i])
        if self.keeps:
            self._kept[i] = self._digits.position, sums
        return sums

    def drop(self) -> None:
        """No more numbers are wanted."""
        self.keeps = False
        self._kept.clear()


class VoleSender:
    """The end with v, for any u: leaves of all trees, shape (digits, 2^kappa, 2), and a nonce for each tree."""

    def __init__(self, digits: Digits, leaves: Blocks, nonces: Sequence[int]) -> None:
        self.digits, self.sums = digits, Sums(digits, leaves, nonces, [None] * len(leaves))

    def extend(self, u: Vector) -> tuple[Vector, bytes]:
        """v of shape (n, L) for the u given, and the message for the receiver (steps 2 and 3 of `extend`)."""
        digits, n = self.digits, len(u)
        start, lengths = digits.take(n), chunks(n)
        message, columns = [HEADER.pack(start, n)], _split(u, lengths)
        v = [Horner(digits.kappa, length) for length in lengths]
        for i in range(len(digits) - 1, -1, -1):
            leaves = self.sums.of(i, start)
            for part, length in enumerate(lengths):
                u_i, weighted = leaves.next(length)
                message.append(_pack(to_words(settle(columns[part][: len(u_i)] - u_i)), digits.width(i)))
                v[part].step(-weighted)
        return _join([part.words() for part in v], n, digits.bits), b"".join(message)


class VoleReceiver:
    """The end with delta and w: all leaves but number delta_i of tree i, which is zeros."""

    def __init__(self, digits: Digits, leaves: Blocks, nonces: Sequence[int], holes: NDArray[np.int64]) -> None:
        self.digits, self._holes = digits, [int(hole) for hole in holes]
        self.sums = Sums(digits, leaves, nonces, self._holes)
        total = sum(int(hole) << (digits.kappa * i) for i, hole in enumerate(holes))
        self.delta = total & ((1 << digits.bits) - 1)  # the highest digit may stick out of the ring

    def extend(self, n: int, message: memoryview) -> Vector:
        """w of shape (n, L) for the sender's next n elements (step 4 of `extend`)."""
        start = self.digits.take(n)
        wanted = self.digits.message_size(n)
        found = HEADER.unpack(message[: HEADER.size]) if len(message) == wanted else ("?", "?")
        if found != (start, n):
            raise ProtocolError(
                f"a VOLE message of {len(message)} bytes for elements from {found[0]} on, {found[1]} of them.",
                f"{wanted} bytes, from {start} on, {n} of them",
                "use stocks that were made together; do not restore one party's from a copy",
            )
        lengths, offset = chunks(n), HEADER.size
        w = [Horner(self.digits.kappa, length) for length in lengths]
        for i in range(len(self.digits) - 1, -1, -1):
            hole, width = self._holes[i], self.digits.width(i)
            leaves = self.sums.of(i, start)
            for part, length in enumerate(lengths):
                u_i, weighted = leaves.next(length)
                size = packed_size(length, width)
                u_i += to_columns(_unpack(message[offset : offset + size], width, length))
                offset += size
                # delta_i * u + v_i: the missing leaf's part of u_i counts delta_i - delta_i = 0 times.
                w[part].step(hole * u_i - weighted)
        return _join([part.words() for part in w], n, self.digits.bits)


@dataclass
class VoleEnds:
    """One party's ends for one secret scalar: with each peer, sender and receiver of a VOLE."""

    senders: dict[int, VoleSender]
    receivers: dict[int, VoleReceiver]

    @property
    def delta(self) -> int:
        """This party's: the same as receiver from every peer."""
        return next(iter(self.receivers.values())).delta

    @property
    def bits(self) -> int:
        return next(iter(self.receivers.values())).digits.bits

    def keep(self) -> None:
        """For several calls of `extend`: streams are begun once."""
        for peer in self.senders:
            self.senders[peer].sums.keeps = self.receivers[peer].sums.keeps = True

    def drop(self) -> None:
        """Streams that were kept take a megabyte for each peer."""
        for peer in self.senders:
            self.senders[peer].sums.drop()
            self.receivers[peer].sums.drop()

    def random(self, n: int) -> Vector:
        """A u for `extend`."""
        return ring.random(n, self.bits)


def set_up(link: Link, ots: extension.Ends, bits: int, *, count: int = 1, kappa: int = KAPPA) -> list[VoleEnds]:
    """`count` fresh independent deltas for every party, uniform in Z_2^bits, each for the VOLEs with all its peers.

    For each ordered pair (sender, receiver), all trees of all deltas at once:

    1. (receiver) draws the digits of delta: its choice bits, the same with every sender, in kappa OTs for each digit;
    2. (sender)   sends trees of depth kappa under these OTs (`ggm.send`);
    3. (receiver) gets all leaves but number delta_i of tree i.

    *Reveals:* nothing.
    *Cost:* 2 rounds, `bits` OTs for each delta: 4 * bits bytes one way and 32 * bits bytes the other.
    *Ref:* as for `extend`.
    """
    if not 1 <= kappa <= 8:
        raise ValueError(f"digits of {kappa} bits: wanted 1 to 8")
    trees = len(Digits(bits, kappa))
    made = extension.extend(link, ots, ots_for(count, bits, kappa))
    shape = (count, trees, 1 << kappa, 2)
    mine, outgoing, theirs = {}, {}, {}
    forests = {peer: ots.senders[peer].hashing.forest(count * trees) for peer in link.peers}
    sources = {peer: ots.receivers[peer].hashing.forest(count * trees) for peer in link.peers}
    for peer in link.peers:
        leaves, outgoing[peer] = ggm.send(forests[peer], made.pairs[peer], kappa)
        mine[peer] = leaves.reshape(shape)
    messages = link.exchange_all("vole:trees", outgoing, ggm.message_size(count * trees, kappa))
    holes = ggm.holes_of(made.choices, kappa).reshape(count, trees)
    for peer in link.peers:
        leaves = ggm.receive(sources[peer], made.keys[peer], made.choices, kappa, messages[peer])
        theirs[peer] = leaves.reshape(shape)
    several = []
    for c in range(count):
        part = slice(c * trees, (c + 1) * trees)
        senders = {l: VoleSender(Digits(bits, kappa), mine[l][c], forests[l].nonces[part]) for l in link.peers}
        receivers = {
            l: VoleReceiver(Digits(bits, kappa), theirs[l][c], sources[l].nonces[part], holes[c]) for l in link.peers
        }
        several.append(VoleEnds(senders, receivers))
    return several


def ots_for(count: int, bits: int, kappa: int = KAPPA) -> int:
    """OTs that `set_up` takes."""
    return count * len(Digits(bits, kappa)) * kappa


@dataclass(frozen=True)
class Extended:
    """n elements at one party: its u, and by peer v as sender and w as receiver."""

    u: Vector
    v: dict[int, Vector]
    w: dict[int, Vector]

    def part(self, first: int, last: int) -> Extended:
        v, w = ({peer: some[first:last] for peer, some in of.items()} for of in (self.v, self.w))
        return Extended(self.u[first:last], v, w)


@dataclass(frozen=True)
class Correlation:
    """What a party keeps of n elements with every peer, w = u delta + v in both directions: the sum of all products of
    one's u and another's delta needs no more.

    pad : u; rest : the sum over l of w from l less v towards l
    """

    pad: Vector
    rest: Vector

    @classmethod
    def of(cls, made: Extended) -> Correlation:
        return cls(made.u, reduce(ring.add, (ring.sub(made.w[l], made.v[l]) for l in made.v)))

    @classmethod
    def join(cls, parts: Sequence[Correlation]) -> Correlation:
        if len(parts) == 1:
            return parts[0]
        return cls(np.concatenate([one.pad for one in parts]), np.concatenate([one.rest for one in parts]))

    def __len__(self) -> int:
        return len(self.pad)

    def part(self, base: int, size: int) -> Correlation:
        cut = slice(base, base + size)
        return Correlation(self.pad[cut], self.rest[cut])


def extend(link: Link, ends: VoleEnds, u: Vector) -> Extended:
    """More elements for every ordered pair under the deltas of `ends`.

    For each ordered pair, with x_ij the next n numbers of Z_2^(k - kappa i) in the stream of leaf j of tree i:

    1. (sender)   has u of length n, any numbers, the same for all its receivers;
    2. (sender)   u_i = sum_j x_ij, v_i = -sum_j j x_ij; v = sum_i 2^(kappa i) v_i;
    3. (sender)   sends u - u_i mod 2^(k - kappa i): the weight 2^(kappa i) removes what is above;
    4. (receiver) w_i = sum_{j != delta_i} (delta_i - j) x_ij + delta_i (u - u_i), which is delta_i u + v_i;
                  w = sum_i 2^(kappa i) w_i = u*delta + v.

    *Reveals:* nothing: each message is masked by the stream of the leaf that this receiver lacks, another one for each
    receiver, so that even all receivers together do not learn u.
    *Cost:* 1 round; about n * k^2 / (16 kappa) bytes, 4.1 MB for n = 10^4, k = 160, kappa = 4 (`Digits.message_size`).
    *Ref:* Roy, "SoftSpokenOT", CRYPTO 2022; Baum, Braun, Munch-Hansen, Scholl, "MozZ2karella", CRYPTO 2022
    (VOLE over Z_2^k); the truncated corrections after Gilboa, CRYPTO 1999.
    """
    return extend_all(link, [ends], [u])[0]


def extend_all(link: Link, several: Sequence[VoleEnds], us: Sequence[Vector]) -> list[Extended]:
    """`extend` for each of several deltas and a u for each, all of the same length, in one round."""
    made = [{l: ends.senders[l].extend(u) for l in link.peers} for ends, u in zip(several, us, strict=True)]
    outgoing = {peer: b"".join(one[peer][1] for one in made) for peer in link.peers}
    messages = link.exchange_all("vole:extend", outgoing, len(outgoing[link.peers[0]]))  # all as long as ours
    extended = []
    for i, (ends, u, one) in enumerate(zip(several, us, made, strict=True)):
        w = {}
        for peer in link.peers:
            whole = messages[peer]
            part = slice(*(len(whole) * j // len(several) for j in (i, i + 1)))  # all are of the same length
            w[peer] = ends.receivers[peer].extend(len(u), whole[part])
        extended.append(Extended(u, {peer: v for peer, (v, _) in one.items()}, w))
    return extended


def chunks(n: int) -> list[int]:
    """Even lengths, nearly equal and at most CHUNK, that cover n elements."""
    if n == 0:
        return []
    count = -(-n // CHUNK)
    length = -(-n // count)
    length += length % 2
    rest = n + n % 2
    return [min(length, rest - done) for done in range(0, rest, length)]


def _split(u: Vector, lengths: list[int]) -> list[Columns]:
    """A vector (n, L) as pieces in columns; the last is filled up with zeros."""
    words = np.zeros((u.shape[1], sum(lengths)), np.uint64)
    words[:, : len(u)] = u.T
    ends = np.cumsum([0, *lengths])
    return [to_columns(words[:, start:end]) for start, end in pairwise(ends)]


def _join(parts: list[Words], n: int, bits: int) -> Vector:
    """Pieces (L, m) side by side as a vector (n, L)."""
    out = np.empty((n, limbs(bits)), np.uint64)
    done = 0
    for part in parts:
        out[done : done + part.shape[1]] = part.T[: n - done]
        done += part.shape[1]
    if bits % 64:
        out[:, -1] &= ring.low(bits % 64)  # above is what the other end could use, where it got out
    return out


def packed_size(n: int, bits: int) -> int:
    """Bytes of n numbers of so many bits (`_pack`)."""
    return n * (bits // 8) + -(-n * (bits % 8) // 8)


def _pack(words: Words, bits: int) -> bytes:
    """The lowest bits of each number: whole limbs one after the other, whole bytes of the highest, and what is left of
    less than a byte, side by side."""
    whole, rest = divmod(bits // 8, 8)
    raw, over = words[:whole].tobytes(), bits % 8
    if rest or over:
        high = words[whole].view(np.uint8).reshape(-1, 8)
        raw += high[:, :rest].tobytes()
        if over:
            some = np.unpackbits(high[:, rest : rest + 1], axis=1, count=over, bitorder="little")
            raw += np.packbits(some, bitorder="little").tobytes()
    return raw


def _unpack(raw: memoryview, bits: int, n: int) -> Words:
    whole, rest = divmod(bits // 8, 8)
    over, end = bits % 8, n * (bits // 8)
    words = np.zeros((whole + bool(rest or over), n), np.uint64)
    words[:whole] = np.frombuffer(raw[: 8 * n * whole], np.uint64).reshape(whole, n)
    if rest or over:
        high = words[whole].view(np.uint8).reshape(n, 8)
        high[:, :rest] = np.frombuffer(raw[8 * n * whole : end], np.uint8).reshape(n, rest)
    if over:
        some = np.unpackbits(np.frombuffer(raw[end:], np.uint8), count=n * over, bitorder="little").reshape(n, over)
        high[:, rest] = np.packbits(some, axis=1, bitorder="little")[:, 0]
    return words
