"""A virtual machine that is frozen is named as its party's, at every party."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdml_spdz.errors import EngineError, PeerAborted
from pdml_spdz.study.model import PrecisionSettings, Timeouts
from tests.parties.helpers import Parties, rows, until
from tests.spdz.helpers import MARKS, machines

pytestmark = MARKS
VICTIM = 1


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parties]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    settings = {"engine": "mp-spdz", "reveal": "normed", "protocol": "hemi", "bound": "1000", "iterations": 100}
    made = Parties(
        tmp_path / "site",
        3,
        **settings,
        rank=1,
        tol=0.0,
        precision=PrecisionSettings(10, 20),
        timeouts=Timeouts(connect=60.0, round=6.0),
    )
    yield made
    made.clear_away()


def virtual_machine(site: Parties, m: int) -> int:
    """The process of party m's."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            own = (path / "cwd").readlink().is_relative_to(site.directory.parent)
        except OSError:
            continue
        if own and words[0].endswith(b"hemi-party.x") and words[words.index(b"-p") + 1] == str(m).encode():
            found.append(int(path.name))
    (number,) = found
    return number


def test_frozen_machine_is_named_as_one_partys(site: Parties) -> None:
    for m in range(3):
        site.give(m, rows(m))
        site.start(m)
    until(lambda: all(site.checkpoints(m) for m in range(3)))
    os.kill(virtual_machine(site, VICTIM), signal.SIGSTOP)
    for m, end in enumerate(site.end(within=60.0)):
        if m == VICTIM:
            end.failed(EngineError, "this party's virtual machine of MP-SPDZ is stopped")
        else:
            end.failed(PeerAborted, f"P{VICTIM} ended the run: its engine is missing or failed")
    assert machines(site.directory.parent) == []
