"""Random base OTs from Diffie-Hellman on ristretto255, for every ordered pair of a mesh at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot import group
from pdml_spdz.ot.prg import WORD, Blocks, digest
from pdml_spdz.transport.base import Link


class BaseTranscript:
    """Turns the shared point of OT number i between one ordered pair of parties into a key."""

    def __init__(self, session: bytes, sender: int, receiver: int) -> None:
        self._who = (session, sender.to_bytes(4, "little"), receiver.to_bytes(4, "little"))

    def key(self, i: int, first: bytes, point: bytes, shared: bytes) -> bytes:
        return digest(b"pdml-base-ot", *self._who, i.to_bytes(8, "little"), first, point, shared)


class BaseSender:
    """Gets `count` pairs of random keys; `first` is its one message."""

    def __init__(self, session: bytes, me: int, peer: int) -> None:
        self._peer, self._transcript = peer, BaseTranscript(session, me, peer)
        self._a = group.random_scalar()
        self.first = group.base_times(self._a)

    def keys(self, reply: memoryview, count: int) -> Blocks:
        """The pairs, shape (count, 2, 2), from the receiver's points."""
        if len(reply) != count * group.SIZE:
            raise _malformed(self._peer, f"{len(reply)} bytes", f"{count} points of {group.SIZE} bytes")
        both = group.times(self._a, self.first)
        raw = bytearray()
        for i in range(count):
            point = _point(reply[group.SIZE * i : group.SIZE * (i + 1)], self._peer)
            shared = group.times(self._a, point)
            raw += self._transcript.key(i, self.first, point, shared)
            raw += self._transcript.key(i, self.first, point, group.sub(shared, both))
        return np.frombuffer(raw, WORD).reshape(count, 2, 2)


class BaseReceiver:
    """Gets the key of each pair that its bit in `choices` says."""

    def __init__(self, session: bytes, me: int, peer: int, choices: NDArray[np.bool_]) -> None:
        self._peer, self._transcript = peer, BaseTranscript(session, peer, me)
        self._choices = choices

    def reply(self, message: memoryview) -> tuple[bytes, Blocks]:
        """The points to send back, and the keys, shape (count, 2)."""
        first = _point(message, self._peer)
        points, raw = bytearray(), bytearray()
        for i, choice in enumerate(self._choices.tolist()):
            b = group.random_scalar()
            plain = group.base_times(b)
            point = (plain, group.add(plain, first))[choice]  # both are computed: the time does not tell the bit
            points += point
            raw += self._transcript.key(i, first, point, group.times(b, first))
        return bytes(points), np.frombuffer(raw, WORD).reshape(-1, 2)


def run(
    link: Link, session: bytes, choices: Mapping[int, NDArray[np.bool_]], count: int
) -> tuple[dict[int, Blocks], dict[int, Blocks]]:
    """Random 1-of-2 OTs with every peer, in both directions at once.

    For each ordered pair (sender, receiver), with G the group's generator and H the hash `BaseTranscript.key`:

    1. the sender draws a and sends first = a*G;
    2. the receiver draws b_i for each i and sends point_i = b_i*G + c_i*first;
    3. the sender's keys are H(i, a*point_i) and H(i, a*point_i - a*first), the receiver's is H(i, b_i*first):
       the one of its bit c_i.

    link : the mesh; choices : this party's bits c as receiver, by peer, `count` of each
    Returns the pairs (count, 2, 2) as sender and the chosen keys (count, 2) as receiver, by peer.

    *Reveals:* nothing: point_i is uniform whatever c_i is; the other key needs a^2*G (computational Diffie-Hellman,
    H a random oracle). Semi-honest: a receiver that deviates is not caught.
    *Cost:* 2 rounds; 32 bytes one way and 32 * count the other; about 3 multiplications of a point per OT in all.
    *Ref:* Chou and Orlandi, "The simplest protocol for oblivious transfer", Latincrypt 2015.
    """
    senders = {peer: BaseSender(session, link.me, peer) for peer in link.peers}
    receivers = {peer: BaseReceiver(session, link.me, peer, choices[peer]) for peer in link.peers}
    first = link.exchange("ot:base-a", {peer: s.first for peer, s in senders.items()}, link.peers)
    replies = {peer: r.reply(first[peer]) for peer, r in receivers.items()}
    points = link.exchange("ot:base-b", {peer: message for peer, (message, _) in replies.items()}, link.peers)
    pairs = {peer: s.keys(points[peer], count) for peer, s in senders.items()}
    return pairs, {peer: keys for peer, (_, keys) in replies.items()}


def _point(raw: memoryview, peer: int) -> bytes:
    point = bytes(raw)
    if not group.is_point(point):
        raise _malformed(peer, f"{len(point)} bytes that are no group element", "an element of ristretto255")
    return point


def _malformed(peer: int, found: str, wanted: str) -> ProtocolError:
    return ProtocolError(
        f"P{peer} sent {found} in a base OT.", wanted, "the same version of pdml-spdz at every party", culprit=peer
    )
