"""What do masks cost in a whole PD-SVD, and how much memory does a party need?

    python -m benchmarks.bench_svd [n] [d] [k]

The iteration loop of the engine secsum against that of plain (M = 3 processes each, by turns), and a party's peak
memory beyond interpreter and Gram matrix as a multiple of its data.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parties import quartiles, save
from pdml_spdz.local import LocalRun, local_study, run_local

M, ITERATIONS, REPEATS = 3, 50, 5


def write_rows(directory: Path, n: int, d: int) -> list[Path]:
    rng = np.random.default_rng(0)
    scale = np.geomspace(10.0, 1.0, d)
    files = []
    for m, rows in enumerate(np.array_split(np.arange(n), M)):
        np.save(path := directory / f"rows-{m}.npy", rng.standard_normal((len(rows), d)) * scale)
        files.append(path)
    return files


def run(files: list[Path], engine: str, k: int, directory: Path) -> list[dict[str, Any]]:
    study = local_study(M, rank=k, iterations=ITERATIONS, tol=0.0, engine=engine, seed=1, start="seed")
    return run_local(LocalRun(files, study, directory / engine, force=True)).party_reports


def main() -> None:
    n, d, k = (int(a) for a in (sys.argv[1:] + ["100000", "1000", "10"][len(sys.argv) - 1 :]))
    loops: dict[str, list[float]] = {"secsum": [], "plain": []}
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "small").mkdir()
        interpreter = run(write_rows(directory / "small", 3 * k, k), "secsum", k, directory)[0]["peak_memory"]
        files = write_rows(directory, n, d)
        for i in range(REPEATS):
            for engine in loops:
                reports = run(files, engine, k, directory)
                loops[engine].append(reports[0]["seconds"]["loop"] / ITERATIONS)
                print(f"  {i + 1}/{REPEATS} {engine:7} {1e3 * loops[engine][-1]:.2f} ms an iteration", flush=True)
        data = files[0].stat().st_size
    print(f"\nn = {n:,}, d = {d:,}, k = {k}, M = {M}, {ITERATIONS} iterations; ms an iteration: median (quartiles)")
    medians = {}
    for engine, seconds in loops.items():
        low, medians[engine], high = (1e3 * s for s in quartiles(seconds))
        print(f"{engine:8} {medians[engine]:8.2f} ({low:.2f} .. {high:.2f})")
    ratio = medians["secsum"] / medians["plain"]
    memory = (max(r["peak_memory"] for r in reports) - interpreter - 8 * d * d) / data
    print(f"\nsecsum / plain: {ratio:.2f} (wanted: at most 2)")
    print(f"peak memory beyond interpreter and Gram matrix: {memory:.2f} times a party's data (wanted: below 3)")
    save("svd", {"n": n, "d": d, "k": k, "loops": loops, "ratio": ratio, "memory_over_data": memory})


if __name__ == "__main__":
    main()
