"""Many numbers of VOLE from few: the numbers are those of LPN, and VOLE is linear.

With a secret r of VOLE, w_r = r delta + v_r, and VOLE of the sparse noise, w_e = e delta + v_e, the numbers u = A r + e
have w = A w_r + w_e = u delta + v. A party keeps of r only what it would keep of other numbers (`vole.Correlation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.ot import extension, ggm, vole
from pdml_spdz.ot.lpn import BASE, STEP, Code, LpnParameters, Uncarried, digits, settled
from pdml_spdz.ot.prg import BLOCK, WORD, Blocks, Forest
from pdml_spdz.ot.vole import Correlation
from pdml_spdz.transport.base import Link

ROWS = 1 << 14  # numbers worked on at a time: they stay in the cache


@dataclass
class Budget:
    """Blocks that one secret has served, and when it must give way to a new one."""

    lpn: LpnParameters
    used: int = 0

    def take(self, blocks: int, *, last: bool) -> bool:
        """Count these; True if `kept` others have to be made first, to be the next secret."""
        if self.used + self.lpn.kept > self.lpn.blocks:
            raise ValueError("numbers of LPN after the last ones")
        renewed = self.used + blocks + (0 if last else self.lpn.kept) > self.lpn.blocks
        self.used = blocks if renewed else self.used + blocks
        return renewed


@dataclass(frozen=True)
class BlockNoise:
    """VOLE of the noise of some blocks: everything of their numbers that does not depend on r.

    rest : (n, c), what is added to A times the secret's rest; at : (blocks,), where the noisy numbers are
    odd : (blocks, c), these
    """

    rest: Uncarried
    at: NDArray[np.int64]
    odd: Uncarried

    def part(self, first: int, last: int) -> BlockNoise:
        """Some of the blocks."""
        block, cut = len(self.rest) // len(self.at), slice(first, last)
        return BlockNoise(self.rest[block * first : block * last], self.at[cut] - block * first, self.odd[cut])


class Source:
    """Numbers under the deltas of `ends`, as many as wanted; r is made anew before it has served too often.

    secret : r; None: by OT, with the noise of the first blocks
    """

    def __init__(
        self, link: Link, ots: extension.Ends, ends: vole.VoleEnds, lpn: LpnParameters, secret: Correlation | None
    ) -> None:
        self._link, self._ots, self._ends, self._lpn = link, ots, ends, lpn
        self._bits = ends.bits
        self._budget = Budget(lpn)
        self._begun = secret is not None
        if secret is not None:
            self._renew(secret)

    def _renew(self, secret: Correlation) -> None:
        """Use these numbers, which nobody else may."""
        if len(secret) != self._lpn.secret:
            raise ValueError(f"a secret of {len(secret)} numbers: wanted {self._lpn.secret}")
        parts = [digits(part, self._bits) for part in (secret.pad, secret.rest)]
        self._secret = np.concatenate(parts, axis=1)
        self._code = Code(self._lpn.secret, np.frombuffer(self._ots.label(b"pdml-lpn-code"), WORD))

    def next(self, n: int, *, last: bool) -> Correlation:
        """About n numbers (`blocks_for`); last : if these are as many, none will be wanted after them."""
        blocks = blocks_for(n, self._lpn)
        last = last and blocks * self._lpn.block >= n
        renewed = self._budget.take(blocks, last=last)
        first, *others = together(blocks, self._lpn, renewed=renewed)
        noise = self._noise(first)
        if renewed:
            self._renew(self._combine(noise.part(0, self._lpn.kept)))
            noise = self._noise(*others) if others else noise.part(self._lpn.kept, first)
        return self._combine(noise)

    def _noise(self, blocks: int) -> BlockNoise:
        """For so many further blocks.

        1. each party draws for every block the place of its noise and an odd number, the same for all its receivers;
           these few numbers are VOLE's own (`vole.extend`), and so is the first r, which is made with them;
        2. for each ordered pair and block, the receiver gives the sender all leaves of a tree but that place
           (`ggm.send`); a leaf is the key of one number x_j;
        3. (receiver) w_e = x; sends z = sum_j x_j - w, w being that of the noise's VOLE, w = e delta + v;
        4. (sender)   v_e = x where it has x, and z + v - (sum of the x that it has) = x - e delta where it lacks it;
        5. everyone   A times its secret, plus the noise's part (`_combine`).

        *Reveals:* nothing: z is masked by the leaf that the sender lacks, u by LPN.
        *Cost:* 3 rounds; for each ordered pair and block 4 + 32 bytes a level of its tree, k/8 bytes and a number of
        VOLE (`message_sizes`).
        *Ref:* Boyle, Couteau, Gilboa, Ishai, "Compressing vector OLE", CCS 2018; Schoppmann, Gascon, Reichert,
        Raykova, "Distributed vector-OLE", CCS 2019; `lpn`.
        """
        link, ots, depth = self._link, self._ots, self._lpn.depth
        odd, new = self._ends.random(blocks), 0 if self._begun else self._lpn.secret
        odd[:, 0] |= np.uint64(1)
        made_by_ot = vole.extend(link, self._ends, np.concatenate([self._ends.random(new), odd]))
        if not self._begun:
            self._renew(Correlation.of(made_by_ot.part(0, new)))
            self._begun = True
        noise = made_by_ot.part(new, new + blocks)
        made = extension.extend(link, ots, blocks * depth)
        holes = ggm.holes_of(made.choices, depth)
        c = self._bits // BASE
        rest, outgoing = np.zeros((blocks << depth, c)), {}
        for peer in link.peers:
            forest = ots.senders[peer].hashing.forest(blocks)
            leaves, trees = ggm.send(forest, made.pairs[peer], depth)
            z = settled(_add_leaves(rest, forest, leaves, 1.0) - digits(noise.w[peer], self._bits))
            outgoing[peer] = trees + ring.to_wire(z, self._bits).tobytes()  # no bit that no leaf masks
        cut = ggm.message_size(blocks, depth)
        messages = link.exchange_all("vole:noise", outgoing, cut + blocks * self._bits // 8)
        at = (np.arange(blocks) << depth) + holes
        for peer in link.peers:
            forest, message = ots.receivers[peer].hashing.forest(blocks), messages[peer]
            theirs = _masked(message[cut:], blocks, self._bits, peer)
            leaves = ggm.receive(forest, made.keys[peer], made.choices, depth, message[:cut])
            got = _add_leaves(rest, forest, leaves, -1.0, holes)
            rest[at] -= theirs + digits(noise.v[peer], self._bits) - got
        return BlockNoise(rest, at, digits(odd, self._bits))

    def _combine(self, noise: BlockNoise) -> Correlation:
        """Step 5, some blocks at a time."""
        rest, at, odd = noise.rest, noise.at, noise.odd
        n, c = rest.shape
        L = ring.limbs(self._bits)
        made = Correlation(np.empty((n, L), WORD), np.empty((n, L), WORD))
        for first in range(0, n, ROWS):
            rows = slice(first, min(n, first + ROWS))
            sums = self._code.times(self._secret, rows.stop - first)
            noisy = slice(first >> self._lpn.depth, rows.stop >> self._lpn.depth)
            sums[at[noisy] - first, :c] += odd[noisy]
            made.pad[rows] = settled(sums[:, :c])
            made.rest[rows] = settled(sums[:, c:] + rest[rows])
        return made


def blocks_for(n: int, lpn: LpnParameters) -> int:
    """Blocks that one step makes when n numbers are wanted."""
    return min(lpn.step, -(-n // lpn.block))


def together(blocks: int, lpn: LpnParameters, *, renewed: bool) -> tuple[int, ...]:
    """Blocks whose noise is made at a time: with those of a new secret, where memory has room for both."""
    if not renewed:
        return (blocks,)
    whole = lpn.kept + blocks
    return (whole,) if whole <= STEP // lpn.block else (lpn.kept, blocks)


def message_sizes(n: int, bits: int, lpn: LpnParameters, *, first: int = 0, kappa: int = vole.KAPPA) -> Iterator[int]:
    """Bytes of every message to a peer for n numbers, made in steps as large as they may be.

    first : numbers of the first r, where it is made with them; kappa : of their VOLE
    """
    budget, vole_digits = Budget(lpn), vole.Digits(bits, kappa)
    while n > 0:
        blocks = blocks_for(n, lpn)
        n -= blocks * lpn.block
        renewed = budget.take(blocks, last=n <= 0)
        for made in together(blocks, lpn, renewed=renewed):
            yield vole_digits.message_size(first + made)
            yield extension.message_size(made * lpn.depth)
            yield ggm.message_size(made, lpn.depth) + made * bits // 8
            first = 0


def _add_leaves(
    total: Uncarried, forest: Forest, leaves: Blocks, sign: float, holes: NDArray[np.int64] | None = None
) -> Uncarried:
    """total += sign * (the numbers of these leaves), zero at the holes; returns the sum of each tree's numbers."""
    (trees, block, _), c = leaves.shape, total.shape[1]
    sums, step, keys = np.empty((trees, c)), ROWS // block, -(-BASE * c // (8 * BLOCK))
    for first in range(0, trees, step):
        some = slice(first, min(trees, first + step))
        count = some.stop - first
        words = forest.expand(leaves[some], keys, first).reshape(count, block, 2 * keys)
        x = words.view("<u4")[:, :, :c].astype(np.float64)
        if holes is not None:
            x[np.arange(count), holes[some]] = 0
        sums[some] = x.sum(axis=1)
        total[first * block : some.stop * block] += sign * x.reshape(-1, c)
    return sums


def _masked(raw: memoryview, n: int, bits: int, peer: int) -> Uncarried:
    """The z of n blocks."""
    wanted = n * bits // 8
    if len(raw) != wanted:
        raise ProtocolError(
            f"P{peer}'s message of noise has {len(raw)} bytes after its trees.",
            f"{wanted} bytes",
            "start all parties with the same study file and version",
        )
    return ring.from_wire(raw, bits).astype(np.float64)
