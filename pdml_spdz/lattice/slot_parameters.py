"""The parameters of products in slots: one value that derives every size and checks itself.

A number is taken modulo T = t_1 .. t_g; every t is a product of primes that are 1 mod 2N, so that a polynomial mod t is
N numbers mod t which are added and multiplied each by itself. One key and one q serve all t: for a longer t fewer
ciphertexts have a longer q. Which is cheapest depends on how many slots there are to fill.

Noise is bounded in the worst case, and T is larger than all that can come out: results are exact whatever was drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log2
from typing import ClassVar, Self

from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import cost, ntt
from pdml_spdz.lattice.packing import blocks
from pdml_spdz.lattice.residues import modulus
from pdml_spdz.lattice.ring_parameters import (
    FLOODING,
    RUN,
    SWITCH,
    InsecureRing,
    RingParameters,
    least_flooding,
    switching_noise,
    worst_noise,
)
from pdml_spdz.lattice.sampling import TAIL
from pdml_spdz.lattice.security_tables import SECURITY, SOURCE, longest_modulus
from pdml_spdz.lattice.slot_packing import Shape, SlotPacking

MASKED = 80  # bits: a mask is uniform in a range 2^80 times as wide as what it hides
SHARED = 64  # and 2^64 times as wide as Z_2^w, in which the share is to be uniform
MAX_RING, MAX_BITS = 512, 400
NEAR = 38  # numbers are further than 2^-38 of their modulus from its half: `residues.lifted` and `rescaled` are exact


@dataclass(frozen=True)
class SlotParameters(RingParameters):
    """M : parties
    packing : the products' shapes, and where they stand
    w : shares are mod 2^w
    left_bits, right_bits : numbers are below 2^bits in size
    N : ring dimension
    count : primes of q
    groups : plaintext moduli
    """

    M: int
    packing: SlotPacking
    w: int
    left_bits: int
    right_bits: int
    N: int
    count: int
    groups: int

    SIZES: ClassVar[tuple[int, ...]] = (8192, 16384, 32768)

    def __post_init__(self) -> None:
        self.check_ranges(
            ("parties", self.M, 2, 30),
            ("the ring's bits", self.w, 32, MAX_RING),
            ("bits of left numbers", self.left_bits, 1, MAX_BITS),
            ("bits of right numbers", self.right_bits, 1, MAX_BITS),
            ("primes", self.count, 1, len(self.primes)),
            ("plaintext moduli", self.groups, 1, len(self.plain)),
        )
        self.check_budget()

    @classmethod
    def choose(cls, *, M: int, shapes: Sequence[Shape], w: int, left_bits: int, right_bits: int) -> Self:
        """The cheapest layout for products of these shapes."""
        if not shapes or min(min(shape) for shape in shapes) < 1:
            raise StudyError("products of no matrices, or of empty ones.", "all of them 1 or more")
        longest = max(i for _, i, _ in shapes)
        best, lowest = None, float("inf")
        for deepest in sorted({longest, *range(1, min(longest, 8)), *(1 << k for k in range(longest.bit_length()))}):
            packing = SlotPacking(tuple(shapes), deepest)
            largest = product_size(packing.depth, left_bits, right_bits)
            for N in cls.SIZES:
                depths = packing.depths(N)
                returned = (M // 2 * len(depths) * N).bit_length()
                for ring in rings(N, cls.most_primes(N), packing.depth, least_mask(largest, w), returned):
                    price = cost.slot_price(M, N, ring.count, ring.travel, ring.plain, ring.groups, depths)
                    if price < lowest:
                        best, lowest = (packing, N, ring), price
        if best is None:
            raise StudyError(
                f"no ring dimension up to {cls.SIZES[-1]} has room for products of {left_bits} and {right_bits} bits.",
                do="take shorter numbers",
            )
        packing, N, ring = best
        return cls(M, packing, w, left_bits, right_bits, N, ring.count, ring.groups)

    @property
    def largest(self) -> int:
        """No result that a response brings is larger in size: both cross terms of two parties."""
        return product_size(self.packing.depth, self.left_bits, self.right_bits)

    @property
    def plain(self) -> tuple[int, ...]:
        """The primes of T: none of q's."""
        found = plain_primes(self.N, self.count, least_mask(self.largest, self.w))
        if found is None:
            raise StudyError(f"there are too few primes that are 1 mod {2 * self.N}.", do="take shorter numbers")
        return found

    @property
    def T(self) -> int:
        return modulus(self.plain)

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The primes of each plaintext modulus, the longest modulus first."""
        return _cut(self.plain, self.groups)

    @property
    def t(self) -> int:
        """The longest plaintext modulus."""
        return modulus(self.parts[0])

    @property
    def travel(self) -> tuple[int, ...]:
        """Responses are switched to the modulus q', the product of these: some of q's primes."""
        return _travel(self.primes, self.t)

    @property
    def mask_bits(self) -> int:
        """Masks are uniform in [-2^a, 2^a), with the largest a for which nothing wraps mod T."""
        return (_largest_mask(self.T) - self.largest).bit_length() - 1

    @property
    def depths(self) -> list[int]:
        """Of each unit: twice as many ciphertexts for each plaintext modulus, and one response."""
        return self.packing.depths(self.N)

    @property
    def noise(self) -> int:
        return _noise(self.N, self.packing.depth, self.t)

    @property
    def flooding_bits(self) -> int:
        return largest_flooding(self.N, self.primes, self.t, self.noise)

    @property
    def returned(self) -> int:
        return self.M // 2 * len(self.depths) * self.N * self.groups  # at most half of its pairs, rounded up

    @property
    def mask_distance(self) -> float:
        """log2 of the statistical distance between all results that a party returns and uniform ones, also mod 2^w."""
        return log2(self.returned / self.groups) + log2(self.largest + (1 << self.w)) - self.mask_bits - 1

    @property
    def sent(self) -> int:
        """Bytes that a party sends, on the average of all."""
        return cost.slot_sent(self.M, self.N, self.count, len(self.travel), self.groups, self.depths)

    @property
    def seconds(self) -> float:
        """CPU time of a party, about, on the machine of benchmarks/."""
        return cost.slot_seconds(
            self.M, self.N, self.count, len(self.travel), len(self.plain), self.groups, self.depths
        )

    @property
    def price(self) -> float:
        """Seconds, with the network's: to be compared with `cost.price`."""
        sizes = len(self.travel), len(self.plain), self.groups
        return cost.slot_price(self.M, self.N, self.count, *sizes, self.depths)

    def budget(self) -> Iterator[tuple[str, float, float, str]]:
        yield from self.common_budget()
        above = self.mask_bits + 1 - log2(self.largest)
        yield "masks", MASKED, above, "above the largest result"
        yield "shares", SHARED, self.mask_bits + 1 - self.w, "masks above 2^w, in which shares are then uniform"
        yield "masks of a run", RUN, -self.mask_distance, "statistical distance of all results of a party"
        yield "results", log2(self.largest + 2**self.mask_bits), log2(self.T) - 1, "with masks, below T / 2"
        travel = modulus(self.travel)
        everything = (self.noise + 2**self.flooding_bits) * travel / self.q + switching_noise(self.N)
        yield (
            "decryption",
            log2(everything),
            log2(travel) - log2(self.t) - 1,
            "noise and flooding after switching to q'",
        )

    def explain(self) -> str:
        """The derivation, line by line."""
        p = self.packing
        lines = [
            f"products          {len(p.shapes)} of matrices: {p.terms} of two numbers below 2^{self.left_bits} and "
            f"2^{self.right_bits}, {p.results} results, {self.M} parties",
            f"plaintext         T has {len(self.plain)} primes of {ntt.PRIME_BITS} bits at most, log2 T = "
            f"{log2(self.T):.1f}, in {self.groups} moduli t",
            f"ring              Z_q[X]/(X^{self.N} + 1), {self.count} primes of {ntt.PRIME_BITS} bits, log2 q = "
            f"{log2(self.q):.1f}",
            f"security          {SECURITY} bits: log2 q <= {longest_modulus(self.N)} ({SOURCE})",
            f"messages          {len(self.depths)} units of {self.N} slots, {sum(self.depths)} rows: for each row and "
            f"t 2 ciphertexts, for each unit and t one response mod {len(self.travel)} primes",
            f"noise of L e      {2 * p.depth * self.N} terms of t / 2 times {TAIL}.5: 2^{log2(self.noise):.1f} with "
            f"e_p u + e1 s and roundings",
            f"flooding          uniform in +-2^{self.flooding_bits}: 2^-{self.flooding_bits + 1 - log2(self.noise):.1f}"
            f" for a coefficient, 2^{self.distance:.1f} for all {self.returned} of a run",
            f"masks             uniform in +-2^{self.mask_bits}: 2^-{self.mask_bits + 1 - log2(self.largest):.1f} for "
            f"a result, 2^{self.mask_distance:.1f} for all of a run",
            "failure           never: every bound holds in the worst case",
            f"sent by a party   {self.sent / 1e6:.1f} MB; about {self.seconds:.1f} s of CPU",
            "",
        ]
        return "\n".join(lines + self.budget_lines())


class InsecureSlotParameters(InsecureRing, SlotParameters):
    """For tests of exactness."""


def product_size(depth: int, left_bits: int, right_bits: int) -> int:
    return 2 * depth << left_bits + right_bits


def least_mask(largest: int, w: int) -> int:
    """a for which largest / 2^(a + 1) <= 2^-MASKED and 2^w / 2^(a + 1) <= 2^-SHARED."""
    return max((largest - 1).bit_length() + MASKED, w + SHARED) - 1


@functools.lru_cache
def plain_primes(N: int, count: int, mask_bits: int) -> tuple[int, ...] | None:
    """The fewest primes after q's whose product has room for masks, and results, which are shorter by MASKED bits;
    None if there are too few.
    """
    everything = ntt.primes(N, 1000)[count:]
    for k in range(max(1, mask_bits // ntt.PRIME_BITS), len(everything) + 1):
        if _largest_mask(modulus(everything[:k])) >= (1 << mask_bits) + (1 << mask_bits + 1 - MASKED):
            return everything[:k]
    return None


def _largest_mask(T: int) -> int:
    """Numbers that are at most so large do not wrap mod T, and are found from their residues."""
    return T // 2 - (T >> NEAR)


def _cut(plain: tuple[int, ...], groups: int) -> tuple[tuple[int, ...], ...]:
    short, longer = divmod(len(plain), groups)
    ends = [k * short + min(k, longer) for k in range(groups + 1)]
    return tuple(plain[first:last] for first, last in pairwise(ends))


def _noise(N: int, depth: int, t: int) -> int:
    """Every coefficient of L is at most t/2 in size, or (`residues.converted`) 2^-40 t more."""
    return worst_noise(N, 2 * depth * N, (t // 2 + (t >> NEAR)).bit_length())


@dataclass(frozen=True)
class SlotRing:
    """count : primes of q
    travel : of q'
    plain : of T
    groups : plaintext moduli
    """

    count: int
    travel: int
    plain: int
    groups: int


@functools.lru_cache
def rings(N: int, most: int, depth: int, mask_bits: int, returned: int) -> tuple[SlotRing, ...]:
    """For each number of plaintext moduli the fewest primes, and no more than `most`, for which the budget adds up.

    mask_bits : of T there are some more
    returned : bits of how many coefficients a party returns, for each plaintext modulus
    """
    found: list[SlotRing] = []
    for groups in range(1, blocks(mask_bits + 2, ntt.PRIME_BITS - 3) + 1):
        for count in range(2, most + 1):
            plain = plain_primes(N, count, mask_bits)
            if plain is None or groups > len(plain):
                break
            t = modulus(_cut(plain, groups)[0])
            if 2 * t.bit_length() + FLOODING > count * ntt.PRIME_BITS:
                continue
            noise = _noise(N, depth, t)
            least = max(least_flooding(noise), ceil(returned + log2(groups) + log2(noise) - 1 + RUN))
            if largest_flooding(N, ntt.primes(N, count), t, noise) >= least:
                travel = len(_travel(ntt.primes(N, count), t))
                if not found or (count, travel) != (found[-1].count, found[-1].travel):
                    found.append(SlotRing(count, travel, len(plain), groups))
                break
    return tuple(found)


@functools.lru_cache(maxsize=1 << 12)
def _travel(primes: tuple[int, ...], t: int) -> tuple[int, ...]:
    count = 1
    while count < len(primes) and modulus(primes[:count]) < t << SWITCH:
        count += 1
    return primes[:count]


def largest_flooding(N: int, primes: tuple[int, ...], t: int, noise: int) -> int:
    """The largest f with (noise + 2^f) q'/q + switching < (1 - 2^(1 - NEAR)) q'/(2 t); -1 if there is none."""
    q, travel = modulus(primes), modulus(_travel(primes, t))
    below = (travel // (2 * t)) - (travel // (t << NEAR)) - int(switching_noise(N)) - 2
    room = below * q // travel - noise
    return room.bit_length() - 1 if room > 0 else -1
