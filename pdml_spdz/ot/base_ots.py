"""Random base OTs from Diffie-Hellman on ristretto255, two for each point that is sent."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot import group
from pdml_spdz.ot.prg import BLOCK, WORD, Blocks, Digest, random_blocks
from pdml_spdz.transport.base import Link

OF = 4  # keys for each point: two choice bits. With sixteen the sender's subtractions cost what multiplications save


class BasePads:
    """Turns the shared point of choice number i between one ordered pair of parties into a pad of two blocks."""

    def __init__(self, session: bytes, sender: int, receiver: int, first: bytes) -> None:
        who = (sender.to_bytes(4, "little"), receiver.to_bytes(4, "little"))
        self._digest = Digest(b"pdml-base-ot", session, *who, first, size=2 * BLOCK)

    def __call__(self, i: int, point: bytes, shared: bytes) -> bytes:
        return self._digest(i.to_bytes(8, "little"), point, shared)


class BaseSender:
    """Gets `count` pairs of random keys; `first` is its first message."""

    def __init__(self, session: bytes, me: int, peer: int) -> None:
        self._peer = peer
        self._a = group.random_scalar()
        self.first = group.base_times(self._a)
        self._pads = BasePads(session, me, peer, self.first)

    def pairs(self, reply: memoryview, count: int) -> tuple[Blocks, bytes]:
        """The pairs, shape (count, 2, 2), from the receiver's points, and what gives the receiver one key of each."""
        if len(reply) != reply_size(count):
            raise _malformed(self._peer, f"{len(reply)} bytes", f"{reply_size(count)} bytes of points")
        _, *multiples = _multiples(group.times(self._a, self.first))
        raw = bytearray()
        for i, start in enumerate(range(0, len(reply), group.SIZE)):
            point = _point(reply[start : start + group.SIZE], self._peer)
            shared = group.times(self._a, point)
            for other in (shared, *(group.sub(shared, multiple) for multiple in multiples)):
                raw += self._pads(i, point, other)
        pairs = random_blocks(count, 2)
        masked = np.frombuffer(raw, WORD).reshape(count // 2, OF, 2, 2)
        of_two, number = pairs.reshape(count // 2, 2, 2, 2), np.arange(OF)
        both = np.stack([of_two[:, 0, number >> 1], of_two[:, 1, number & 1]], axis=2)
        return pairs, (masked ^ both).tobytes()


class BaseReceiver:
    """Gets the key of each pair that its bit in `choices` says; they are an even number."""

    def __init__(self, session: bytes, me: int, peer: int, choices: NDArray[np.bool_]) -> None:
        self._session, self._me, self._peer = session, me, peer
        self._numbers = choices[0::2] * 2 + choices[1::2]
        self._pads: Blocks = np.zeros((0, 2, 2), WORD)

    def reply(self, message: memoryview) -> bytes:
        """The points to send back."""
        first = _point(message, self._peer)
        pads, multiples = BasePads(self._session, self._peer, self._me, first), _multiples(first)
        points, raw = bytearray(), bytearray()
        for i, number in enumerate(self._numbers.tolist()):
            b = group.random_scalar()
            point = group.add(group.base_times(b), multiples[number])
            points += point
            raw += pads(i, point, group.times(b, first))
        self._pads = np.frombuffer(raw, WORD).reshape(-1, 2, 2)
        return bytes(points)

    def keys(self, message: memoryview) -> Blocks:
        """Shape (count, 2)."""
        masked = np.frombuffer(message, WORD).reshape(-1, OF, 2, 2)
        return np.asarray(masked[np.arange(len(masked)), self._numbers] ^ self._pads).reshape(-1, 2)


def base_ots(
    link: Link, session: bytes, choices: Mapping[int, NDArray[np.bool_]], count: int
) -> tuple[dict[int, tuple[Blocks, bytes]], dict[int, BaseReceiver]]:
    """Random 1-of-2 OTs with every peer: this party chooses with those above it, those below it choose with this one.

    For each pair (sender above, receiver below), with G the group's generator and H the hash `BasePads`:

    1. the sender draws a and sends first = a*G;
    2. the receiver draws b_i for each number c_i < 4, two of its choice bits, and sends point_i = b_i*G + c_i*first;
    3. the sender's pads are H(i, a*point_i - j*a*first) for j < 4, the receiver's is H(i, b_i*first): that of j = c_i;
    4. the sender draws two pairs of keys for each i; under pad j it sends one key of each, those that the two bits of j
       choose.

    link : the mesh; choices : this party's bits as receiver, by peer above it, `count` of each, an even number
    Returns the pairs (count, 2, 2) with the message of step 4, which is not sent yet, by peer below; and by peer above
    who opens it.

    *Reveals:* nothing: point_i is uniform whatever c_i is; any other pad needs a^2*G (computational Diffie-Hellman,
    H a random oracle). Semi-honest: a receiver that deviates is not caught.
    *Cost:* 2 rounds, and step 4's message; 32 bytes, 16 * count and 64 * count; about 3 multiplications of a point and
    5 sums for two OTs.
    *Ref:* Chou and Orlandi, "The simplest protocol for oblivious transfer", Latincrypt 2015 (1-of-n); Naor and Pinkas,
    "Computationally secure oblivious transfer", J. Cryptology 2005 (pairs of keys from it).
    """
    senders = {peer: BaseSender(session, link.me, peer) for peer in link.below}
    receivers = {peer: BaseReceiver(session, link.me, peer, choices[peer]) for peer in link.above}
    first = link.exchange_exactly("ot:base-a", {l: s.first for l, s in senders.items()}, link.above, group.SIZE)
    replies = {peer: receiver.reply(first[peer]) for peer, receiver in receivers.items()}
    points = link.exchange_exactly("ot:base-b", replies, link.below, reply_size(count))
    return {peer: sender.pairs(points[peer], count) for peer, sender in senders.items()}, receivers


def reply_size(count: int) -> int:
    """Bytes of the points for `count` OTs."""
    return count // 2 * group.SIZE


def base_size(count: int) -> int:
    """Bytes of the keys under pads for `count` OTs."""
    return count // 2 * OF * 2 * BLOCK


def _multiples(point: bytes) -> list[bytes]:
    """0, 1, 2 and 3 times the point: so that choosing takes the same time whatever is chosen."""
    return list(accumulate(repeat(point, OF - 1), group.add, initial=group.ZERO))


def _point(raw: memoryview, peer: int) -> bytes:
    point = bytes(raw)
    if not group.is_point(point):
        raise _malformed(peer, f"{len(point)} bytes that are no group element", "an element of ristretto255")
    return point


def _malformed(peer: int, found: str, wanted: str) -> ProtocolError:
    return ProtocolError(
        f"P{peer} sent {found} in a base OT.",
        wanted,
        "start all parties with the same study file and version",
        culprit=peer,
    )
