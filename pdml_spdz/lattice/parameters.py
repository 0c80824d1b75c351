"""The parameters of a private matrix product: one value that derives every size and checks itself.

Noise is bounded in the worst case, so that the result is exact whatever was drawn.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from typing import ClassVar, Self

from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import cost, ntt
from pdml_spdz.lattice.packing import Packing
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

MAX_RING, MAX_BITS = 512, 511  # of numbers and of left matrices


@dataclass(frozen=True)
class Parameters(RingParameters):
    """M : parties
    packing : the product's shape, and how it is laid out
    w : numbers are mod 2^w
    bits : entries of a left matrix are below 2^bits in size
    N : ring dimension
    count : primes of q
    """

    M: int
    packing: Packing
    w: int
    bits: int
    N: int
    count: int

    SIZES: ClassVar[tuple[int, ...]] = (16384, 32768)

    def __post_init__(self) -> None:
        self.check_ranges(
            ("parties", self.M, 2, 30),
            ("the ring's bits", self.w, 32, MAX_RING),
            ("bits of the left matrix", self.bits, 1, MAX_BITS),
            ("primes", self.count, 1, len(self.primes)),
        )
        if self.packing.length > self.N:
            raise StudyError(f"blocks that take {self.packing.length} coefficients.", f"at most N = {self.N}")
        self.check_budget()

    @classmethod
    def choose(cls, *, M: int, n: int, i: int, c: int, w: int, bits: int, count: int = 1) -> Self:
        """The cheapest layout for `count` products of an (n x i) matrix below 2^bits and an (i x c) matrix mod 2^w."""
        if min(n, i, c, count) < 1:
            raise StudyError(f"{count} products of {n} x {i} and {i} x {c} matrices.", "all of them 1 or more")
        for N in cls.SIZES:  # the smallest that will do: what travels grows with the root of N
            best, lowest = None, float("inf")
            for packing in cost.layouts(N, n, i, c, count):
                primes = cls.primes_needed(N, packing.terms, w, bits, _returned(M, packing))
                if primes is None or cost.network(packing, M, N, primes, w + SWITCH) > lowest:
                    continue
                price = cost.price(packing, M, N, primes, w + SWITCH)
                if price < lowest:
                    best, lowest = (packing, primes), price
            if best:
                return cls(M, best[0], w, bits, N, best[1])
        raise StudyError(
            f"no ring dimension up to {cls.SIZES[-1]} has room for numbers of {w} bits times {bits} bits.",
            f"at most {longest_modulus(cls.SIZES[-1])} bits of q for {SECURITY} bits of security",
            "cut the left matrix into digits, or take a narrower ring",
        )

    @classmethod
    def possible(cls, i: int, w: int, bits: int) -> bool:
        """Whether some layout of a product with inner dimension i fits."""
        return any(cls.primes_needed(N, i, w, bits) is not None for N in cls.SIZES)

    @classmethod
    def primes_needed(cls, N: int, terms: int, w: int, bits: int, returned: int = 1) -> int | None:
        """The least number of primes for which the budget adds up; None if the tables do not allow as many.

        returned : coefficients that a party returns, over which flooding adds up
        """
        return _primes_needed(N, terms, w, bits, cls.most_primes(N), returned)

    @property
    def travel_bits(self) -> int:
        """Responses are switched to the modulus 2^travel_bits."""
        return self.w + SWITCH

    @property
    def exact_primes(self) -> tuple[int, ...]:
        """Primes enough for c1 s without reduction: |c1| <= 2^(travel_bits - 1), |s| <= 1."""
        count, least = 1, self.N << (self.travel_bits + 1)
        while modulus(ntt.primes(self.N, count)) < least:
            count += 1
        return ntt.primes(self.N, count)

    @property
    def noise(self) -> int:
        return worst_noise(self.N, self.packing.terms, self.bits)

    @property
    def flooding_bits(self) -> int:
        return _largest_flooding(self.N, self.noise, self.w, self.q)

    @property
    def returned(self) -> int:
        return _returned(self.M, self.packing)

    @property
    def sent(self) -> int:
        """Bytes that a party sends in a run."""
        return cost.sent(self.packing, self.M, self.N, self.count, self.travel_bits)

    @property
    def seconds(self) -> float:
        """CPU time of a party, about, on the machine of benchmarks/."""
        return cost.seconds(self.packing, self.M, self.N, self.count, len(self.exact_primes))

    def budget(self) -> Iterator[tuple[str, float, float, str]]:
        room = log2(self.q) - self.w - 1
        yield from self.common_budget()
        everything = (self.noise + 2**self.flooding_bits) * 2**self.travel_bits / self.q + switching_noise(self.N)
        yield "decryption", log2(everything), SWITCH - 1, "noise and flooding after switching to 2^travel_bits"
        yield "noise and flooding", log2(self.noise + 2**self.flooding_bits), room, "below q / 2^(w + 1)"
        yield "c1 s", self.travel_bits + log2(self.N) + 1, log2(modulus(self.exact_primes)), "exact at decryption"

    def explain(self) -> str:
        """The derivation, line by line."""
        p = self.packing
        lines = [
            f"product           {p.count} of ({p.n} x {p.i}) (left, below 2^{self.bits}) times ({p.i} x {p.c}) mod "
            f"2^{self.w}, {self.M} parties",
            f"ring              Z_q[X]/(X^{self.N} + 1), {self.count} primes of {ntt.PRIME_BITS} bits, log2 q = "
            f"{log2(self.q):.1f}",
            f"security          {SECURITY} bits: log2 q <= {longest_modulus(self.N)} ({SOURCE})",
            f"blocks            {p.n_w} x {p.i_w} times {p.i_w} x {p.c_w}"
            + (f", {p.g} in a ciphertext, {p.h} in a response" if p.count > 1 else ""),
            f"messages          {p.units * p.ciphertexts} ciphertexts to all peers, {p.units * p.responses} responses "
            f"to each, {p.wanted} coefficients of c0 in each",
            f"noise of S e      {p.terms} terms of 2^{self.bits} times {TAIL}.5: 2^{log2(self.noise):.1f} with e_p u + "
            f"e1 s and roundings",
            f"flooding          uniform in +-2^{self.flooding_bits}: 2^-{self.flooding_bits + 1 - log2(self.noise):.1f}"
            f" for a coefficient, 2^{self.distance:.1f} for all {self.returned} of a run",
            f"modulus switch    to 2^{self.travel_bits}: adds at most {switching_noise(self.N):.0f} of 2^{SWITCH - 1}",
            "failure           never: every bound holds in the worst case",
            f"sent by a party   {self.sent / 1e6:.1f} MB; about {self.seconds:.1f} s of CPU",
            "",
        ]
        return "\n".join(lines + self.budget_lines())


class InsecureParameters(InsecureRing, Parameters):
    """For tests of exactness."""


def _returned(M: int, packing: Packing) -> int:
    return (M - 1) * packing.units * packing.responses * packing.wanted


@functools.lru_cache(maxsize=1 << 14)
def _primes_needed(N: int, terms: int, w: int, bits: int, most: int, returned: int) -> int | None:
    noise = worst_noise(N, terms, bits)
    # For each coefficient; and, where there are many, for all of them together.
    flooding = max(least_flooding(noise), (returned * noise).bit_length() - 1 + RUN)
    least = noise << FLOODING - 1 + w + 1  # q is longer than that
    for count in range(max(1, least.bit_length() // ntt.PRIME_BITS), most + 1):
        if _largest_flooding(N, noise, w, modulus(ntt.primes(N, count))) >= flooding:
            return count
    return None


def _largest_flooding(N: int, noise: int, w: int, q: int) -> int:
    """The largest f with (noise + 2^f) 2^(w + SWITCH) / q + switching < 2^(SWITCH - 1); -1 if there is none."""
    room = (q * ((1 << (SWITCH - 1)) - int(switching_noise(N)) - 1) >> (w + SWITCH)) - noise
    return room.bit_length() - 1 if room > 0 else -1
