"""What all parameter sets have in common: a ring, a modulus that the tables allow, a noise budget that adds up."""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import log2
from typing import ClassVar

from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.residues import modulus
from pdml_spdz.lattice.sampling import TAIL
from pdml_spdz.lattice.security_tables import SECURITY, SOURCE, longest_modulus

FLOODING = 64  # bits: 2^-64 is how far the noise of a returned coefficient may be from that of a simulator
RUN = 40  # and 2^-40 is how far all coefficients of a run may be
SWITCH = 16  # bits that are left below the plaintext when a response travels
ROUNDING = 2**-19  # what `residues.scaled` adds to half a unit


class RingParameters(ABC):
    """M : parties
    w : numbers are mod 2^w
    N : ring dimension
    count : primes of q
    """

    M: int
    w: int
    N: int
    count: int

    SIZES: ClassVar[tuple[int, ...]]
    secure: ClassVar[bool] = True

    @property
    @abstractmethod
    def noise(self) -> int:
        """The largest size of what depends on secrets in the noise of a response."""

    @property
    @abstractmethod
    def flooding_bits(self) -> int:
        """Flooding is uniform in [-2^f, 2^f), with the largest f that the budget has room for."""

    @property
    @abstractmethod
    def returned(self) -> int:
        """Coefficients that a party returns in a run, to all peers."""

    @abstractmethod
    def budget(self) -> Iterator[tuple[str, float, float, str]]:
        """(line, bits used, bits there are, why) of everything that must fit."""

    @property
    def primes(self) -> tuple[int, ...]:
        return ntt.primes(self.N, self.count)

    @property
    def q(self) -> int:
        return modulus(self.primes)

    @property
    def distance(self) -> float:
        """log2 of the statistical distance between the noise of all that a party returns and a simulator's."""
        return log2(self.returned) + log2(self.noise) - self.flooding_bits - 1

    @property
    def digest(self) -> bytes:
        """Parties that hold the same parameters have the same digest."""
        return hashlib.blake2b(repr(self).encode(), digest_size=32).digest()

    def check_ranges(self, *ranges: tuple[str, int, int, int]) -> None:
        """(name, value, smallest, largest)"""
        for name, value, low, high in ranges:
            if not low <= value <= high:
                raise StudyError(f"{name}: {value}.", f"{low} to {high}")
        if self.w % 32:
            raise StudyError(f"a ring of {self.w} bits.", "a multiple of 32")

    def check_budget(self) -> None:
        self.check_modulus()
        for line, used, room, _ in self.budget():
            if used > room:
                raise StudyError(
                    f"the noise budget does not add up: {line} needs {used:.2f} bits of {room:.2f}.",
                    do=f"take {self.count + 1} primes, a narrower ring or fewer bits in the left matrix",
                )

    def check_modulus(self) -> None:
        longest = longest_modulus(self.N)
        if log2(self.q) > longest:
            raise StudyError(
                f"q has {log2(self.q):.1f} bits at N = {self.N}: less than {SECURITY} bits of security.",
                f"at most {longest} bits ({SOURCE})",
                "take a larger N, a narrower ring or fewer bits in the left matrix",
            )

    def common_budget(self) -> Iterator[tuple[str, float, float, str]]:
        """The lines that every set has."""
        yield (
            "security",
            log2(self.q),
            longest_modulus(self.N) if self.secure else 1e9,
            "log2 q, by the tables",
        )
        least = least_flooding(self.noise)
        yield "flooding", least, self.flooding_bits, f"{FLOODING} bits above the noise that depends on secrets"
        yield "flooding of a run", RUN, -self.distance, "statistical distance of all that a party returns"

    def budget_lines(self) -> list[str]:
        return [f"{used:6.1f} of {room:6.1f} bits  {line}: {why}" for line, used, room, why in self.budget()]

    @classmethod
    def most_primes(cls, N: int) -> int:
        return _most_primes(N)


class InsecureRing(RingParameters):
    """Small rings, for tests of exactness: nothing is hidden, whoever looks can find the keys."""

    SIZES: ClassVar[tuple[int, ...]] = (256,)
    secure = False

    def check_modulus(self) -> None: ...

    @classmethod
    def most_primes(cls, N: int) -> int:
        return 40


@functools.lru_cache
def _most_primes(N: int) -> int:
    """How many primes the tables allow."""
    everything, longest = ntt.primes(N, 100), longest_modulus(N)
    lengths = [log2(modulus(everything[: k + 1])) for k in range(len(everything))]
    return len([length for length in lengths if length <= longest])


def worst_noise(N: int, terms: int, bits: int) -> int:
    """S (e + rounding of R), with `terms` terms of S below 2^bits in size, e_p u + e1 s, and the rounding of the mask
    and of the simulator's result.
    """
    return terms * ((2 * TAIL + 1) << bits) // 2 + 2 * N * TAIL + 1


def least_flooding(noise: int) -> int:
    """f for which noise / 2^(f + 1) <= 2^-FLOODING."""
    return (noise - 1).bit_length() + FLOODING - 1


def switching_noise(N: int) -> float:
    """What a switched modulus adds: a rounding of c0, and N of c1 times s."""
    return (N + 1) * (0.5 + ROUNDING)
