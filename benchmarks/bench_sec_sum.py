"""Does SecSum cost more than sending the vectors as they are?

    python -m benchmarks.bench_sec_sum [d] [M]

Bytes on the wire (TLS records and two barriers included) against raw 8-byte vectors, and time against the engine
`plain`, M processes on loopback.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.parties import quartiles, run_processes, save, wire_bytes_received
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import ClearSum, MaskedSum
from pdml_spdz.transport.base import Link

REPEATS = 200


def party(link: Link, d: int) -> dict[str, list[float]]:
    masked, clear = MaskedSum(link, Keys.agree(link, b"bench")), ClearSum(link)
    x = np.random.default_rng(link.me).normal(size=d)
    seconds: dict[str, list[float]] = {"secsum": [], "plain": []}
    wire: dict[str, list[float]] = {"secsum": [], "plain": []}
    for i in range(REPEATS + 10):
        for name, summing in (("secsum", masked), ("plain", clear)):  # by turns: both see the same machine
            bytes_before = wire_bytes_received(link)
            link.all_to_all("barrier", b"")  # before and after, so that no peer's vector is counted elsewhere
            began = time.perf_counter()
            summing(x, 100.0, "bench")
            ended = time.perf_counter()
            link.all_to_all("barrier", b"")
            if i >= 10:
                seconds[name].append(ended - began)
                wire[name].append(wire_bytes_received(link) - bytes_before)
    return {f"{name} s": seconds[name] for name in seconds} | {f"{name} bytes": wire[name] for name in wire}


def main() -> None:
    d, M = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 3
    measured = run_processes(M, lambda link: party(link, d))[0]
    raw = 8 * d * (M - 1)
    rows = {}
    print(f"one sum of d = {d:,} numbers, M = {M}, {REPEATS} repetitions by turns, party 0\n")
    print(f"{'':8} {'time ms: median (quartiles)':32} {'bytes received / raw vectors':30}")
    for name in ("secsum", "plain"):
        low, median, high = (1e3 * t for t in quartiles(measured[f"{name} s"]))
        ratio = float(np.mean(measured[f"{name} bytes"])) / raw
        print(f"{name:8} {median:8.3f} ({low:.3f} .. {high:.3f}){'':10} {ratio:.4f}")
        rows[name] = {"milliseconds": [low, median, high], "bytes_over_raw": ratio}
    slower = rows["secsum"]["milliseconds"][1] / rows["plain"]["milliseconds"][1]  # type: ignore[index]
    print(f"\nsecsum / plain: {slower:.2f} times the time; wanted: at most 1.1 times the raw bytes")
    save("sec_sum", {"d": d, "M": M, "rows": rows, "time_ratio": slower})


if __name__ == "__main__":
    main()
