"""All-but-one OT: the sender has 2^depth leaf keys per tree, the receiver gets all of them but one.

A forest is an array of trees of equal depth, each with its own hash (`prg.Forest` states the security level). Leaf j of
a tree is reached by the bits of j, the highest first.

And the arithmetic of VOLE on leaf streams: sums of many pseudorandom vectors in Z_2^(64 w), carries settled once. A
number is held in columns of 32-bit digits, shape (2w, n), as int64 with room above (and below) the 32 bits, so that
sums, small multiples and differences need no carry until `settle`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot.prg import BLOCK, WORD, Blocks, Forest, Streams, random_blocks


def grow(forest: Forest, depth: int) -> tuple[Blocks, Blocks]:
    """Fresh trees: leaves (trees, 2^depth, 2), and for every level the XOR of its left and of its right nodes,
    sums (trees, depth, 2, 2) by tree, level and side."""
    trees = len(forest)
    nodes = random_blocks(trees, 1)
    sums = np.empty((trees, depth, 2, 2), WORD)
    for level in range(depth):
        nodes = forest.children(nodes)
        sums[:, level] = _side_sums(nodes)
    return nodes, sums


def puncture(forest: Forest, known: Blocks, holes: NDArray[np.int64]) -> Blocks:
    """The leaves of each tree but number holes[tree], which is left as zeros: no key is there.

    known : (trees, depth, 2), at each level the sum of the side that the path to the hole does not take
    """
    trees, depth, _ = known.shape
    every = np.arange(trees)
    nodes = np.zeros((trees, 1, 2), WORD)
    path = np.zeros(trees, np.int64)
    for level in range(depth):
        nodes = forest.children(nodes)
        bit = holes >> (depth - 1 - level) & 1
        # The children of the unknown node on the path are not children of zeros: clear them, then get the
        # one beside the path as what is missing from its side's sum.
        nodes[every, 2 * path] = nodes[every, 2 * path + 1] = 0
        nodes[every, 2 * path + 1 - bit] = known[:, level] ^ _side_sums(nodes)[every, 1 - bit]
        path = 2 * path + bit
    return nodes


def path_choices(holes: NDArray[np.int64], depth: int) -> NDArray[np.bool_]:
    """The choice bits (trees * depth) with which the receiver asks for all but the holes."""
    return np.asarray(holes[:, None] >> np.arange(depth)[::-1] & 1 == 0).reshape(-1)


def holes_of(choices: NDArray[np.bool_], depth: int) -> NDArray[np.int64]:
    """The inverse of `path_choices`: which leaves random choice bits leave out."""
    bits = ~choices.reshape(-1, depth)
    return np.asarray(bits @ (1 << np.arange(depth)[::-1]), np.int64)


def send(forest: Forest, pairs: Blocks, depth: int) -> tuple[Blocks, bytes]:
    """Leaves (trees, 2^depth, 2) of the forest's trees, and the message that gives the receiver all but one of each.

    1. (sender)   grows the trees and sends sums ^ pairs, `depth` random OTs for each tree;
    2. (receiver) opens one side of each level with `keys`: the side that the path to its hole does not take;
    3. (receiver) rebuilds everything beside the path (`puncture`).

    *Reveals:* to the receiver, every leaf but one of each tree; to the sender, nothing.
    *Cost:* one message, 32 * depth bytes for each tree; `depth` OTs for each tree.
    *Ref:* Goldreich, Goldwasser, Micali, JACM 1986; Schoppmann, Gascon, Reichert, Raykova, "Distributed
    vector-OLE", CCS 2019.
    """
    leaves, sums = grow(forest, depth)
    return leaves, (sums ^ pairs.reshape(sums.shape)).tobytes()


def message_size(trees: int, depth: int) -> int:
    """Bytes of the message of `send`."""
    return 2 * BLOCK * trees * depth


def receive(forest: Forest, keys: Blocks, choices: NDArray[np.bool_], depth: int, message: memoryview) -> Blocks:
    """The receiver's side of `send`: keys (trees * depth, 2) are its random OTs' outputs for `choices`."""
    wanted = message_size(len(keys) // depth, depth)
    if len(message) != wanted:
        raise ProtocolError(
            f"a message of trees has {len(message)} bytes.",
            f"{wanted} bytes",
            "start all parties with the same study file and version",
        )
    masked = np.frombuffer(message, WORD).reshape(-1, 2, 2)
    known = masked[np.arange(len(masked)), choices.astype(np.int64)] ^ keys
    return puncture(forest, known.reshape(-1, depth, 2), holes_of(choices, depth))


def _side_sums(nodes: Blocks) -> Blocks:
    """(trees, 2m, 2) -> (trees, 2, 2): the XOR of the even nodes and of the odd nodes."""
    trees, count, _ = nodes.shape
    return np.asarray(np.bitwise_xor.reduce(nodes.reshape(trees, count // 2, 2, 2), axis=1))


Columns: TypeAlias = "NDArray[np.int64]"  # shape (2w, n)

HALF, MASK = np.int64(32), np.int64(0xFFFFFFFF)


class LeafSums:
    """(sum_j x_j, sum_j j x_j) over the leaves j of one tree except `hole`, for the w-limb numbers x_j that follow
    each other in the stream of leaf j.

    leaves   : (2^kappa, 2)
    position : the number of the first element, even: it is read at AES block position * w / 2, so that ranges of
               elements that do not meet are parts of the streams that do not meet
    nonce    : the tree's
    """

    def __init__(self, leaves: Blocks, hole: int | None, position: int, w: int, nonce: int) -> None:
        self._streams, self._w = Streams(leaves, hole, position * w // 2, nonce), w

    def next(self, n: int) -> tuple[Columns, Columns]:
        """The sums for the next n elements, an even number (limb by limb in the stream, as the AES writes it).

        The second sum is a sum of sums: for j = 2^kappa - 1, ..., 1 add x_j to s, then s to t. A limb's sum s
        mod 2^64 and the sum h of its upper halves determine the sum of its lower halves, s - 2^32 h, so carries are
        not watched leaf by leaf; the top limb needs none.
        """
        x, s, t = (np.zeros((self._w, n), WORD) for _ in range(3))
        upper, h_s, h_t = (np.zeros((self._w - 1, n), WORD) for _ in range(3))
        for j in range(len(self._streams) - 1, -1, -1):
            if self._streams.fill(j, x):
                s += x
                if self._w > 1:
                    np.right_shift(x[:-1], np.uint64(32), out=upper)
                    h_s += upper
            if j:
                t += s
                h_t += h_s
        return _columns(s, h_s), _columns(t, h_t)


def _columns(s: NDArray[np.uint64], h: NDArray[np.uint64]) -> Columns:
    w, n = s.shape
    out = np.empty((w, 2, n), WORD)
    out[:-1, 1] = h
    out[:-1, 0] = s[:-1] - (h << np.uint64(32))
    out[-1, 0], out[-1, 1] = s[-1] & np.uint64(0xFFFFFFFF), s[-1] >> np.uint64(32)
    return out.reshape(2 * w, n).view(np.int64)


def settle(columns: Columns) -> Columns:
    """The same numbers mod 2^(64 w) with every digit in [0, 2^32), in place. (The shift of a negative digit is
    arithmetic: it borrows.)"""
    for i in range(len(columns) - 1):
        columns[i + 1] += columns[i] >> HALF
    columns &= MASK
    return columns


def to_columns(words: NDArray[np.uint64]) -> Columns:
    """(w, n) limbs to columns."""
    w, n = words.shape
    out = np.empty((w, 2, n), np.int64)
    out[:, 0] = words & np.uint64(0xFFFFFFFF)
    out[:, 1] = words >> np.uint64(32)
    return out.reshape(2 * w, n)


def to_words(columns: Columns) -> NDArray[np.uint64]:
    """Settled columns to (w, n) limbs."""
    digits = columns.view(WORD)
    return np.asarray(digits[0::2] | digits[1::2] << np.uint64(32))


class Horner:
    """sum_i 2^(kappa i) y_i, fed from the highest digit down; y_i has as many limbs as its weight leaves of k."""

    def __init__(self, kappa: int, n: int) -> None:
        self._kappa, self._sum = np.int64(kappa), np.zeros((0, n), np.int64)

    def step(self, y: Columns) -> None:
        """Take in the next lower digit's number; overwrites `y`."""
        y[: len(self._sum)] += self._sum << self._kappa
        self._sum = settle(y)

    def words(self) -> NDArray[np.uint64]:
        return to_words(self._sum)
