"""Beaver triples for scalars of a wide power-of-two ring: additive shares of a, b and c = a*b mod 2^bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.ot import extension
from pdml_spdz.ot.prg import BLOCK, BlockHash, Blocks
from pdml_spdz.transport.base import Link

BITS = 512
GROUP = 16  # consecutive weights handled at once: 2^b * (16-bit digit) for b < 16 and their sums are exact in float64
BATCH = 256  # triples per two rounds: 4 MB of keys for each peer, larger batches are slower (cache)


@dataclass(frozen=True)
class Triples:
    """One party's shares, numbers in [0, 2^bits): sum a * sum b = sum c mod 2^bits over the parties."""

    bits: int
    a: list[int]
    b: list[int]
    c: list[int]

    def __len__(self) -> int:
        return len(self.a)

    def part(self, first: int, last: int) -> Triples:
        return Triples(self.bits, self.a[first:last], self.b[first:last], self.c[first:last])


def make(link: Link, ots: extension.Ends, n: int, bits: int = BITS) -> Triples:
    """n triples.

    1. For each ordered pair (l, m) one random OT for each bit i gives l the pads e0_i, e1_i and m the pad e_i, one of
       them; m's random choices, the same with every l, are the bits of its share b_m;
    2. party m draws its share a_m;
    3. l sends t_i = e0_i - e1_i + a_l mod 2^(bits - i): the weight 2^i removes what is above;
    4. m has y_i = e_i + b_m[i] t_i = e0_i + b_m[i] a_l, so that sum_i 2^i y_i = a_l b_m + sum_i 2^i e0_i.
    5. c_m = a_m b_m + sum over l of (sum_i 2^i y_i as receiver - sum_i 2^i e0_i as sender).

    *Reveals:* nothing: t_i is masked by the pad that m does not get.
    *Cost:* 2 rounds for every 256 triples; for each triple and ordered pair 512 OTs (2 kB, m to l) and 17 kB (l to m).
    *Ref:* Gilboa, "Two party RSA key generation", CRYPTO 1999; Keller, Orsini, Scholl, "MASCOT", CCS 2016.
    """
    if bits % 64:
        raise ValueError(f"triples of {bits} bits: wanted a multiple of 64")
    shares: tuple[list[int], list[int], list[int]] = ([], [], [])
    for done in range(0, n, BATCH):
        for share, more in zip(shares, _batch(link, ots, min(BATCH, n - done), bits), strict=True):
            share += more
    return Triples(bits, *shares)


def _batch(link: Link, ots: extension.Ends, n: int, bits: int) -> tuple[list[int], list[int], list[int]]:
    made = extension.extend(link, ots, n * bits)
    # OT number i * n + t belongs to bit i of triple t: the OTs of one group of weights are neighbours.
    chosen = np.ascontiguousarray(made.choices.reshape(bits, n).T)
    b = np.packbits(chosen, axis=1, bitorder="little").view(ring.WORD)
    a = ring.random(n, bits)
    cross = ring.to_ints(_cross_terms(link, ots, made, a))
    a_ints, b_ints, mask = ring.to_ints(a), ring.to_ints(b), (1 << bits) - 1
    return a_ints, b_ints, [(x * y + z) & mask for x, y, z in zip(a_ints, b_ints, cross, strict=True)]


def cross_terms(link: Link, ots: extension.Ends, a: ring.Vector, b: ring.Vector) -> ring.Vector:
    """This party's share of sum_{l != m} a_l b_m for b that it has: steps 1, 3 to 5, with choices that are corrected.

    1. Random OTs with choices r; m sends b ^ r, bit by bit, the same to every l, which exchanges the two pads of an OT
       where that is 1.

    *Reveals:* nothing: r is uniform, used once, and unknown to every l.
    *Cost:* 1 round more than `make`'s, and a bit for each OT. *Ref:* Beaver, "Precomputing oblivious transfer", 1995.
    """
    n, bits = len(a), 64 * a.shape[1]
    made = extension.extend(link, ots, n * bits)
    choices = np.unpackbits(b.view(np.uint8), axis=1, bitorder="little").T.astype(np.bool_).reshape(-1)
    correction = np.packbits(choices ^ made.choices).tobytes()
    pairs = {}
    for peer, raw in link.exchange_all(
        "triples:choices", dict.fromkeys(link.peers, correction), len(correction)
    ).items():
        flipped = np.unpackbits(np.frombuffer(raw, np.uint8), count=n * bits).astype(np.bool_)
        pairs[peer] = np.where(flipped[:, None, None], made.pairs[peer][:, ::-1], made.pairs[peer])
    return _cross_terms(link, ots, replace(made, choices=choices, pairs=pairs), a)


def _cross_terms(link: Link, ots: extension.Ends, made: extension.OTs, a: ring.Vector) -> ring.Vector:
    """This party's share of sum_{l != m} a_l b_m, steps 3 to 5."""
    n, bits = len(a), 64 * a.shape[1]
    total = ring.zeros(n, bits)
    outgoing = {}
    for peer in link.peers:
        share, outgoing[peer] = _send(ots.senders[peer].hashing, made.pairs[peer], a)
        total = ring.sub(total, share)
    messages = link.exchange_all("triples:send", outgoing, message_size(n, bits))
    for peer in link.peers:
        share = _receive(ots.receivers[peer].hashing, made.keys[peer], made.choices, n, messages[peer])
        total = ring.add(total, share)
    return total


def _send(hashing: BlockHash, pairs: Blocks, a: ring.Vector) -> tuple[ring.Vector, bytes]:
    """sum_i 2^i e0_i, and the message of all t_i."""
    n, bits = len(a), 64 * a.shape[1]
    digits, message = np.zeros((n, bits // GROUP)), []
    for low in range(0, bits, GROUP):
        keys = pairs[low * n : (low + GROUP) * n]
        e0, e1 = (_pad(hashing, keys[:, side], bits - low) for side in (0, 1))
        t = ring.add(ring.sub(e0, e1), np.tile(a[:, : e0.shape[1]], (GROUP, 1)))
        message += [ring.pack(t[rows], width).tobytes() for rows, width in _halves(n, bits - low)]
        _accumulate(digits, e0, low)
    return _carry(digits), b"".join(message)


def _receive(hashing: BlockHash, keys: Blocks, choices: NDArray[np.bool_], n: int, message: memoryview) -> ring.Vector:
    """sum_i 2^i y_i."""
    bits = len(choices) // n
    wanted = message_size(n, bits)
    if len(message) != wanted:
        raise ProtocolError(
            f"a message for {n} triples has {len(message)} bytes.",
            f"{wanted} bytes",
            "start all parties with the same study file and version",
        )
    digits, offset = np.zeros((n, bits // GROUP)), 0
    for low in range(0, bits, GROUP):
        group = slice(low * n, (low + GROUP) * n)
        e = _pad(hashing, keys[group], bits - low)
        t = np.empty_like(e)
        for rows, width in _halves(n, bits - low):
            size = n * width
            t[rows] = ring.unpack(message[offset : offset + size], 8 * n, width)
            offset += size
        _accumulate(digits, ring.add(e, np.where(choices[group, None], t, 0)), low)
    return _carry(digits)


def message_size(n: int, bits: int) -> int:
    """Bytes that a party sends to a peer for n triples, the OTs apart."""
    return sum(n * width for low in range(0, bits, GROUP) for _, width in _halves(n, bits - low))


def _halves(n: int, width: int) -> Iterator[tuple[slice, int]]:
    """Of the t of a group, those that are sent with the same number of bits: whole bytes, for eight weights at a time,
    so that n numbers of each take n * width bytes."""
    for i in range(GROUP // 8):
        yield slice(8 * n * i, 8 * n * (i + 1)), width - 8 * i


def _pad(hashing: BlockHash, keys: Blocks, bits: int) -> ring.Vector:
    """A pad of `bits` bits, in whole limbs, from each key."""
    w = -(-bits // 64)
    return np.ascontiguousarray(hashing.expand(keys, -(-bits // (8 * BLOCK))).reshape(len(keys), -1)[:, :w])


def _accumulate(digits: NDArray[np.float64], x: ring.Vector, low: int) -> None:
    """digits += sum_b 2^(low + b) x_b in base 2^16, for the GROUP numbers x_b of each triple; x : (GROUP * n, w)."""
    n, columns = digits.shape
    kept = columns - low // GROUP  # base-2^16 digits of x that 2^low does not push out of the ring
    pieces = x.view(np.uint16).reshape(GROUP, n, -1)[:, :, :kept].astype(np.float64)
    digits[:, low // GROUP :] += np.tensordot(2.0 ** np.arange(GROUP), pieces, axes=1)


def _carry(digits: NDArray[np.float64]) -> ring.Vector:
    """sum_i 2^(16 i) digits[:, i] mod 2^bits; the sums are integers below 2^53."""
    columns = digits.astype(np.int64)
    for i in range(columns.shape[1] - 1):
        columns[:, i + 1] += columns[:, i] >> 16
    return columns.astype(np.uint16).view(ring.WORD)
