"""In the middle of a run: parties that die, stall, are stopped, exceed their quota or have a full disk."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.errors import INTERRUPTED, RESUME, EngineError, PeerAborted, PeerError, QuotaError, StorageError
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.rows import data
from pdml_spdz.run import handshake
from pdml_spdz.study.model import Timeouts
from pdml_spdz.system.signals import STOPPING
from pdml_spdz.transport import certs
from pdml_spdz.transport.connect import Meeting, connect, listen
from pdml_spdz.transport.patience import Patience
from tests.parties.helpers import (
    EMBEDDED,
    ENDLESS,
    ENDS,
    PATIENCE,
    Ended,
    Parties,
    processes_with,
    rows,
    slow_rows,
    until,
    usual_signals,
)
from tests.unit.test_mp_spdz_home import make_home


def named(end: Ended, party: int) -> None:
    """The party at fault is named, by one who missed it or by one who was told."""
    if end.code == PeerError.code:
        end.failed(PeerError, f"pdml-spdz: P{party} ")
    else:
        end.failed(PeerAborted, f"(P{party})", f"see the message at P{party}")


@pytest.mark.parametrize(
    ("settings", "victim"),
    [({"aggregator": "none"}, 2), ({"aggregator": "0"}, 0), ({"aggregator": "0"}, 2), (EMBEDDED, 1)],
    ids=["mesh", "aggregator", "beside the aggregator", "embedded"],
)
def test_party_killed(parties: Callable[..., Parties], settings: dict[str, str], victim: int) -> None:
    site = parties(3, **ENDLESS, **settings)
    site.start_endless()
    site.processes[victim].signal(signal.SIGKILL)
    ends = site.end()
    assert ends[victim].code == -signal.SIGKILL
    for m in {0, 1, 2} - {victim}:
        named(ends[m], victim)
    assert all(site.checkpoints(m) for m in range(3))


@pytest.mark.parametrize(("aggregator", "victim"), [("none", 1), ("none", 0), ("0", 2), ("2", 0)])
def test_party_stalls(parties: Callable[..., Parties], aggregator: str, victim: int) -> None:
    """With an aggregator P1 waits for the one who waits for the victim: P1 is to name the victim."""
    site = parties(3, **ENDLESS, aggregator=aggregator, timeouts=Timeouts(connect=30, round=3))
    site.start_endless()
    stopped = site.processes.pop(victim)
    stopped.signal(signal.SIGSTOP)
    try:
        for end in site.end():
            named(end, victim)
            assert RESUME in end.err
    finally:
        stopped.signal(signal.SIGCONT)
    stopped.end().failed(PeerAborted, "ended the run: it lost another party", f"(P{victim})")


@pytest.mark.parametrize(("number", "settings"), [*((number, {}) for number in STOPPING), (signal.SIGTERM, EMBEDDED)])
def test_party_stopped_by_hand_tells_the_others(
    parties: Callable[..., Parties], number: signal.Signals, settings: dict[str, str]
) -> None:
    site = parties(3, **ENDLESS, **settings)
    site.start_endless()
    site.processes[0].signal(number)
    stopped, *others = site.end()
    assert stopped.code == INTERRUPTED
    assert f"pdml-spdz: stopped. What it has done is in out: {RESUME}." in stopped.err
    assert "Traceback" not in stopped.err
    for end in others:
        end.failed(PeerAborted, "P0 ended the run: it was stopped by hand", "see the message at P0", RESUME)


@pytest.mark.parametrize("settings", [{}, EMBEDDED], ids=["secsum", "embedded"])
def test_quota_exceeded_at_one_party(parties: Callable[..., Parties], settings: dict[str, str]) -> None:
    site = parties(3, bound="1000", **settings)
    site.give(1, 100 * rows(1))
    ends = site.run()
    ends[1].failed(QuotaError, "it was not sent", "Wanted: at most 1000", "Do this: agree on a larger --bound")
    for m in (0, 2):
        ends[m].failed(PeerAborted, "P1 ended the run: its rows exceed the agreed bound", "see the message at P1")


def test_quota_exceeded_nothing_of_the_rows_is_sent(parties: Callable[..., Parties]) -> None:
    """A peer that looks at every frame: after greeting, feature names and keys there comes the farewell."""
    site = parties(bound="1000")
    site.give(1, 100 * rows(1))
    identity = certs.load_identity(site.certs(0), 0, {m: p.fingerprint for m, p in enumerate(site.study.parties)})
    addresses = [(p.host, p.port) for p in site.study.parties]
    meeting = Meeting(0, addresses, identity, PATIENCE.connect, Patience(PATIENCE.round))
    listener = listen(*addresses[0])
    site.start(1)
    with connect(meeting, listener) as link:
        agreed = handshake.meet(link, site.study, identity.fingerprints, resume=False)
        handshake.compare_features(link, data.load(site.home(0) / "rows.npy"), site.study, agreed)
        Keys.agree(link, agreed)
        with pytest.raises(PeerAborted, match="P1 ended the run: its rows exceed the agreed bound") as told:
            link.exchange("sum:start", {}, {1: 1000})  # would return whatever else P1 had sent
    norm = np.linalg.norm((100 * rows(1)).T @ (100 * rows(1)))
    (ended,) = site.end()
    ended.failed(QuotaError, f"is {norm:.6g}; it was not sent")
    assert f"{norm:.6g}" not in str(told.value)


def test_engine_missing_at_one_party_is_known_before_anything_is_compiled(
    parties: Callable[..., Parties], tmp_path: Path
) -> None:
    here = make_home(tmp_path / "here", "semi-party.x")  # its compiler would fail
    there = make_home(tmp_path / "there", "hemi-party.x")
    site = parties(engine="mp-spdz", reveal="normed", protocol="semi", bound="1000")
    for m, path in enumerate((here, there)):
        site.start(m, "--mp-spdz", str(path))
    told, ended = site.end()
    ended.failed(EngineError, f"semi-party.x of the protocol semi is not in {there}", "`make semi-party.x`")
    told.failed(PeerAborted, "P1 ended the run: its engine is missing or failed")
    assert not site.results(1).exists()


def test_disk_full_at_one_party(parties: Callable[..., Parties]) -> None:
    site = parties(**ENDLESS)
    d = 2000  # a checkpoint of 16 kB
    for m in range(2):
        site.give(m, slow_rows(d))
        site.start(m)
    until(lambda: all(len(site.checkpoints(m)) == 2 for m in range(2)))
    resource.prlimit(site.processes[1].process.pid, resource.RLIMIT_FSIZE, (8000, 8000))
    told, ended = site.end()
    ended.failed(
        StorageError, "cannot be written", "Wanted: room and the right to write", "`--resume` goes on from them"
    )
    told.failed(PeerAborted, "P1 ended the run: it could not write to its disk")
    last = site.checkpoints(1)[-1]
    with np.load(last) as kept:
        assert kept["V"].shape == (d, 1)
    assert sorted(path.name for path in last.parent.iterdir()) == sorted(
        ["run.json", *(path.name for path in site.checkpoints(1))]
    )


def test_results_cannot_be_written_at_one_party(parties: Callable[..., Parties]) -> None:
    site = parties()
    (site.home(1) / "out").write_text("a file where a directory should be")
    told, ended = site.run()
    ended.failed(StorageError, "out cannot be written", "choose another --out")
    told.failed(PeerAborted, "P1 ended the run: it could not write to its disk")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_local_command_ended_by_a_signal_leaves_no_party_behind(tmp_path: Path, number: signal.Signals) -> None:
    np.save(tmp_path / "x.npy", slow_rows())
    (private := tmp_path / "private").mkdir()
    out = tmp_path / "out"
    settings = [
        "--rank",
        "1",
        "--solver",
        "power",
        "--tol",
        "0",
        "--iterations",
        "10000",
        "--engine",
        "secsum",
        "--reveal",
        "sum",
    ]
    command = subprocess.Popen(
        [sys.executable, "-m", "pdml_spdz", "svd", "x.npy", "x.npy", *settings, "--out", str(out)],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(private)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=usual_signals,
    )
    try:
        until(lambda: len(list(out.glob("party-*/checkpoint/iteration-*.npz"))) == 4)
        assert len(processes_with(str(out))) == 3
        command.send_signal(number)
        assert command.wait(ENDS) == (-number if number == signal.SIGKILL else INTERRUPTED)
    finally:
        command.kill()
        command.wait()
    until(lambda: processes_with(str(out)) == [], within=ENDS)
    if number != signal.SIGKILL:
        assert list(private.rglob("*")) == []
