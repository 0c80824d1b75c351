"""All-but-one OT: the sender has 2^depth leaf keys per tree, the receiver gets all of them but one.

A forest is an array of trees of equal depth, each with its own hash (`prg.Forest` states the security level). Leaf j of
a tree is reached by the bits of j, the highest first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.ot.prg import BLOCK, WORD, Blocks, Forest, random_blocks


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
