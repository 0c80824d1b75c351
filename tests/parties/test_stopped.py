"""Runs that are told to end, whose terminal goes, or whose output nobody takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import INTERRUPTED, InputError, PeerAborted, StorageError
from pdml_spdz.local.private import PREFIX, private_directory
from tests.parties.helpers import ENDLESS, ENDS, Parties, run, slow_rows, until, usual_signals

FULL = Path("/dev/full")


def start(site: Parties, m: int, stdout: Any) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "pdml_spdz", "party", "study.toml", "--id", str(m), "--data", "rows.npy"]
    return subprocess.Popen(
        [*words, "--out", "out"], cwd=site.home(m), stdout=stdout, stderr=subprocess.PIPE, text=True
    )


def fails(party: subprocess.Popen[str], reason: str) -> None:
    _, said = party.communicate(timeout=ENDS)
    assert party.returncode == StorageError.code, said
    assert said.startswith(f"pdml-spdz: <stdout> cannot be written ({reason}).\nWanted: room, or somebody who reads it")
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_party_with_a_full_output_tells_the_others(parties: Callable[..., Parties]) -> None:
    site = parties()
    site.start(0)
    with FULL.open("w") as full, start(site, 1, full) as party:
        fails(party, "No space left on device")
    (told,) = site.end()
    told.failed(PeerAborted, "P1 ended the run: it could not write to its disk")


def test_party_whose_reader_has_gone_before_they_meet_tells_the_others(parties: Callable[..., Parties]) -> None:
    site = parties()
    reader, writer = os.pipe()
    os.close(reader)
    with start(site, 1, writer) as party:
        os.close(writer)
        site.start(0)
        fails(party, "Broken pipe")
    (told,) = site.end()
    told.failed(PeerAborted, "P1 ended the run: it could not write to its disk")


def test_party_whose_reader_goes_while_it_waits_tells_the_others(parties: Callable[..., Parties]) -> None:
    site = parties()
    with start(site, 1, subprocess.PIPE) as party:
        assert party.stdout is not None
        while "waiting" not in party.stdout.readline():
            pass
        party.stdout.close()
        party.stdout = None
        site.start(0)
        fails(party, "Broken pipe")
    (told,) = site.end()
    told.failed(PeerAborted, "P1 ended the run: it could not write to its disk")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["precision", "--json"], ["--version"], ["svd", "--help"]], ids=" ".join)
def test_report_that_cannot_be_printed_is_an_error_in_words(words: list[str]) -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "pdml_spdz", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == StorageError.code
    assert done.stderr.startswith("pdml-spdz: <stdout> cannot be written (No space left on device).")


def test_command_whose_reader_has_enough_ends_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = ["certs", "make", "--id", "0", "--name", "x", "--address", "127.0.0.1:7000"]
    done = subprocess.run(
        [sys.executable, "-m", "pdml_spdz", *words], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (StorageError.code, "")
    assert (tmp_path / "certs" / "P0.key").is_file()


def test_output_that_has_ascii_only_does_not_end_a_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        numbers = np.random.default_rng(ord(name)).normal(size=(20, 3)) * [3, 2, 1]
        np.savetxt(tmp_path / f"{name}.csv", numbers, header="größe,b,c", delimiter=",", comments="", encoding="utf-8")
    ended = run("pca", "a.csv", "b.csv", "-k", "1", "--out", "out", cwd=tmp_path, PYTHONIOENCODING="ascii")
    ended.well()
    assert ended.out.isascii()
    looked = run("check", "a.csv", "--columns-table", cwd=tmp_path, PYTHONIOENCODING="ascii")
    looked.well()
    assert r"gr\xf6\xdfe" in looked.out


def test_party_without_an_output_runs_to_its_end(parties: Callable[..., Parties]) -> None:
    site = parties()
    words = f"exec {sys.executable} -m pdml_spdz party study.toml --id 1 --data rows.npy --out out >&- 2>&- <&-"
    with subprocess.Popen(["/bin/sh", "-c", words], cwd=site.home(1)) as party:
        site.start(0)
        assert party.wait(ENDS) == 0
    for end in site.end():
        end.well()
    assert (site.results(1) / "V.npy").read_bytes() == (site.results(0) / "V.npy").read_bytes()


def local(tmp_path: Path, *before: str) -> tuple[subprocess.Popen[bytes], Path]:
    """A run on this machine that does not end, some iterations on, and where its keys are."""
    np.save(tmp_path / "x.npy", slow_rows())
    (private := tmp_path / "private").mkdir()
    settings = [f"--{name}={value}" for name, value in (ENDLESS | {"engine": "secsum", "out": "out"}).items()]
    command = subprocess.Popen(
        [*before, sys.executable, "-m", "pdml_spdz", "svd", "x.npy", "x.npy", *settings],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(private)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=usual_signals,
    )
    until(lambda: len(list(tmp_path.glob("out/party-*/checkpoint/iteration-*.npz"))) == 4)
    return command, private


def test_signals_in_a_row_leave_no_keys(tmp_path: Path) -> None:
    command, private = local(tmp_path)
    assert list(private.glob("*/P0/*.key"))
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        command.send_signal(number)
    assert command.wait(ENDS) == INTERRUPTED
    assert list(private.rglob("*")) == []


def test_hang_up_is_ignored_under_nohup(tmp_path: Path) -> None:
    command, _ = local(tmp_path, "nohup")

    def last() -> int:
        return max((int(p.stem[10:]) for p in tmp_path.glob("out/party-0/checkpoint/iteration-*.npz")), default=0)

    before = last()
    command.send_signal(signal.SIGHUP)
    until(lambda: last() > before + 50 or command.poll() is not None)
    assert command.poll() is None
    command.terminate()
    assert command.wait(ENDS) == INTERRUPTED


def test_keys_that_a_killed_run_left_go_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, private = local(tmp_path)
    command.kill()
    command.wait()
    (left,) = private.iterdir()
    assert list(left.glob("P0/*.key"))
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (link := private / f"{PREFIX}link").symlink_to(elsewhere)
    monkeypatch.setattr("tempfile.tempdir", str(private))
    with private_directory() as first, private_directory() as second:
        assert first.is_dir()  # it is in use
        assert sorted(private.iterdir()) == sorted([first, second, link])
        assert first.stat().st_mode & 0o777 == 0o700
    assert list(private.iterdir()) == [link]
    assert elsewhere.is_dir()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_exit_code_is_right_where_words_have_no_room() -> None:
    with FULL.open("w") as full:
        words = [sys.executable, "-m", "pdml_spdz", "precision", "--json"]
        assert subprocess.run(words, stdout=full, stderr=full).returncode == StorageError.code


def test_second_signal_does_not_cut_the_end_short() -> None:
    """A file that the first one cut off says nothing when it is taken apart, either."""
    script = """
import signal
from pdml_spdz.system.signals import STOPPING, stop_on_signals

class CutOff:
    def __del__(self):
        raise ValueError("seek of closed file")

stop_on_signals()
for number in STOPPING:
    try:
        file = CutOff()
        signal.raise_signal(number)
    except KeyboardInterrupt:
        print("ends by", number.name)
        del file
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("ends by SIGINT\n", "")


def test_signal_while_a_dataclass_is_made_has_the_exit_code_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("""
import signal, sys
from pdml_spdz.cli import app
from pdml_spdz.system import signals

def command(**options):
    signals.stop_on_signals()
    exec("signal.raise_signal(signal.SIGTERM)")

app.cli.main = command
app.main()
""")
    words = [sys.executable, "-m", "script"]  # as parties are started
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, "pdml-spdz: stopped. By SIGTERM.\n")


def test_signal_after_the_last_word_leaves_the_exit_code() -> None:
    script = """
import signal, sys
from pdml_spdz.cli.app import main

sys.argv = ["pdml-spdz", "check", "missing.csv"]
try:
    main()
finally:
    signal.raise_signal(signal.SIGHUP)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == InputError.code
    assert "Traceback" not in ended.stderr
