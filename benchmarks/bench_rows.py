"""Rows that are not loaded whole: memory and time of a PCA of which one of three parties has (by default) 8 GB.

    python -m benchmarks.bench_rows make DIRECTORY [--rows N] [--columns D]    Parquet files of party 0, once
    python -m benchmarks.bench_rows run DIRECTORY [--workers 2]
    python -m benchmarks.bench_rows make WIDE --rows 8000 --columns 12000
    python -m benchmarks.bench_rows run WIDE --operator 7       the form V -> X^T (X V), a pass for each iteration
    python -m benchmarks.bench_rows csv                         reading 200 MB of text, beside pyarrow by itself

Measured in the same run: one pass of reading and Gram matrix in plain Dask (`floor`), and the fit with three parties as
processes; the files are read once before each, untimed. Memory is the sum of the PSS of the party with the files and of
its workers, sampled ten times a second; pages of files are not among it, since nothing is mapped.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROW_GROUP_NUMBERS = 10**7
SAMPLES_A_SECOND = 10


def make(directory: Path, rows: int, columns: int) -> None:
    """Files of a million rows each, of numbers with a few directions that stand out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(columns)]
    for i, first in enumerate(range(0, rows, 10**6)):
        n = min(10**6, rows - first)
        with pq.ParquetWriter(
            directory / f"part-{i:04d}.parquet",
            pa.schema([(name, pa.float64()) for name in names]),
            compression="none",
            use_dictionary=False,
        ) as file:
            group = max(1, ROW_GROUP_NUMBERS // columns)
            for start in range(0, n, group):
                X = _numbers(rng, min(group, n - start), columns)
                file.write_table(pa.table(list(X.T), names=names), row_group_size=group)


def _numbers(rng: np.random.Generator, n: int, d: int) -> Any:
    """Noise, and eight directions that stand out of it."""
    strong = rng.standard_normal((n, 8)) * 2.0 ** np.arange(8, 0, -1)
    return rng.standard_normal((n, d)) + 1.0 + strong @ np.sin(np.outer(np.arange(1, 9), np.arange(d)))


CSV = """
import sys, time
from pathlib import Path
from pyarrow import csv
import pyarrow.csv, numpy
from pdml_spdz.rows.data import load
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
before, began = peak(), time.perf_counter()
held = csv.read_csv(sys.argv[2]) if sys.argv[1] == "pyarrow" else load(Path(sys.argv[2]))
print(time.perf_counter() - began, peak() - before)
"""


def text_file(turns: int = 3) -> dict[str, Any]:
    """Seconds and memory of reading a .csv file of 200 MB, by pyarrow alone and as a party does, by turns."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "x.csv"
        X = np.random.default_rng(0).normal(size=(220_000, 50)).round(15)
        header = ",".join(f"c{j}" for j in range(50))
        np.savetxt(path, X, delimiter=",", header=header, comments="", fmt="%.15g")
        found: dict[str, list[list[float]]] = {"pyarrow": [], "load": []}
        for _ in range(turns):
            for how, results in found.items():
                words = [sys.executable, "-c", CSV, how, str(path)]
                output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
                results.append([float(x) for x in output.split()])
        median = {how: np.median(results, axis=0) for how, results in found.items()}
        size = path.stat().st_size
    return {
        "file_mb": round(size / 1e6),
        "seconds": {how: round(float(m[0]), 2) for how, m in median.items()},
        "peak_mb": {how: round(float(m[1]) / 1e6) for how, m in median.items()},
        "time_ratio": round(float(median["load"][0] / median["pyarrow"][0]), 2),
        "memory_ratio": round(float(median["load"][1] / median["pyarrow"][1]), 2),
    }


def read_once(directory: Path) -> None:
    """So that what is compared finds the same pages in the system's memory, and is not a measure of the disk."""
    for path in sorted(directory.glob("*.parquet")):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def floor(directory: Path, columns: int = 0) -> float:
    """Seconds of one pass in plain Dask: read every row group, add up X^T X; or X^T (X V) for so many columns of V."""
    import pyarrow.parquet as pq
    from dask.delayed import delayed
    from threadpoolctl import threadpool_limits

    def gram(path: str, group: int) -> Any:
        table = pq.ParquetFile(path).read_row_group(group, use_threads=False)
        X = np.column_stack([column.to_numpy() for column in table.columns])
        return X.T @ (X @ np.ones((X.shape[1], columns))) if columns else X.T @ X

    paths = sorted(map(str, directory.glob("*.parquet")))
    tasks = [delayed(gram)(p, g) for p in paths for g in range(pq.ParquetFile(p).num_row_groups)]
    began = time.perf_counter()
    with threadpool_limits(1):
        delayed(sum)(tasks).compute(scheduler="threads", num_workers=os.cpu_count())
    return time.perf_counter() - began


class Memory(threading.Thread):
    """The largest sum of PSS of processes whose command line has one of these words in it."""

    def __init__(self, *words: str) -> None:
        super().__init__(daemon=True)
        self.words, self.peak, self._stop_now = words, 0, threading.Event()
        self.by_kind: dict[str, int] = {}

    def run(self) -> None:
        while not self._stop_now.wait(1.0 / SAMPLES_A_SECOND):
            now = {word: sum(_pss(pid) for pid in _processes(word)) for word in self.words}
            if sum(now.values()) > self.peak:
                self.peak, self.by_kind = sum(now.values()), now

    def stop(self) -> None:
        self._stop_now.set()
        self.join()


def _processes(word: str) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().replace(b"\0", b" ") and int(path.parent.name) != os.getpid():
                yield int(path.parent.name)
        except OSError:
            continue


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def cluster(workers: int, directory: Path) -> Iterator[str]:
    """A scheduler and worker processes on this machine."""
    file = directory / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--no-dashboard", "--scheduler-file", str(file)]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    while not file.exists():
        time.sleep(0.1)
    for _ in range(workers):
        command = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            "--scheduler-file",
            str(file),
            "--nthreads",
            "1",
        ]
        command += ["--no-dashboard", "--no-nanny", "--memory-limit", "600MB", "--local-directory", str(directory)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        yield str(file)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def run(directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    import pyarrow.parquet as pq

    columns = pq.ParquetFile(next(directory.glob("*.parquet"))).schema_arrow.names
    with ExitStack() as held, tempfile.TemporaryDirectory() as place:
        for m in (1, 2):
            X = np.random.default_rng(m).standard_normal((1000, len(columns))) + 1.0
            np.savez(Path(place) / f"{m}.npz", X=X, features=np.array(columns))
        words = [sys.executable, "-m", "pdml_spdz", "pca", str(directory), f"{place}/1.npz", f"{place}/2.npz"]
        words += ["-k", str(options.rank), "--engine", "secsum", "--no-accuracy", "--json", "--out", f"{place}/out"]
        words += ["--iterations", str(options.iterations), "--tol", "0"] if options.iterations else []
        words += ["--solver", options.solver]
        if options.workers:
            words += ["--dask", held.enter_context(cluster(options.workers, Path(place)))]
        read_once(directory)
        started = time.process_time()
        seconds = {"floor": floor(directory, options.operator)}
        cpu = {"floor": time.process_time() - started}
        read_once(directory)
        memory = Memory(f"--data {directory}", "dask_worker")
        memory.start()
        began, used = time.perf_counter(), _of_children()
        ended = subprocess.run(words, capture_output=True, text=True)
        seconds["fit"], cpu["fit"] = time.perf_counter() - began, _of_children() - used
        memory.stop()
        if ended.returncode:
            raise SystemExit(ended.stderr)
        report = json.loads(ended.stdout)
    return {
        "rows": report["rows_all"],
        "columns": report["d"],
        "workers": options.workers or "threads",
        "iterations": report["iterations"],
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "cpu_seconds": {name: round(value, 1) for name, value in cpu.items()},  # of all parties, not of workers
        "passes": (passes := report["iterations"] + 1 if options.operator else 1),
        "ratio": round(seconds["fit"] / seconds["floor"] / passes, 2),
        "cpu_ratio": None if options.workers else round(cpu["fit"] / cpu["floor"] / passes, 2),
        "peak_pss_mb": round(memory.peak / 1e6),
        "peak_pss_by_process_mb": {word.split()[-1]: round(value / 1e6) for word, value in memory.by_kind.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run", "csv"])
    parser.add_argument("directory", type=Path, nargs="?", default=Path())
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--solver", default="krylov")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--operator", type=int, default=0, metavar="K", help="the rows are so wide that no S is formed")
    options = parser.parse_args()
    if options.what == "csv":
        print(json.dumps(text_file(), indent=2))
    elif options.what == "make":
        make(options.directory, options.rows, options.columns)
    else:
        print(json.dumps(run(options.directory, options), indent=2))


if __name__ == "__main__":
    main()
