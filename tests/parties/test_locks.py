"""Two runs that would write to the same files: the second is refused, whatever it passes, and nothing is lost."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pdml_spdz.errors import PeerAborted, StorageError
from tests.parties.helpers import ENDLESS, Parties, Process, processes_with, slow_rows, until


def command(*arguments: str | Path) -> list[str | Path]:
    return ["svd", "--rank", "1", "--engine", "secsum", "--solver", "power", "--tol", "0", *arguments]


def test_two_local_runs_in_one_directory(tmp_path: Path) -> None:
    data = [tmp_path / f"{m}.npy" for m in range(2)]
    for path in data:
        np.save(path, slow_rows())
    local = command(*data, "--out", "r")
    first = Process(*local, "--iterations", "10000", cwd=tmp_path)
    try:
        until(lambda: len(list(tmp_path.glob("r/party-*/checkpoint/iteration-*.npz"))) >= 2)
        for options in ([], ["--force"], ["--resume"]):
            second = Process(*local, *options, cwd=tmp_path)
            try:
                second.end().failed(StorageError, "r is in use by another run (process", "choose another --out")
            finally:
                second.clear_away()
        first.signal(signal.SIGKILL)
        first.process.join()
        # Its parties end with it, and so do all locks.
        until(lambda: not processes_with(str(data[0])) and not processes_with(str(data[1])))
        third = Process(*local, "--iterations", "3", "--force", "--json", cwd=tmp_path)
        try:
            third.end().well()
        finally:
            third.clear_away()
        assert json.loads((tmp_path / "r" / "report.json").read_text())["iterations"] == 3
    finally:
        first.clear_away()


def test_two_runs_of_one_party_in_one_directory(parties: Callable[..., Parties]) -> None:
    busy, other = parties(**ENDLESS), parties()
    busy.start_endless()
    (other.home(1) / "out").symlink_to(busy.home(1) / "out")
    before = (busy.results(1) / "checkpoint" / "run.json").read_bytes()
    for options in ([], ["--force"]):
        told, ended = other.run(*options)
        ended.failed(StorageError, "out/party-1 is in use by another run", "wait until that run has ended")
        told.failed(PeerAborted, "P1 ended the run")
    assert (busy.results(1) / "checkpoint" / "run.json").read_bytes() == before
    busy.processes[1].signal(signal.SIGKILL)
    busy.end()
    for end in other.run("--force"):
        end.well()


def test_parties_of_one_run_share_a_directory_and_keep_out_a_local_run(
    parties: Callable[..., Parties], tmp_path: Path
) -> None:
    site = parties(**ENDLESS)
    (shared := tmp_path / "shared").mkdir()
    for m in range(2):
        (site.home(m) / "out").symlink_to(shared)
    site.start_endless()
    assert {path.name for path in shared.iterdir()} == {"party-0", "party-1"}
    local = Process(*command(site.home(0) / "rows.npy", site.home(1) / "rows.npy", "--out", "shared"), cwd=tmp_path)
    try:
        local.end().failed(StorageError, "shared is in use by another run (process")
    finally:
        local.clear_away()
