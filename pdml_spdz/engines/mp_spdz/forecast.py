"""What making MP-SPDZ's material will cost a party: bytes on its disk and to the others, processor time."""

from __future__ import annotations

from typing import NamedTuple

from pdml_spdz.engines.mp_spdz.compiler import Compiled, Counts
from pdml_spdz.engines.mp_spdz.protocols import Protocol

WORD = 8  # a number of a file takes whole ones


class MaterialForecast(NamedTuple):
    """disk : bytes, at the least; sent : bytes to all others; seconds : of one core. None if nobody has measured it"""

    disk: int
    sent: int | None
    seconds: float | None

    def times(self, n: int) -> MaterialForecast:
        more = (None, None) if self.sent is None or self.seconds is None else (n * self.sent, n * self.seconds)
        return MaterialForecast(n * self.disk, *more)


class Rate(NamedTuple):
    """Of a triple, or a bit, over a prime of n bits: square n^2 + line n bytes to each other party.

    own : of a party's own input, as a part of a triple; batch : made at once; per_byte : seconds of processor time
    """

    square: float
    line: float
    per_byte: float
    own: float = 0.0
    batch: int = 1


# Measured by `python -m benchmarks.bench_material` at 192 and 256 bits, with two and three parties.
RATES = {
    "semi": Rate(1 / 8, 8, 3.6e-9),
    "hemi": Rate(1 / 200, 0, 3.5e-8, batch=16_384),
    "mascot": Rate(1, 24, 3.8e-9, own=0.11),
}


def forecast(compiled: Compiled, M: int, protocol: Protocol) -> MaterialForecast:
    counts, rate = compiled.counts, RATES.get(protocol.name)
    disk = sum(least_sizes(counts, compiled.prime, malicious=protocol.malicious).values())
    if rate is None:
        return MaterialForecast(disk, None, None)
    # With two parties who follow the protocol a bit takes nothing.
    numbers = counts.triples + counts.bits * (protocol.malicious or M > 2) + rate.own * sum(counts.inputs) / M
    made = -(-numbers // rate.batch) * rate.batch
    sent = (M - 1) * made * (rate.square * compiled.prime**2 + rate.line * compiled.prime)
    return MaterialForecast(disk, round(sent), sent * rate.per_byte)


def least_sizes(counts: Counts, prime: int, *, malicious: bool) -> dict[str, int]:
    """What the longest of the files that are called so must have: a share of each number, and of its MAC."""
    share = (prime or 64) // WORD * (1 + malicious)
    sizes = {"Triples-*": 3 * counts.triples, "Bits-*": counts.bits}
    sizes |= {f"Inputs-*-{m}": n for m, n in enumerate(counts.inputs)}
    return {name: n * share for name, n in sizes.items() if n}
