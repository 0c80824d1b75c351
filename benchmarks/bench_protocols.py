"""Which protocol of MP-SPDZ costs least for a whole fit?

    python -m benchmarks.bench_protocols [--parties 2,3] [--rank 2,7] [--protocol semi,hemi] [--repeats 3] [--csv FILE]
    python -m benchmarks.bench_protocols --rank 2 --power 5 --repeats 1     # the small fit of docs/mp-spdz.md

PD-SVD of the digits (d = 64) by the solver krylov, to its bound of 1e-7, or by so many iterations of power; the offline
phase in the run; every protocol that is installed. Seconds from before the parties start to the result; megabytes,
rounds and processor time of one party, by phase, as MP-SPDZ and the link count them: bytes and rounds do not depend on
how busy the machine is.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.errors import PdmlError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.study.model import Timeouts

COSTS = (
    "seconds",
    "online s",
    "offline s",
    "cpu s",
    "online MB",
    "offline MB",
    "rounds",
    "iterations",
    "off by",
    "error",
)
COLUMNS = ("protocol", "malicious", "M", "rank", *COSTS)


def fit(protocol: str, M: int, rank: int, seconds: float, power: int = 0) -> dict[str, Any]:
    """One fit: by krylov, or by `power` iterations of power."""
    X = load_digits().data.astype(np.float64)
    steps: dict[str, Any] = {"solver": "power", "iterations": power, "tol": 0.0} if power else {}
    study = local_study(
        M, rank=rank, engine="mp-spdz", protocol=protocol, bound="rows:128,2000", offline="on-demand",
        timeouts=Timeouts(round=seconds), **steps,
    )  # fmt: skip
    began = time.perf_counter()
    result = run_local(LocalRun(np.array_split(X, M), study))
    took, report = time.perf_counter() - began, result.party_reports[0]
    said = report["mp_spdz"]
    return {
        "malicious": report["security"]["malicious"],
        "seconds": took,
        "online s": said["seconds"] - said["offline"]["seconds"],
        "offline s": said["offline"]["seconds"],
        "cpu s": said["cpu_seconds"],
        "online MB": report["bytes_sent"] / 1e6,
        "offline MB": report["offline"]["bytes_sent"] / 1e6,
        "rounds": report["rounds"] + report["offline"]["rounds"],
        "iterations": report["iterations"],
        "off by": sine(np.linalg.svd(X, full_matrices=False)[2][:rank].T, result.V),
    }


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {n: v if isinstance(v, bool) else statistics.median(run[n] for run in runs) for n, v in runs[0].items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", default="3")
    parser.add_argument("--rank", default="7")
    parser.add_argument("--protocol", help="one or several, by commas [all that are installed]")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--power", type=int, default=0, help="iterations of power, in the place of krylov")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds without progress")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    found = home.require()
    protocols = given.protocol.split(",") if given.protocol else [r.protocol.name for r in found.protocols() if r.party]
    rows = []
    print(f"MP-SPDZ {found.version()}\n\n| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}", flush=True)
    for M in map(int, given.parties.split(",")):
        for rank in map(int, given.rank.split(",")):
            for name in protocols:
                try:
                    runs = [fit(name, M, rank, given.limit, given.power) for _ in range(given.repeats)]
                    values = medians(runs)
                except PdmlError as error:
                    values = {"error": error.found.splitlines()[0]}
                rows.append({"protocol": name, "M": M, "rank": rank} | values)
                texts = (rows[-1].get(column, "") for column in COLUMNS)
                shown = (f"{text:.3g}" if isinstance(text, float) else str(text) for text in texts)
                print(f"| {' | '.join(shown)} |", flush=True)
    if given.csv:
        with given.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
