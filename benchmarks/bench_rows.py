"""Rows that are not loaded whole: memory and time of a PCA of which one of three parties has (by default) 8 GB.

    python -m benchmarks.bench_rows make DIRECTORY [--rows N] [--columns D]    Parquet files of party 0, once
    python -m benchmarks.bench_rows run DIRECTORY [--workers 2] [--solver power --rank K --operator]

Measured in the same run: one pass of reading and Gram matrix in plain Dask (`floor`), and the fit with three parties as
processes. Memory is the sum of the PSS of the party with the files and of its workers, sampled ten times a second;
pages of files are not among it, since nothing is mapped.
"""

from __future__ import annotations

import argparse
import json
import os
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

ROW_GROUP = 100_000
SAMPLES_A_SECOND = 10


def make(directory: Path, rows: int, columns: int) -> None:
    """Files of a million rows each, of numbers with a few directions that stand out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.normal(size=(columns, columns)))[0] * 2.0 ** -np.minimum(np.arange(columns) / 2, 6)[:, None]
    names = [f"c{j}" for j in range(columns)]
    for i, first in enumerate(range(0, rows, 10**6)):
        n = min(10**6, rows - first)
        with pq.ParquetWriter(
            directory / f"part-{i:04d}.parquet",
            pa.schema([(name, pa.float64()) for name in names]),
            compression="none",
            use_dictionary=False,
        ) as file:
            for _ in range(0, n, ROW_GROUP):
                X = rng.standard_normal((min(ROW_GROUP, n), columns)) @ mix + 1.0
                file.write_table(pa.table(list(X.T), names=names), row_group_size=ROW_GROUP)


def floor(directory: Path) -> float:
    """Seconds of one pass in plain Dask: read every row group, add up X^T X."""
    import pyarrow.parquet as pq
    from dask.delayed import delayed
    from threadpoolctl import threadpool_limits

    def gram(path: str, group: int) -> Any:
        table = pq.ParquetFile(path).read_row_group(group, use_threads=False)
        X = np.column_stack([column.to_numpy() for column in table.columns])
        return X.T @ X

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
        seconds = {"floor": floor(directory)}
        memory = Memory(f"--data {directory}", "dask_worker")
        memory.start()
        began = time.perf_counter()
        ended = subprocess.run(words, capture_output=True, text=True)
        seconds["fit"] = time.perf_counter() - began
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
        "ratio": round(seconds["fit"] / seconds["floor"], 2),
        "peak_pss_mb": round(memory.peak / 1e6),
        "peak_pss_by_process_mb": {word.split()[-1]: round(value / 1e6) for word, value in memory.by_kind.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "run"])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--solver", default="krylov")
    parser.add_argument("--iterations", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    if options.what == "make":
        make(options.directory, options.rows, options.columns)
    else:
        print(json.dumps(run(options.directory, options), indent=2))


if __name__ == "__main__":
    main()
