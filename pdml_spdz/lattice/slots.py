"""Shares of many small products (sum_m L_m)(sum_l R_l) mod 2^w, in slots: products that have nothing to do with each
other share ciphertexts.

A polynomial mod t is N numbers mod t, one in each slot, if all primes of t are 1 mod 2N: they are its values at the
2N-th roots of -1. Polynomials are multiplied slot by slot, and no number ever moves to another slot (`slot_packing`).
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import QuotaError, StudyError
from pdml_spdz.lattice import cost, ntt, sampling
from pdml_spdz.lattice.encryption import from_bytes
from pdml_spdz.lattice.ntt import Array, reduce_all
from pdml_spdz.lattice.packing import blocks
from pdml_spdz.lattice.product import ENCRYPTED, RETURNED, Progress, added, fits, public_keys
from pdml_spdz.lattice.residues import converted, digits_of, lifted, residues, to_ring
from pdml_spdz.lattice.slot_encryption import SlotHolder, SlotResponder
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link

PIECE = 16 << 20  # bytes of ciphertexts in a message
LEFT, RIGHT = 0, 1


def share_slot_products(
    link: Link, left: ring.Vector, right: ring.Vector, parameters: SlotParameters, *, progress: Progress | None = None
) -> ring.Vector:
    """This party's shares of (sum_m L_m)(sum_l R_l) mod 2^w, for all products of `parameters.packing.shapes`.

    left : this party's left matrices one after the other, row by row, signed numbers of numerics/ring.py
    right : its right ones
    Returns the products in the same way.

    1. Each party draws a key of this call and sends its public sample.
    2. Of each two parties h and m, one, h, encrypts its numbers L_h and R_h, a unit of N slots after the other, modulo
       each t, and sends them.
    3. m returns sum_j L_m R_h + L_h R_m + mask, with a fresh encryption of zero and flooding; minus the mask is its
       share of these cross terms.
    4. h decrypts: its share. All are integers, for T is larger than a result with its mask, and go to Z_2^w at the end.
       Each adds up its shares and its own L_m R_m.

    *Reveals:* nothing, to M - 1 colluding parties, if ring-LWE is hard (docs/security.md): up to the statistical
    distances 2^`parameters.distance` and 2^`parameters.mask_distance`.
    *Cost:* 1 round, and for each unit one for 16 MB of ciphertexts and one for responses; bytes are `parameters.sent`.
    *Ref:* slots as in Smart, Vercauteren, "Fully homomorphic SIMD operations" (Designs, Codes and Cryptography 2014);
    both cross terms in one response as in Keller, Pastro, Rotaru, "Overdrive" (EUROCRYPT 2018), LowGear, where each is
    one by itself; otherwise as `product.share_product`.
    """
    return _SlotProducts(link, left, right, parameters, progress)()


class _SlotProducts:
    """One party's part of `share_slot_products`."""

    def __init__(
        self, link: Link, left: ring.Vector, right: ring.Vector, p: SlotParameters, progress: Progress | None
    ) -> None:
        self._link, self._p, self._progress = link, p, progress
        if p.M != link.M:
            raise StudyError(f"parameters for {p.M} parties in a run of {link.M}.")
        _check("left", left, sum(n * i for n, i, _ in p.packing.shapes), p.left_bits)
        _check("right", right, sum(i * c for _, i, c in p.packing.shapes), p.right_bits)
        with link.clock("crypto"):
            self._numbers = _residues(left, p), _residues(right, p)
            self._holder = SlotHolder(p)
        self._size, self._answer = (cost.ciphertext_bytes(p.N, primes) for primes in (p.count, len(p.travel)))
        self._at_once = max(1, PIECE // self._size)
        counts = [2 * depth * p.groups for depth in p.depths]
        self._labels = list(accumulate(counts, initial=1))  # of each unit's first ciphertext: no two have the same
        self._done, self._steps = 0, sum(blocks(count, self._at_once) + 1 for count in counts)

    def __call__(self) -> ring.Vector:
        p, link = self._p, self._link
        out = ring.zeros(p.packing.results, p.w)
        with link.clock("crypto"):
            self._keys = public_keys(link, p, self._holder)
            self._responders = {peer: SlotResponder(p, key) for peer, key in self._keys.items()}
            for unit in range(len(p.depths)):
                answering = [peer for peer in link.peers if holds(link.me, peer, unit, link.M)]
                asking = [peer for peer in link.peers if peer not in answering]
                sums = self._receive(unit, answering, asking)
                shares = added([self._own(unit), *self._return(sums, answering)])
                self._put(out, shares, unit)
        return out

    def _receive(self, unit: int, answering: list[int], asking: list[int]) -> dict[int, list[Array]]:
        """Send this party's ciphertexts; of each peer that asks, sum_j L_m R_h + L_h R_m: for each t, transforms
        (primes, 2, N).
        """
        p, link = self._p, self._link
        sums = {peer: [np.zeros((p.count, 2, p.N)) for _ in p.parts] for peer in asking}
        order = [(j, side, g) for j in range(p.depths[unit]) for side in (LEFT, RIGHT) for g in range(p.groups)]
        for start in range(0, len(order), self._at_once):
            some = order[start : start + self._at_once]
            polynomials = {j: self._polynomials(unit, j) for j, _, _ in some}
            labels = range(self._labels[unit] + start, self._labels[unit] + start + len(some))
            outgoing: dict[int, NDArray[np.uint8]] = {}
            if answering:
                made = [
                    self._holder.encrypt(polynomials[j][side][g], g, label)
                    for (j, side, g), label in zip(some, labels, strict=True)
                ]
                outgoing = dict.fromkeys(answering, np.concatenate(made))
            received = link.exchange_exactly(ENCRYPTED, outgoing, asking, len(some) * self._size)
            for k, ((j, side, g), label) in enumerate(zip(some, labels, strict=True) if asking else ()):
                factor = self._factor(polynomials[j][RIGHT if side == LEFT else LEFT][g], g)
                for peer in asking:
                    raw = received[peer][k * self._size : (k + 1) * self._size]
                    c0 = from_bytes(raw, p.N, p.primes, peer)
                    a = sampling.public(self._keys[peer].seed, label, p.N, p.primes)
                    sums[peer][g][:, 0] += reduce_all(c0 * factor, p.primes)
                    sums[peer][g][:, 1] += reduce_all(a * factor, p.primes)
            self._step()
        return sums

    def _return(self, sums: dict[int, list[Array]], answering: list[int]) -> list[ring.Vector]:
        """Answer all peers that ask; decrypt what is answered. Shares of the cross terms with each peer, (N, limbs)."""
        p, shares, outgoing = self._p, [], {}
        for peer, products in sums.items():
            outgoing[peer], share = self._responders[peer].respond([reduce_all(x, p.primes) for x in products])
            shares.append(share)
        size = 2 * self._answer
        received = self._link.exchange_exactly(RETURNED, outgoing, answering, p.groups * size)
        for peer, raw in received.items():
            values = []
            for g in range(p.groups):
                halves = (raw[g * size :][: self._answer], raw[g * size + self._answer :][: self._answer])
                c1, c0 = (from_bytes(half, p.N, p.travel, peer) for half in halves)
                values.append(self._holder.decrypt(c1, c0, g))
            shares.append(self._lifted(np.concatenate(values)))
        self._step()
        return shares

    def _rows(self, unit: int, j: int) -> tuple[Array, Array]:
        """Left and right numbers in the slots of row j, mod every prime of T: (primes, N)."""
        left, right = self._p.packing.row(self._p.N, unit, j)
        return self._numbers[LEFT][:, left], self._numbers[RIGHT][:, right]

    def _polynomials(self, unit: int, j: int) -> list[list[Array]]:
        """Their polynomials, for each side and t: coefficients mod the primes of t."""
        p, out = self._p, []
        for values in self._rows(unit, j):
            coefficients = ntt.back(values[:, None], p.N, p.plain)[:, 0]
            ends = np.cumsum([len(part) for part in p.parts])[:-1]
            out.append(np.split(coefficients, ends))
        return out

    def _factor(self, x: Array, group: int) -> Array:
        """The transform mod q of a polynomial mod t, with coefficients of at most t / 2."""
        p = self._p
        return ntt.forward(converted(x, p.parts[group], p.primes)[:, None], p.N, p.primes)[:, 0]

    def _own(self, unit: int) -> ring.Vector:
        """sum_j L_m R_m in all slots."""
        p = self._p
        total = np.zeros((len(p.plain), p.N))
        for j in range(p.depths[unit]):
            left, right = self._rows(unit, j)
            total += reduce_all(left * right, p.plain)
        return self._lifted(reduce_all(total, p.plain))

    def _lifted(self, values: Array) -> ring.Vector:
        return to_ring(lifted(values, self._p.plain, self._p.w), self._p.w)

    def _put(self, out: ring.Vector, shares: ring.Vector, unit: int) -> None:
        """Add what is in slots to the results that it belongs to; pieces of one sum may be in one unit."""
        targets = self._p.packing.targets(self._p.N, unit)
        left = np.arange(len(targets))
        while len(left):
            _, first = np.unique(targets[left], return_index=True)
            some = left[first]
            out[targets[some]] = ring.add(out[targets[some]], shares[some])
            left = np.delete(left, first)

    def _step(self) -> None:
        self._done += 1
        if self._progress:
            self._progress(self._done, self._steps)


def holds(a: int, b: int, unit: int, M: int) -> bool:
    """Whether a holds the key in a unit's exchange with b, who then answers: each does for half of its peers."""
    ahead = (b - a) % M
    return (a < b) == (unit % 2 == 0) if 2 * ahead == M else 2 * ahead < M


def _residues(numbers: ring.Vector, p: SlotParameters) -> Array:
    """Mod every prime of T, and a zero at the end, for slots in which there is nothing."""
    found = residues(digits_of(numbers, 64 * numbers.shape[1]), p.plain, signed=True)
    return np.concatenate([found, np.zeros((len(p.plain), 1))], axis=1)


def _check(side: str, numbers: ring.Vector, wanted: int, bits: int) -> None:
    """What this party brings fits the parameters; nothing has been sent yet."""
    if numbers.ndim != 2 or numbers.dtype != np.uint64 or len(numbers) != wanted:
        found = f"{numbers.dtype}, shape {numbers.shape}"
        raise StudyError(f"{side} numbers: {found}.", f"uint64, {wanted} numbers with limbs in a last axis")
    if not fits(numbers, bits):
        raise QuotaError(f"a {side} number is not below 2^{bits} in size.", "the agreed number of bits")
