"""Whose virtual machine, or whose process, was killed or stopped: every party names it, and nothing is left running."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import EngineError, PeerAborted, PeerError
from pdml_spdz.local import supervisor
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.study.model import PrecisionSettings, Timeouts
from tests.parties.helpers import Ended, Parties, Process, processes_with, rows, until
from tests.spdz.helpers import REQUIRED, machines, need, program

pytestmark = REQUIRED
VICTIM = 1
SETTINGS: dict[str, Any] = {
    "engine": "mp-spdz",
    "reveal": "normed",
    "protocol": "semi",
    "bound": "1000",
    "iterations": 3000,  # more than it comes to
    "solver": "power",
    "rank": 1,
    "tol": 0.0,
    "precision": PrecisionSettings(10, 20),
    "timeouts": Timeouts(connect=60.0, round=10.0),
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Parties]:
    made = Parties(tmp_path / "site", 3, **SETTINGS)
    yield made
    made.clear_away()


def start(site: Parties) -> None:
    for m in range(3):
        site.give(m, rows(m))
        site.start(m)
    until(lambda: all(site.checkpoints(m) for m in range(3)))


def names_victim(end: Ended) -> None:
    """Whoever lost it itself says so; others were told by them."""
    assert end.code in (PeerError.code, PeerAborted.code), end.err
    assert "Traceback" not in end.err
    assert f"P{VICTIM} " in end.err or f"(P{VICTIM})" in end.err


@pytest.mark.spdz
def test_stopped_machine(site: Parties) -> None:
    start(site)
    os.kill(program(site.directory.parent, "-party.x", VICTIM), signal.SIGSTOP)
    for m, end in enumerate(site.end(within=60.0)):
        if m == VICTIM:
            end.failed(EngineError, "this party's virtual machine of MP-SPDZ is stopped")
        else:
            end.failed(PeerAborted, f"P{VICTIM} ended the run: its engine is missing or failed")
    assert machines(site.directory.parent) == []


@pytest.mark.spdz
def test_killed_machine(site: Parties) -> None:
    start(site)
    os.kill(program(site.directory.parent, "-party.x", VICTIM), signal.SIGKILL)
    for m, end in enumerate(site.end(within=60.0)):
        if m == VICTIM:
            end.failed(EngineError, "MP-SPDZ's virtual machine failed: killed by signal SIGKILL")
        else:
            end.failed(PeerAborted, f"P{VICTIM} ended the run: its engine is missing or failed")
    assert (site.results(VICTIM) / "vm.log").is_file()
    assert machines(site.directory.parent) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.spdz_long
def test_party(site: Parties, number: signal.Signals) -> None:
    start(site)
    victim = site.processes.pop(VICTIM)
    victim.signal(number)
    try:
        for end in site.end(within=90.0):
            names_victim(end)
    finally:
        victim.process.kill()  # a stopped one would stay
    until(lambda: machines(site.directory.parent) == [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.spdz_long
def test_offline_program(tmp_path: Path, number: signal.Signals) -> None:
    """While stocks are made: its party says what happened to it, and the others whose it was."""
    need("hemi", offline=True)
    site = Parties(tmp_path / "site", 3, **(SETTINGS | {"protocol": "hemi", "d": 500}))
    words = ["offline", "make", "study.toml", "--stock", "stocks", "--id"]
    parties = [Process(*words, str(m), cwd=site.home(m)) for m in range(3)]
    try:
        until(lambda: len(machines(site.directory)) == 6)  # and their guards
        os.kill(program(site.directory, "-offline.x", VICTIM), number)
        for m, party in enumerate(parties):
            end = party.end(within=60.0)
            if m == VICTIM:
                end.failed(EngineError, "killed by signal SIGKILL" if number == signal.SIGKILL else "is stopped")
                logs = re.findall(r"its whole log is (\S+)", end.err)
                assert [Path(log).is_file() for log in logs] == [True] * (number == signal.SIGKILL)
            else:
                end.failed(PeerAborted, f"P{VICTIM} ended the run: its engine is missing or failed")
    finally:
        for party in parties:
            party.clear_away()
    assert machines(site.directory) == []


@pytest.mark.spdz
def test_local_command_ends_when_a_party_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(supervisor, "LINGER", 1.0)
    files = [tmp_path / f"rows-{m}.npy" for m in range(2)]
    for m, path in enumerate(files):
        np.save(path, rows(m))

    def stop(m: int, event: dict[str, Any]) -> None:
        if event["event"] == "iteration" and event["t"] == 3:
            (number,) = processes_with(str(files[VICTIM]))
            os.kill(number, signal.SIGSTOP)

    with pytest.raises(PeerError) as caught:
        run_local(LocalRun(files, local_study(2, **SETTINGS), tmp_path / "out", notify=stop))
    assert "P1: it was stopped, by a signal, a debugger or a batch system" in str(caught.value)
    assert caught.value.culprit == VICTIM
    until(lambda: machines(tmp_path) == [])
