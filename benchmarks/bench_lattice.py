"""What does a private matrix product cost, and how much less than the triples of MP-SPDZ's hemi for the same product?

    python -m benchmarks.bench_lattice                        d = 64 and 256, b T = 840; d = 1,000, b T = 280; triples
    python -m benchmarks.bench_lattice --shapes 64x840 [--repeats 3] [--parties 3]
    python -m benchmarks.bench_lattice --slots                small products of many shapes: 20,000 and 150,000 numbers
    python -m benchmarks.bench_lattice --parts                each step, and other ways to do the transform
    MP_SPDZ_HOME=DIR python -m benchmarks.bench_lattice --hemi --shapes 64x840

Three processes over TLS on this machine, w = 192, S_m of 54 bits. Seconds are those of the slowest party, CPU and MB
those of one party, memory is the most that a party's process had. Two rows of every result are compared with the
product of the integers. "idle" is what the CPU time of all parties takes on all cores, if nothing else runs there.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.lattice_parts import parts
from benchmarks.lattice_peers import Hemi, hemi
from pdml_spdz.bench.links import run_processes
from pdml_spdz.lattice.exact import multiply
from pdml_spdz.lattice.matrix_triples import layout, matrix_triples
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.product import share_product
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.lattice.slots import share_slot_products
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link

W, BITS = 192, 54
WANTED = {(64, 840): (60.0, 6.0), (256, 840): (250.0, 60.0)}  # MB sent by a party, seconds
SHAPES = "64x840,256x840,1000x280"
TRIPLES = ((14, 14, 14, 300), (64, 14, 14, 40))
SLOTS = (20_000, 150_000)  # products of two numbers
SLOT_BITS = 162  # of masks in a sealed fit


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu: float
    megabytes: float
    memory: float
    right: bool


def own_matrices(me: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """A party's matrices, from a public seed so that the result can be checked."""
    rng = np.random.default_rng([me, d, c])
    S = rng.integers(-(1 << BITS) + 1, 1 << BITS, (d, d))
    return S, rng.integers(0, 1 << 64, (d, c, W // 64), np.uint64)


def product(link: Link, p: Parameters) -> tuple[Cost, np.ndarray]:
    d, c = p.packing.n, p.packing.c
    S, R = own_matrices(link.me, d, c)
    link.all_to_all("barrier", b"")
    began, cpu, sent = time.perf_counter(), time.process_time(), sum(link.traffic.sent.values())
    share = share_product(link, S, R, p)
    return measured(link, began, cpu, sent), share[:2]


def measured(link: Link, began: float, cpu: float, sent: int) -> Cost:
    return Cost(
        time.perf_counter() - began,
        time.process_time() - cpu,
        (sum(link.traffic.sent.values()) - sent) / 1e6,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        True,
    )


def worst(costs: Sequence[Cost], right: bool) -> Cost:
    """Of all parties."""
    return Cost(
        max(cost.seconds for cost in costs),
        max(cost.cpu for cost in costs),
        max(cost.megabytes for cost in costs),
        max(cost.memory for cost in costs),
        right,
    )


def bench_product(M: int, d: int, c: int) -> tuple[Parameters, Cost]:
    p = Parameters.choose(M=M, n=d, i=d, c=c, w=W, bits=BITS)
    found = run_processes(M, lambda link: product(link, p))
    own = [own_matrices(m, d, c) for m in range(M)]
    total, wanted = (np.zeros((2, c, W // 64), np.uint64) for _ in range(2))
    for _, share in found:
        total = ring.add(total.reshape(-1, 3), share.reshape(-1, 3)).reshape(total.shape)
    for S, _ in own:
        for _, R in own:
            term = multiply(S[None, :2], R[None], W)[0]
            wanted = ring.add(wanted.reshape(-1, 3), term.reshape(-1, 3)).reshape(total.shape)
    return p, worst([cost for cost, _ in found], bool(np.array_equal(total, wanted)))


def bench_triples(M: int, n: int, i: int, c: int, count: int) -> tuple[Parameters, Cost]:
    def party(link: Link) -> Cost:
        link.all_to_all("barrier", b"")
        began, cpu, sent = time.perf_counter(), time.process_time(), sum(link.traffic.sent.values())
        matrix_triples(link, n=n, i=i, c=c, count=count, w=W)
        return measured(link, began, cpu, sent)

    return layout(M, n, i, c, count, W), worst(run_processes(M, party), True)


def small_shapes(products: int) -> list[tuple[int, int, int]]:
    """As in a sealed fit with pivot blocks of 1, 2 and 4 columns: so many products of two numbers, about."""
    some = [(3 * s, s, s) for s in (1, 2, 4)] + [(s, s, 14) for s in (1, 2, 4)] + [(1, 1, 1)]
    one = sum(n * i * c for n, i, c in some)
    return some * (products // one)


def small_matrices(me: int, count: int) -> list[int]:
    """A party's numbers on one side, from a public seed so that the result can be checked."""
    rng = np.random.default_rng([me, count])
    most = 1 << SLOT_BITS
    return [int.from_bytes(rng.bytes(32), "little") % (2 * most - 1) - most + 1 for _ in range(count)]


def bench_slots(M: int, products: int) -> tuple[SlotParameters, Cost]:
    shapes = small_shapes(products)
    p = SlotParameters.choose(M=M, shapes=shapes, w=256, left_bits=SLOT_BITS, right_bits=SLOT_BITS)
    sizes = sum(n * i for n, i, _ in shapes), sum(i * c for _, i, c in shapes)

    def party(link: Link) -> tuple[Cost, np.ndarray]:
        left, right = (ring.from_ints(small_matrices(link.me + k * M, sizes[k]), 192) for k in (0, 1))
        link.all_to_all("barrier", b"")
        began, cpu, sent = time.perf_counter(), time.process_time(), sum(link.traffic.sent.values())
        share = share_slot_products(link, left, right, p)
        return measured(link, began, cpu, sent), share

    found = run_processes(M, party)
    total = np.sum([ring.to_ints(share) for _, share in found], axis=0)
    left, right = (np.sum([small_matrices(m + k * M, sizes[k]) for m in range(M)], axis=0) for k in (0, 1))
    right_result, at = True, [0, 0, 0]
    for n, i, c in shapes:
        L, R = left[at[0] :][: n * i].reshape(n, i), right[at[1] :][: i * c].reshape(i, c)
        right_result &= not np.any((L.dot(R).reshape(-1) - total[at[2] :][: n * c]) % (1 << 256))
        at = [at[0] + n * i, at[1] + i * c, at[2] + n * c]
    return p, worst([cost for cost, _ in found], right_result)


def say(name: str, p: Parameters | SlotParameters, costs: Sequence[Cost], wanted: tuple[float, float] | None) -> None:
    seconds = [cost.seconds for cost in costs]
    most, cpu = max(cost.memory for cost in costs), median([cost.cpu for cost in costs])
    right, idle = all(cost.right for cost in costs), cpu * p.M / (os.cpu_count() or 1)
    print(
        f"{name:24} {median(seconds):7.2f} s ({min(seconds):.2f} .. {max(seconds):.2f}; idle {idle:.2f})  "
        f"CPU {cpu:6.2f} s (forecast {p.seconds:.2f})  sent {costs[0].megabytes:6.1f} MB (forecast {p.sent / 1e6:.1f}) "
        f"memory {most:5.0f} MB  right: {right}"
    )
    if wanted:
        met = costs[0].megabytes <= wanted[0], median(seconds) <= wanted[1]
        print(f"{'':24} wanted at most {wanted[0]:g} MB: {met[0]}; at most {wanted[1]:g} s: {met[1]}")


def against(other: Hemi, costs: Sequence[Cost], columns: int) -> None:
    seconds, cpu = median([cost.seconds for cost in costs]), median([cost.cpu for cost in costs])
    times = other.seconds / seconds, other.cpu / cpu, other.megabytes / costs[0].megabytes
    print(
        f"{'  hemi':24} {other.seconds:7.2f} s, {other.cpu:.2f} s of CPU, {other.megabytes:.1f} MB (from {columns} "
        f"columns): {times[0]:.1f} times the seconds, {times[1]:.1f} the CPU, {times[2]:.1f} the bytes"
    )
    print(f"{'':24} wanted at least 10 times faster: {times[0] >= 10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--triples", action="store_true")
    parser.add_argument("--slots", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--hemi", action="store_true")
    parser.add_argument("--hemi-columns", type=int, default=56, help="Columns that it multiplies")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {given.parties} parties")
    if given.parts:
        parts()
        return
    if given.slots:
        for products in SLOTS:
            chosen, cost = bench_slots(given.parties, products)
            say(f"{chosen.packing.terms:,} in {len(chosen.packing.shapes):,} small", chosen, [cost], None)
        return
    for shape in given.shapes.split(","):
        d, c = (int(x) for x in shape.split("x"))
        found = [bench_product(given.parties, d, c) for _ in range(given.repeats)]
        costs = [cost for _, cost in found]
        say(f"({d} x {d}) ({d} x {c})", found[0][0], costs, WANTED.get((d, c)))
        if given.hemi:
            against(hemi(given.parties, d, c, W, given.hemi_columns), costs, given.hemi_columns)
    if given.triples:
        for n, i, c, count in TRIPLES:
            p, cost = bench_triples(given.parties, n, i, c, count)
            say(f"{count} of {n} x {i} x {c}", p, [cost], None)


if __name__ == "__main__":
    main()
