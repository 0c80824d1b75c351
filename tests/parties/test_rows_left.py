"""Arrays on their way to the parties' processes: in no file while they run, and in none when they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from tests.parties.helpers import ENDS, processes_with

SCRIPT = """
import sys
import numpy as np, pandas as pd, scipy.sparse as sp
import pdml_spdz
from tests.parties.test_rows_left import parties

def told(party, event):
    if event["event"] == "iteration" and event["t"] == 3:
        print(party, flush=True)

dense, sparse, named = parties()
names = [str(j) + "_" for j in range(dense.shape[1])]
pdml_spdz.svd(
    [dense, sparse, pd.DataFrame(named, columns=names)], columns="position", rank=1, engine="plain",
    solver="power", iterations=10**6, tol=0.0, progress=told, transport=sys.argv[1],
)
"""
SHARED = Path("/dev/shm")


def parties() -> list[np.ndarray]:
    """Rows with bytes that are nowhere else."""
    X = [np.random.default_rng(50 + m).normal(size=(60, 40)) for m in range(3)]
    X[1][X[1] < 0] = 0.0
    return [X[0], sp.csr_array(X[1]), X[2]]


def files_with_rows(*places: Path) -> list[Path]:
    """Files that have 8 numbers in a row as some party has them, of a row or of a column."""
    marks = [X[i : i + 1, :8].tobytes() for X in (parties()[0], parties()[2]) for i in range(60)]
    marks += [X[:8, j].tobytes() for X in (parties()[0], parties()[2]) for j in range(40)]
    marks += [parties()[1].data[i : i + 8].tobytes() for i in range(0, 400, 8)]
    found = []
    for place in places:
        for path in (Path(where, name) for where, _, names in os.walk(place) for name in names):
            try:
                content = path.read_bytes() if path.is_file() else b""  # of a pipe there is no end
            except OSError:  # gone meanwhile, or another user's
                continue
            found += [path] * any(mark in content for mark in marks)
    return found


def test_the_search_finds_rows(tmp_path: Path) -> None:
    dense, sparse, _ = parties()
    np.save(tmp_path / "dense.npy", dense)
    np.savez(tmp_path / "sparse.npz", data=sparse.data)
    np.save(tmp_path / "columns.npy", np.asfortranarray(dense))
    np.save(tmp_path / "other.npy", np.zeros((60, 40)))
    found = {path.name for path in files_with_rows(tmp_path)}
    assert found == {"dense.npy", "sparse.npz", "columns.npy"}


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="looks into /proc")
@pytest.mark.parametrize("transport", ["processes", "threads"])
def test_no_rows_in_any_file_in_the_run_or_after_a_kill(tmp_path: Path, transport: str) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(temporary)}
    with (tmp_path / "errors").open("w") as errors:
        run = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, transport],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=Path(__file__).parents[2],
        )
    try:
        assert run.stdout is not None
        for _ in range(3):  # every party is in the middle of its iterations
            assert run.stdout.readline() != "", (tmp_path / "errors").read_text()
        children = [pid for pid in processes_with(str(temporary)) if pid != run.pid]
        assert len(children) == (3 if transport == "processes" else 0)
        for pid in children:
            assert "memfd:rows" in Path(f"/proc/{pid}/maps").read_text()  # handed over, and mapped
        assert list(temporary.iterdir()) != []  # there is something to look at
        assert files_with_rows(temporary, SHARED) == []
        for pid in (run.pid, *children):
            os.kill(pid, signal.SIGKILL)
    finally:
        run.kill()
        run.wait()
        if run.stdout is not None:
            run.stdout.close()
    deadline = time.monotonic() + ENDS
    while processes_with(str(temporary)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_with(str(temporary)) == []
    assert files_with_rows(temporary, SHARED) == []
