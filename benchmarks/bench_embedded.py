"""What does NormedSecSum cost on the embedded engine, beside SecSum?

    python -m benchmarks.bench_embedded [d] [k] [M]

1. one iteration of the fixed-scale loop against the SecSum of the same block, by turns: time, rounds, bytes
2. one cold NormedSecSum of d numbers: online time and rounds
3. the material for it: base OTs, triples, VOLE; time, and bytes for each ordered pair
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from benchmarks.parties import quartiles, run_processes, save
from pdml_spdz.bench import embedded
from pdml_spdz.bench.links import slowest

BITS, REPEATS = 31, 12


def main() -> None:
    d, k, M = (int(a) for a in (sys.argv[1:] + ["10000", "7", "3"][len(sys.argv) - 1 :]))
    fits = run_processes(M, lambda link: embedded.fit(link, d, k, BITS, REPEATS))
    wide = run_processes(M, lambda link: embedded.fit(link, d, k, BITS, REPEATS, window=True))
    results = {"normed": slowest([f.calls for f in fits]), "secsum": slowest([f.sums for f in fits])}
    results["window"] = slowest([f.calls for f in wide])
    print(f"\nM = {M}, d = {d:,}, k = {k}; a call takes as long as its slowest party\n")
    medians = {}
    for name, calls in results.items():
        low, medians[name], high = quartiles([1e3 * c.online for c in calls])
        rounds, sent = calls[-1].rounds, calls[-1].sent
        print(f"{name:8} {medians[name]:8.2f} ms ({low:.2f} .. {high:.2f}), {rounds} rounds, {sent / 1e6:.2f} MB sent")
    ratio = medians["normed"] / medians["secsum"]
    print(f"one iteration / SecSum of the same block: {ratio:.2f} (wanted: at most 5), and at most 3 rounds with V")
    print(
        f"one iteration in the default window / with an agreed bound: {medians['window'] / medians['normed']:.2f} (1.5)"
    )
    once = run_processes(M, lambda link: embedded.cold(link, d, BITS, 3))[0].calls
    least = min(c.online for c in once)
    print(f"\ncold NormedSecSum: online {least:.3f} s (wanted: below 0.25), {once[-1].rounds} rounds")
    parts = run_processes(M, lambda link: embedded.material(link, d, BITS, 1))[0]
    print(f"\noffline material, VOLE of {d:,} numbers (all pairs at once on this machine; MB to one peer)")
    for name, (cost,) in parts.items():
        print(f"  {name:24} {cost.offline:7.3f} s  {cost.offline_sent / (M - 1) / 1e6:8.3f} MB")
    content = {name: [asdict(c) for c in calls] for name, calls in (results | {"cold": once}).items()}
    made = {name: [asdict(c) for c in calls] for name, calls in parts.items()}
    save("embedded", {"d": d, "k": k, "M": M, "ratio": ratio, "material": made} | content)


if __name__ == "__main__":
    main()
