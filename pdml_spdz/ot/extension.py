"""Random base OTs from Diffie-Hellman on ristretto255, for every ordered pair of a mesh at once, and from 128 of them
as many random OTs as wanted: OT extension over small fields, one message per batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot import ggm, group
from pdml_spdz.ot.prg import BLOCK, WORD, BlockHash, Blocks, Streams, digest, random_bits
from pdml_spdz.transport.base import Link

SECURITY = 128  # base OTs, and bits of the sender's secret offset
DEPTH = 4  # kappa: 2^4 streams for every 4 bits of the offset, 4 bytes sent per OT (depth 1 is IKNP, 16 bytes)
TREES = SECURITY // DEPTH
ALIGN = 8 * BLOCK  # OTs per AES block of a stream: positions are multiples of it


class Receiver:
    """One end: for choice bits r it gets keys H(t_i), one of each pair. Owns the trees."""

    def __init__(self, hashing: BlockHash, leaves: Blocks, nonces: list[int]) -> None:
        self.hashing, self._leaves, self._nonces, self.position = hashing, leaves, nonces, 0

    def extend(self, choices: NDArray[np.bool_]) -> tuple[Blocks, bytes]:
        """The keys (n, 2) for n choice bits, and the message for the sender."""
        n, words = len(choices), _words(len(choices))
        padded = np.zeros(words * 64, np.bool_)  # bits that no OT is made from: nothing hides behind them
        padded[:n] = choices
        r = np.packbits(padded, bitorder="little").view(WORD)
        start, self.position = self.position, self.position + words * 64
        t, corrections = np.empty((TREES, DEPTH, words), WORD), np.empty((TREES, words), WORD)
        for i in range(TREES):
            u, t[i] = _fold(_streams(self._leaves[i], None, start, words, self._nonces[i]))
            corrections[i] = u ^ r
        keys = self.hashing.tweaked(transpose(t.reshape(SECURITY, words))[:n], _tweaks(start, n))
        return keys, corrections.tobytes()


class Sender:
    """The other end: it gets both keys of each pair, H(q_i) and H(q_i ^ offset). Knows all leaves but one per tree."""

    def __init__(self, hashing: BlockHash, leaves: Blocks, nonces: list[int], holes: NDArray[np.int64]) -> None:
        self.hashing, self._leaves, self._nonces, self._holes, self.position = hashing, leaves, nonces, holes, 0
        self._bits = holes[:, None] >> np.arange(DEPTH) & 1  # offset bit b of tree i, (TREES, DEPTH)
        self._offset = np.packbits(self._bits.astype(np.uint8).reshape(-1), bitorder="little").view(WORD)

    def extend(self, n: int, message: memoryview) -> Blocks:
        """n pairs of keys, shape (n, 2, 2)."""
        words = _words(n)
        if len(message) != message_size(n):
            raise ProtocolError(
                f"an OT message has {len(message)} bytes.",
                f"{message_size(n)} bytes for {n} OTs",
                "start all parties with the same study file and version",
            )
        start, self.position = self.position, self.position + words * 64
        corrections = np.frombuffer(message, WORD).reshape(TREES, words)
        q = np.empty((TREES, DEPTH, words), WORD)
        for i in range(TREES):
            u, t = _fold(_streams(self._leaves[i], int(self._holes[i]), start, words, self._nonces[i]))
            # What the missing leaf would add to u and to t cancels: q = offset * (u ^ correction) ^ t.
            q[i] = t ^ np.where(self._bits[i, :, None] != 0, u ^ corrections[i], 0)
        rows, tweaks = transpose(q.reshape(SECURITY, words))[:n], _tweaks(start, n)
        pairs = np.empty((n, 2, 2), WORD)
        pairs[:, 0] = self.hashing.tweaked(rows, tweaks)
        pairs[:, 1] = self.hashing.tweaked(rows ^ self._offset, tweaks)
        return pairs


@dataclass
class Ends:
    """One party's ends of the OT extensions with all its peers, both directions."""

    senders: dict[int, Sender]
    receivers: dict[int, Receiver]
    session: bytes
    _labels: int = 0

    def label(self, purpose: bytes) -> bytes:
        """A public value, the same at all parties and another one at every call."""
        self._labels += 1
        return digest(purpose, self.session, self._labels.to_bytes(8, "little"))


def set_up(link: Link, session: bytes) -> Ends:
    """Start OT extension with every peer, in both directions.

    For each ordered pair (OT sender, OT receiver):

    1. `base_ots` with the roles exchanged: the OT receiver gets 128 pairs, the OT sender the keys of random bits;
    2. the OT receiver sends trees of depth 4 under these pairs (`ggm.send`), the OT sender gets all leaves but
       one of each; the numbers of the missing leaves, 4 bits for each tree, are its secret `offset`.

    *Reveals:* nothing.
    *Cost:* 3 rounds; 128 * (32 + 32) + 32 bytes for each ordered pair, about 25 ms of one core for both ends.
    *Ref:* Roy, "SoftSpokenOT", CRYPTO 2022 (the semi-honest variant).
    """
    choices = {peer: random_bits(SECURITY) for peer in link.peers}
    pairs, keys = base_ots(link, session, choices, SECURITY)
    receivers, outgoing = {}, {}
    for peer in link.peers:
        hashing = BlockHash(_label(session, sender=peer, receiver=link.me))
        forest = hashing.forest(TREES)
        leaves, outgoing[peer] = ggm.send(forest, pairs[peer], DEPTH)
        receivers[peer] = Receiver(hashing, leaves, forest.nonces)
    messages = link.exchange_all("ot:trees", outgoing, ggm.message_size(TREES, DEPTH))
    senders = {}
    for peer in link.peers:
        hashing = BlockHash(_label(session, sender=link.me, receiver=peer))
        forest = hashing.forest(TREES)
        leaves = ggm.receive(forest, keys[peer], choices[peer], DEPTH, messages[peer])
        senders[peer] = Sender(hashing, leaves, forest.nonces, ggm.holes_of(choices[peer], DEPTH))
    return Ends(senders, receivers, session)


def extend(
    link: Link, ends: Ends, choices: Mapping[int, NDArray[np.bool_]], n: int
) -> tuple[dict[int, Blocks], dict[int, Blocks]]:
    """n more random OTs for every ordered pair; `choices[peer]` are this party's n bits as receiver.

    For each ordered pair, with x_j the stream of leaf j of tree i (n bits):

    1. (receiver) u = XOR_j x_j, t_b = XOR_{j with bit b} x_j; sends u ^ r; after all trees, row m of the t's is t_m;
    2. (sender)   from all x_j but that of its hole, q_b = offset_b * (u ^ (u ^ r)) ^ t_b; so q_m = t_m ^ r_m * offset;
    3. both hash: the pair is H(m, q_m), H(m, q_m ^ offset), and the receiver's key is H(m, t_m).

    *Reveals:* nothing: u contains the stream of the leaf that the sender lacks; H is correlation robust.
    *Cost:* 1 round; 4 bytes for each OT, from the receiver to the sender.
    *Ref:* Ishai, Kilian, Nissim, Petrank, CRYPTO 2003; Roy, "SoftSpokenOT", CRYPTO 2022.
    """
    results = {peer: ends.receivers[peer].extend(choices[peer]) for peer in link.peers}
    outgoing = {peer: message for peer, (_, message) in results.items()}
    messages = link.exchange_all("ot:extend", outgoing, message_size(n))
    pairs = {peer: ends.senders[peer].extend(n, messages[peer]) for peer in link.peers}
    return pairs, {peer: keys for peer, (keys, _) in results.items()}


def _label(session: bytes, *, sender: int, receiver: int) -> bytes:
    return digest(b"pdml-ot-ext", session, sender.to_bytes(4, "little"), receiver.to_bytes(4, "little"), size=32)


def message_size(n: int) -> int:
    """Bytes that a receiver sends for n OTs."""
    return TREES * WORD.itemsize * _words(n)


def _words(n: int) -> int:
    """64-bit words per stream for n OTs, in whole AES blocks."""
    return -(-n // ALIGN) * (ALIGN // 64)


def _tweaks(start: int, n: int) -> NDArray[np.uint64]:
    return np.arange(start, start + n, dtype=WORD)


def _streams(leaves: Blocks, hole: int | None, start: int, words: int, nonce: int) -> NDArray[np.uint64]:
    """The next `words` of every leaf's stream, zeros for the leaf that is not known."""
    streams, out = Streams(leaves, hole, start // ALIGN, nonce), np.zeros((len(leaves), words), WORD)
    for j, row in enumerate(out):
        streams.fill(j, row)
    return out


def _fold(x: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """XOR_j x_j, and for each bit b the XOR of the x_j with that bit in j, (DEPTH, words): halve again and again."""
    depth = len(x).bit_length() - 1
    by_bit = np.empty((depth, x.shape[1]), WORD)
    for b in reversed(range(depth)):
        with_bit, x = x[1 << b :], x[: 1 << b]
        np.bitwise_xor.reduce(with_bit, axis=0, out=by_bit[b])
        x = x ^ with_bit
    return x[0], by_bit


def transpose(rows: NDArray[np.uint64]) -> Blocks:
    """The bit matrix (128, n) as n blocks: bit m of row r becomes bit r of block m. rows : (128, n/64).

    Bytes are moved so that each word holds an 8 x 8 bit square, the squares are transposed in place by three
    exchanges (Warren, "Hacker's Delight", 7-3), and the bytes are moved again.
    """
    squares = rows.view(np.uint8).reshape(SECURITY // 8, 8, -1).transpose(0, 2, 1)
    x = np.ascontiguousarray(squares).view(WORD)[..., 0]
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        moved = (x ^ x >> np.uint64(shift)) & np.uint64(mask)
        x ^= moved ^ moved << np.uint64(shift)
    columns = np.ascontiguousarray(x).view(np.uint8).reshape(SECURITY // 8, -1)  # byte row g, column m
    return np.ascontiguousarray(columns.T).view(WORD)


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


def base_ots(
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
    first = link.exchange_all("ot:base-a", {peer: s.first for peer, s in senders.items()}, group.SIZE)
    replies = {peer: r.reply(first[peer]) for peer, r in receivers.items()}
    outgoing = {peer: message for peer, (message, _) in replies.items()}
    points = link.exchange_all("ot:base-b", outgoing, count * group.SIZE)
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
