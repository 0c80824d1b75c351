"""From 128 base OTs as many random OTs as wanted, in both directions: OT extension over small fields, one message per
batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot import ggm, group
from pdml_spdz.ot.base_ots import base_ots, base_size, reply_size
from pdml_spdz.ot.prg import BLOCK, WORD, BlockHash, Blocks, Forest, Streams, digest, random_bits
from pdml_spdz.transport.base import Link

SECURITY = 128  # base OTs, and bits of the sender's secret offset
DEPTH = 4  # kappa: 2^4 streams for every 4 bits of the offset, 4 bytes sent per OT (depth 1 is IKNP, 16 bytes)
TREES = SECURITY // DEPTH
ALIGN = 8 * BLOCK  # OTs per AES block of a stream: positions are multiples of it
FIRST = ALIGN  # OTs that the other direction begins with; streams are read from there on


class Receiver:
    """One end: for choice bits r it gets keys H(t_i), one of each pair. Owns the trees."""

    def __init__(self, hashing: BlockHash, leaves: Blocks, forest: Forest) -> None:
        self.hashing, self._leaves, self._nonces, self.position = hashing, leaves, forest.nonces, FIRST

    def extend(self, choices: NDArray[np.bool_]) -> tuple[Blocks, bytes]:
        """The keys (n, 2) for n choice bits, and the message for the sender."""
        words = _words(len(choices))
        trees, start = self._streams, self.position
        self.position += words * 64
        t, corrections = np.empty((TREES, DEPTH, words), WORD), np.empty((TREES, words), WORD)
        for i, streams in enumerate(trees):
            corrections[i], t[i] = _fold(streams.rows(words))
        return self._keys(choices, start, corrections, t)

    @cached_property
    def _streams(self) -> list[Streams]:
        """Of every tree, read on from call to call: to begin them takes as long as thousands of OTs."""
        first = self.position // ALIGN
        return [Streams(leaves, None, first, nonce) for leaves, nonce in zip(self._leaves, self._nonces, strict=True)]

    def begin(self, forest: Forest, choices: NDArray[np.bool_]) -> tuple[Blocks, bytes]:
        """The very first OTs, FIRST of them."""
        return self._keys(choices, 0, *_fold(forest.expand(self._leaves, 1, 0)[:, :, 0]))

    def _keys(
        self, choices: NDArray[np.bool_], start: int, u: NDArray[np.uint64], t: NDArray[np.uint64]
    ) -> tuple[Blocks, bytes]:
        n, words = len(choices), u.shape[-1]
        padded = np.zeros(words * 64, np.bool_)  # bits that no OT is made from: nothing hides behind them
        padded[:n] = choices
        u ^= np.packbits(padded, bitorder="little").view(WORD)
        keys = self.hashing.tweaked(transpose(t.reshape(SECURITY, words))[:n], _tweaks(start, n))
        return keys, u.tobytes()


class Sender:
    """The other end: it gets both keys of each pair, H(q_i) and H(q_i ^ offset). Knows all leaves but one per tree."""

    def __init__(self, hashing: BlockHash, leaves: Blocks, forest: Forest, holes: NDArray[np.int64]) -> None:
        self.hashing, self._leaves, self._nonces, self._holes = hashing, leaves, forest.nonces, holes
        self.position = FIRST
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
        trees, start = self._streams, self.position
        self.position += words * 64
        u, t = np.empty((TREES, words), WORD), np.empty((TREES, DEPTH, words), WORD)
        for i, streams in enumerate(trees):
            u[i], t[i] = _fold(streams.rows(words))
        return self._pairs(n, start, message, u, t)

    @cached_property
    def _streams(self) -> list[Streams]:
        """As the receiver's, without the leaf that is not known."""
        parts, first = zip(self._leaves, self._holes, self._nonces, strict=True), self.position // ALIGN
        return [Streams(leaves, int(hole), first, nonce) for leaves, hole, nonce in parts]

    def begin(self, forest: Forest, message: memoryview) -> Blocks:
        """The very first OTs, FIRST of them."""
        x = forest.expand(self._leaves, 1, 0)[:, :, 0]
        x[np.arange(TREES), self._holes] = 0  # what is there is not the leaf's
        return self._pairs(FIRST, 0, message, *_fold(x))

    def _pairs(self, n: int, start: int, message: memoryview, u: NDArray[np.uint64], t: NDArray[np.uint64]) -> Blocks:
        # What the missing leaf would add to u and to t cancels: q = offset * (u ^ correction) ^ t.
        u ^= np.frombuffer(message, WORD).reshape(u.shape)
        t ^= np.where(self._bits[:, :, None] != 0, u[:, None], 0)
        rows, tweaks = transpose(t.reshape(SECURITY, -1))[:n], _tweaks(start, n)
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
    _made: OTs | None = None  # what `prepare` made and nobody has taken yet

    def label(self, purpose: bytes) -> bytes:
        """A public value, the same at all parties and another one at every call."""
        self._labels += 1
        return digest(purpose, self.session, self._labels.to_bytes(8, "little"))

    def take(self, n: int) -> OTs | None:
        """The next n that are made already."""
        made = self._made
        if made is None or len(made.choices) < n:
            return None
        self._made = made.part(n, len(made.choices))
        return made.part(0, n)


@dataclass(frozen=True)
class OTs:
    """n random OTs for every ordered pair.

    choices : this party's bits as receiver, the same with every sender
    pairs   : by peer, as sender, (n, 2, 2)
    keys    : by peer, as receiver: the one of each of its pairs that `choices` says, (n, 2)
    """

    choices: NDArray[np.bool_]
    pairs: dict[int, Blocks]
    keys: dict[int, Blocks]

    def part(self, first: int, last: int) -> OTs:
        cut = slice(first, last)
        pairs, keys = ({peer: some[cut] for peer, some in blocks.items()} for blocks in (self.pairs, self.keys))
        return OTs(self.choices[cut], pairs, keys)


def set_up(link: Link, session: bytes) -> Ends:
    """Start OT extension with every peer, in both directions.

    For each pair of parties, l below m:

    1. `base_ots`, l choosing: m gets 128 pairs, l the keys of random bits;
    2. m sends trees of depth 4 under these pairs (`ggm.send`), l gets all leaves but one of each; the numbers of the
       missing leaves, 4 bits for each tree, are l's secret `offset` as OT sender;
    3. of these trees' first blocks l gets 128 pairs and m the keys of random bits (`extend`; one block of each leaf is
       as much as its tree's hash gives, and cheaper than a stream);
    4. l sends trees under them, and m is OT sender, too.

    *Reveals:* nothing.
    *Cost:* 4 rounds; 128 * (32 + 64 + 4) + 32 bytes from m to l and 128 * (16 + 32) from l to m, about 15 ms of one
    core for both.
    *Ref:* Roy, "SoftSpokenOT", CRYPTO 2022 (the semi-honest variant); random OTs are as good as base OTs.
    """
    senders: dict[int, Sender] = {}
    receivers: dict[int, Receiver] = {}
    offsets = {peer: random_bits(SECURITY) for peer in link.peers}
    made, opening = base_ots(link, session, {peer: offsets[peer] for peer in link.above}, SECURITY)
    keys, outgoing = {}, {}
    for peer in link.below:
        pairs, masked = made[peer]
        receivers[peer], forest, trees = _plant(session, link.me, peer, pairs)
        keys[peer], corrections = receivers[peer].begin(forest, offsets[peer])
        outgoing[peer] = masked + trees + corrections
    sizes = _tree_sizes()
    messages = link.exchange_exactly("ot:trees", outgoing, link.above, sum(sizes))
    outgoing = {}
    for peer in link.above:
        parts = _cut(messages[peer], sizes)
        senders[peer], forest = _reach(session, link.me, peer, opening[peer].keys(parts[0]), offsets[peer], parts[1])
        receivers[peer], _, outgoing[peer] = _plant(session, link.me, peer, senders[peer].begin(forest, parts[2]))
    messages = link.exchange_exactly("ot:back", outgoing, link.below, sizes[1])
    for peer in link.below:
        senders[peer], _ = _reach(session, link.me, peer, keys[peer], offsets[peer], messages[peer])
    return Ends(senders, receivers, session)


def _plant(session: bytes, me: int, peer: int, pairs: Blocks) -> tuple[Receiver, Forest, bytes]:
    """This party as OT receiver of `peer`, and the trees for it."""
    hashing = BlockHash(_label(session, sender=peer, receiver=me))
    forest = hashing.forest(TREES)
    leaves, message = ggm.send(forest, pairs, DEPTH)
    return Receiver(hashing, leaves, forest), forest, message


def _reach(
    session: bytes, me: int, peer: int, keys: Blocks, offset: NDArray[np.bool_], message: memoryview
) -> tuple[Sender, Forest]:
    """This party as OT sender to `peer`."""
    hashing = BlockHash(_label(session, sender=me, receiver=peer))
    forest = hashing.forest(TREES)
    leaves = ggm.receive(forest, keys, offset, DEPTH, message)
    return Sender(hashing, leaves, forest, ggm.holes_of(offset, DEPTH)), forest


def _tree_sizes() -> tuple[int, int, int]:
    """Bytes of the keys, trees and corrections that step 2 and 3 send."""
    return base_size(SECURITY), ggm.message_size(TREES, DEPTH), message_size(FIRST)


def set_up_sizes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Bytes of the messages of `set_up` from the party above to the one below, and back."""
    keys, trees, corrections = _tree_sizes()
    return (group.SIZE, keys + trees + corrections), (reply_size(SECURITY), trees)


def _cut(message: memoryview, sizes: tuple[int, ...]) -> list[memoryview]:
    return [message[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def prepare(link: Link, ends: Ends, n: int) -> None:
    """Make n OTs for the next calls of `extend`: one large batch costs less than several small ones."""
    ends._made = None
    ends._made = extend(link, ends, n)


def extend(link: Link, ends: Ends, n: int) -> OTs:
    """n more random OTs for every ordered pair.

    For each ordered pair, with x_j the stream of leaf j of tree i (n bits):

    1. (receiver) u = XOR_j x_j, t_b = XOR_{j with bit b} x_j; sends u ^ r for its random choices r, the same for all
       senders; after all trees, row m of the t's is t_m;
    2. (sender)   from all x_j but that of its hole, q_b = offset_b * (u ^ (u ^ r)) ^ t_b; so q_m = t_m ^ r_m * offset;
    3. both hash: the pair is H(m, q_m), H(m, q_m ^ offset), and the receiver's key is H(m, t_m).

    *Reveals:* nothing: u contains the stream of the leaf that the sender lacks; H is correlation robust.
    *Cost:* 1 round, none if they are made already (`prepare`); 4 bytes for each OT, from the receiver to the sender.
    *Ref:* Ishai, Kilian, Nissim, Petrank, CRYPTO 2003; Roy, "SoftSpokenOT", CRYPTO 2022.
    """
    if made := ends.take(n):
        return made
    choices = random_bits(n)
    results = {peer: ends.receivers[peer].extend(choices) for peer in link.peers}
    outgoing = {peer: message for peer, (_, message) in results.items()}
    messages = link.exchange_all("ot:extend", outgoing, message_size(n))
    pairs = {peer: ends.senders[peer].extend(n, messages[peer]) for peer in link.peers}
    return OTs(choices, pairs, {peer: keys for peer, (keys, _) in results.items()})


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


def _fold(x: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """XOR_j x_j, and for each bit b the XOR of the x_j with that bit in j, (..., DEPTH, words): halve again and again.

    x : (..., 2^DEPTH, words)
    """
    by_bit = np.empty((*x.shape[:-2], DEPTH, x.shape[-1]), WORD)
    for b in reversed(range(DEPTH)):
        with_bit, x = x[..., 1 << b :, :], x[..., : 1 << b, :]
        np.bitwise_xor.reduce(with_bit, axis=-2, out=by_bit[..., b, :])
        x = x ^ with_bit
    return x[..., 0, :], by_bit


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
