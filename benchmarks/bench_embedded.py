"""What does NormedSecSum cost on the embedded engine, beside SecSum?

    python -m benchmarks.bench_embedded [d] [k] [M]

1. one iteration of the fixed-scale loop against the SecSum of the same block, by turns: time, rounds, bytes
2. one cold NormedSecSum of d numbers: online time and rounds
3. the material for it: base OTs, triples, VOLE; time, and bytes for each ordered pair
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.parties import quartiles, run_processes, save
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.projection import FixedScale, PerColumn
from pdml_spdz.offline.material import OnDemand
from pdml_spdz.ot import extension, triples, vole
from pdml_spdz.precision import Precision
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs import render
from pdml_spdz.transport.base import Link

REPEATS = 6


def measured(link: Link, call: Any) -> tuple[float, int, int]:
    """Online seconds, rounds and bytes sent of call()."""
    link.all_to_all("barrier", b"")
    rounds, sent, offline = link.traffic.rounds, sum(link.traffic.sent.values()), link.clock.seconds["offline"]
    began = time.perf_counter()
    call()
    seconds = time.perf_counter() - began - (link.clock.seconds["offline"] - offline)
    return seconds, link.traffic.rounds - rounds, sum(link.traffic.sent.values()) - sent


def loop(link: Link, d: int, k: int) -> dict[str, Any]:
    """A symmetric S = 2 I is enough: the engine does not care what it multiplies."""
    p = Precision(link.M)
    sec_sum = MaskedSum(link, Keys.agree(link, b"bench"))
    # One block for all calls, made before the first: no party waits for another's offline phase in those measured.
    material = OnDemand(link, b"bench", p.vector_bits, p.scalar_bits, block=(REPEATS + 2) * d * k)
    runner = EmbeddedRunner(sec_sum, p, 4.0 * k, material)
    normed = FixedScale(runner, render("scaled_sum", p, d, k, REPEATS + 2))
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0]
    results: dict[str, Any] = {"normed": [], "secsum": []}
    for i in range(REPEATS + 2):
        x = 2.0 / link.M * V
        first = measured(link, lambda x=x: normed(x, V))
        second = measured(link, lambda x=x: sec_sum(x, 4.0, "bench"))
        if i >= 2:  # the first makes the secret scale
            results["normed"].append(first)
            results["secsum"].append(second)
    return results


def cold(link: Link, d: int) -> list[tuple[float, int, int]]:
    p = Precision(link.M)
    sec_sum = MaskedSum(link, Keys.agree(link, b"bench"))
    runner = EmbeddedRunner(sec_sum, p, 4.0, OnDemand(link, b"bench", p.vector_bits, p.scalar_bits))
    normed = PerColumn(runner, render("normed_sum", p, d, 1), 1)
    g = np.random.default_rng(1).standard_normal((d, 1))
    g /= np.linalg.norm(g)
    x = (g + np.random.default_rng(2).standard_normal((d, 1)) / np.sqrt(d)) / link.M
    return [measured(link, lambda: normed(x, g)) for _ in range(3)]


def material(link: Link, d: int) -> dict[str, tuple[float, float]]:
    """Seconds, and megabytes sent to one peer, of each part."""
    p = Precision(link.M)
    parts: dict[str, tuple[float, float]] = {}

    def part(name: str, make: Any) -> Any:
        link.all_to_all("barrier", b"")
        began, sent = time.perf_counter(), sum(link.traffic.sent.values())
        made = make()
        parts[name] = (
            time.perf_counter() - began,
            (sum(link.traffic.sent.values()) - sent) / (link.M - 1) / 1e6,
        )
        return made

    ots = part("base OTs", lambda: extension.set_up(link, b"bench"))
    part("130 triples", lambda: triples.make(link, ots, 130, p.scalar_bits))
    ends = part("delta", lambda: vole.set_up(link, ots, p.vector_bits)[0])
    part(f"VOLE of {d:,} numbers", lambda: vole.extend(link, ends, d))
    return parts


def main() -> None:
    d, k, M = (int(a) for a in (sys.argv[1:] + ["10000", "7", "3"][len(sys.argv) - 1 :]))
    results = run_processes(M, lambda link: loop(link, d, k))[0]
    print(f"\nM = {M}, d = {d:,}, k = {k}; party 0\n")
    medians = {}
    for name in ("normed", "secsum"):
        low, medians[name], high = quartiles([1e3 * t for t, _, _ in results[name]])
        _, rounds, sent = results[name][-1]
        print(f"{name:8} {medians[name]:8.2f} ms ({low:.2f} .. {high:.2f}), {rounds} rounds, {sent / 1e6:.2f} MB sent")
    ratio = medians["normed"] / medians["secsum"]
    print(f"one iteration / SecSum of the same block: {ratio:.2f} (wanted: at most 5), and at most 3 rounds with V")
    once = run_processes(M, lambda link: cold(link, d))[0]
    print(f"\ncold NormedSecSum: online {min(t for t, _, _ in once):.3f} s (wanted: below 0.25), {once[-1][1]} rounds")
    parts = run_processes(M, lambda link: material(link, d))[0]
    print("\noffline material (all pairs at once on this machine; MB to one peer)")
    for name, (seconds, megabytes) in parts.items():
        print(f"  {name:24} {seconds:7.3f} s  {megabytes:8.3f} MB")
    save("embedded", {"d": d, "k": k, "M": M, "loop": results, "ratio": ratio, "cold": once, "material": parts})


if __name__ == "__main__":
    main()
