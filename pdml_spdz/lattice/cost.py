"""What a layout costs: bytes, and CPU time from figures measured with benchmarks/bench_lattice.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from pdml_spdz.lattice.ntt import PRIME_BITS, TERMS
from pdml_spdz.lattice.packing import Packing, blocks, widths

BANDWIDTH = 40e6  # bytes a second that a layout is chosen for
# Nanoseconds of CPU for each coefficient and prime (`bench_lattice --parts`).
TRANSFORM = 9.0
SHORT = 1.5  # a short polynomial's transform: reductions, for every TERMS coefficients of it
SHORT_TERM = 0.12  # and for each of its coefficients
MULTIPLY = 0.25  # multiply and add
ENCRYPT, RECEIVE, RESPOND, DECRYPT = 50.0, 45.0, 70.0, 40.0
# In slots ciphertexts are used as they come, and not kept.
SLOT_ENCRYPT, SLOT_RECEIVE, SLOT_DECRYPT = 32.0, 14.0, 50.0
CONVERT = 12.0  # a polynomial mod t to one mod q, and its transform
PLAIN = 30.0  # for each slot and prime of t: residues, transforms, and back to numbers
MEMORY = 400 << 20  # bytes of transformed ciphertexts that are held at a time
CROWDED = 1e6  # seconds that it counts to need that much more


def layouts(N: int, n: int, i: int, c: int, count: int) -> Iterator[Packing]:
    """Layouts that fit N, but for those that are worse than one of them."""
    for n_w in widths(n):
        for i_w in widths(i):
            room = N // (n_w * i_w)
            fitting = [c_w for c_w in widths(c) if c_w <= room]
            for c_w in fitting if count > 1 else fitting[-1:]:
                places = min(room // c_w, count)
                for g in widths(places):
                    h = min(places // g, blocks(count, g))
                    if 4 * g * h >= 3 * places:
                        yield Packing(n, i, c, count, n_w, i_w, c_w, g, h)


def ciphertext_bytes(N: int, primes: int) -> int:
    return primes * N * PRIME_BITS // 8


def response_bytes(packing: Packing, N: int, travel_bits: int) -> int:
    return (N + packing.wanted) * travel_bits // 8


def sent(packing: Packing, M: int, N: int, primes: int, travel_bits: int) -> int:
    """Bytes that a party sends to all others."""
    one = ciphertext_bytes(N, primes)
    unit = packing.ciphertexts * one + packing.responses * response_bytes(packing, N, travel_bits)
    return (M - 1) * (one + packing.units * unit)


def seconds(packing: Packing, M: int, N: int, primes: int, exact_primes: int) -> float:
    """CPU time of a party."""
    p, peers = packing, M - 1
    whole = N * primes * 1e-9
    pairs = p.ciphertexts * p.responses
    passes = p.groups * blocks(p.units // p.groups, at_once(p, M, N, primes))
    multiply = passes * pairs * short(p.D) + p.units * pairs * 2 * peers * MULTIPLY
    encrypt = p.units * p.ciphertexts * (ENCRYPT + peers * RECEIVE)
    respond = p.units * p.responses * peers * (RESPOND + DECRYPT * exact_primes / primes)
    return whole * (multiply + encrypt + respond)


def short(D: int) -> float:
    """A short polynomial's transform."""
    return min(SHORT * ceil(D / TERMS) + SHORT_TERM * D, TRANSFORM + SHORT)


def held(packing: Packing, M: int, N: int, primes: int) -> int:
    """Bytes of the transformed ciphertexts of one unit and all peers."""
    return 8 * packing.ciphertexts * (M - 1) * N * primes


def at_once(packing: Packing, M: int, N: int, primes: int) -> int:
    """Blocks of columns that are held together, and share the transforms of S."""
    columns = packing.units // packing.groups
    return max(1, min(columns, MEMORY // held(packing, M, N, primes)))


def price(packing: Packing, M: int, N: int, primes: int, travel_bits: int) -> float:
    """Seconds, with the network's."""
    exact = blocks(travel_bits + N.bit_length(), PRIME_BITS)
    crowded = max(0, held(packing, M, N, primes) - MEMORY) / MEMORY * CROWDED
    return crowded + seconds(packing, M, N, primes, exact) + network(packing, M, N, primes, travel_bits)


def network(packing: Packing, M: int, N: int, primes: int, travel_bits: int) -> float:
    """Seconds on the wire."""
    return sent(packing, M, N, primes, travel_bits) / BANDWIDTH


def slot_seconds(M: int, N: int, primes: int, travel: int, plain: int, groups: int, depths: Sequence[int]) -> float:
    """CPU time of a party for products in slots: of 2 ciphertexts for each row and plaintext modulus, each party
    encrypts all, and works on those of half of its peers; so with responses.
    """
    pairs, ciphertexts = (M - 1) / 2, 2 * groups * sum(depths)
    encrypt = ciphertexts * primes * (SLOT_ENCRYPT + CONVERT + pairs * (SLOT_RECEIVE + 2 * MULTIPLY))
    respond = pairs * groups * len(depths) * (primes * RESPOND + travel * SLOT_DECRYPT)
    numbers = plain * (2 * sum(depths) + 2 * pairs * len(depths)) * PLAIN
    return N * (encrypt + respond + numbers) * 1e-9


def slot_sent(M: int, N: int, primes: int, travel: int, groups: int, depths: Sequence[int]) -> int:
    """Bytes that a party sends, on the average of all."""
    one, back = ciphertext_bytes(N, primes), 2 * ciphertext_bytes(N, travel)
    return (M - 1) * one + (M - 1) * groups * (2 * sum(depths) * one + len(depths) * back) // 2


def slot_price(M: int, N: int, primes: int, travel: int, plain: int, groups: int, depths: Sequence[int]) -> float:
    """Seconds, with the network's."""
    wire = slot_sent(M, N, primes, travel, groups, depths) / BANDWIDTH
    return wire + slot_seconds(M, N, primes, travel, plain, groups, depths)
