"""What does it cost to open no bound: the default window beside a bound that the parties agreed on?

    python -m benchmarks.bench_bound [iterations]

1. a fit of PD-SVD over a network with a round trip of 20 ms, offline phase included, by turns (wanted: at most 1.3)
2. one iteration of the fixed-scale loop at d = 10^4, k = 7 on loopback (wanted: at most 1.5)
"""

from __future__ import annotations

import argparse
from statistics import median

from benchmarks.parties import save
from benchmarks.performance.network import REGION
from pdml_spdz.bench import embedded, fits
from pdml_spdz.bench.links import run_processes, slowest

SIZE = fits.FitSize(n=1797, d=64, k=7, M=3)
WAYS = {"window": "auto", "agreed": "1e6", "exponent": "exponent"}
FITS, ROUNDS, CALLS = 5, 5, 11


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("iterations", type=int, nargs="?", default=144)  # what `make svd` took by power
    iterations = parser.parse_args().iterations
    whole: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(FITS):
        for name, bound in WAYS.items():
            parties = fits.run("svd", "embedded", SIZE, iterations, REGION.wiring, bound)
            whole[name].append(max(f.whole.seconds for f in parties))
    seconds = {name: median(found) for name, found in whole.items()}
    print(f"{SIZE}, {iterations} iterations, {REGION.name}: a whole fit")
    for name, found in seconds.items():
        print(f"  {name:10} {found:7.2f} s, {found / seconds['agreed']:.2f} of the agreed bound's")
    calls: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for wide in calls:
            parts = run_processes(3, lambda link, wide=wide: embedded.fit(link, 10_000, 7, 31, CALLS, window=wide))  # type: ignore[misc]
            calls[wide] += [c.online for c in slowest([p.calls for p in parts])]
    ratio = median(calls[True]) / median(calls[False])
    print(f"one iteration, d = 10^4, k = 7: {1e3 * median(calls[True]):.1f} ms in the window, ", end="")
    print(f"{1e3 * median(calls[False]):.1f} ms with an agreed bound: {ratio:.2f}")
    save("bound", {"fits": whole, "window": calls[True], "agreed": calls[False]})


if __name__ == "__main__":
    main()
