"""Parties of a local command are forks of a process that has imported the package, and processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdml_spdz import __version__
from pdml_spdz.system import process
from pdml_spdz.system.forks import Forked, ForkServer
from tests.parties.helpers import processes_with, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="parties are forked on Linux only")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer | None]:
    with process.fork_server(["pdml_spdz.cli.app", "no_such_module"], {"OMP_NUM_THREADS": "1"}) as server:
        yield server


def start(server: ForkServer | None, log: Path, *arguments: str, **descriptors: int) -> Forked:
    options = {f"--{name.replace('_', '-')}": number for name, number in descriptors.items()}
    child = process.start(arguments, log=log, environment={}, descriptors=options, server=server)
    assert isinstance(child, Forked)
    return child


def test_a_fork_is_the_command(server: ForkServer | None, tmp_path: Path) -> None:
    child = start(server, tmp_path / "log", "--version")
    assert __version__ in child.stdout.read()
    assert (child.wait(), child.poll()) == (0, 0)
    process.end([child])


def test_its_words_and_its_exit_code_are_its_own(server: ForkServer | None, tmp_path: Path) -> None:
    children = [start(server, tmp_path / f"log-{m}", "page", f"absent-{m}") for m in range(2)]
    assert [child.wait() == 0 for child in children] == [False, False]
    assert [f"absent-{m}" in (tmp_path / f"log-{m}").read_text() for m in range(2)] == [True, True]
    process.end(children)


def test_it_alone_has_the_descriptors_that_it_is_handed(server: ForkServer | None, tmp_path: Path) -> None:
    theirs, ours = os.pipe()
    child = start(server, tmp_path / "log", "party", "absent.toml", "--id", "0", "--supervised", rows_fd=theirs)
    os.close(theirs)
    assert child.wait() != 0
    with pytest.raises(BrokenPipeError):  # neither the server nor a later child holds the other end
        os.write(ours, b"x")
    os.close(ours)
    process.end([child])


def test_it_is_found_by_its_command_and_killed_alone(server: ForkServer | None, tmp_path: Path) -> None:
    os.mkfifo(study := tmp_path / "study.toml")  # of which nobody writes a word
    child, other = (start(server, tmp_path / f"log-{m}", "party", str(study), "--id", f"{m}", rows_fd=0) for m in "45")
    until(lambda: sorted(processes_with(str(study))) == sorted([child.pid, other.pid]))
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert other.poll() is None
    process.end([child, other])
    assert other.wait() != 0


def test_a_server_that_somebody_stopped_goes_on_when_it_is_asked(server: ForkServer | None, tmp_path: Path) -> None:
    assert server is not None
    os.kill(server._process.pid, signal.SIGSTOP)
    child = start(server, tmp_path / "log", "--version")
    assert child.wait() == 0
    process.end([child])


def test_a_fork_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text(
        "import os\n"
        "turns, usual = iter([True, False, True]), os.fork\n"
        "def fork():\n"
        "    if next(turns):\n"
        "        return usual()\n"
        "    raise BlockingIOError\n"
        "os.fork = fork\n"
    )
    with process.fork_server(["failing"], {"PYTHONPATH": str(tmp_path)}) as server:
        os.mkfifo(study := tmp_path / "study.toml")
        first = start(server, tmp_path / "log-0", "party", str(study), "--id", "0")
        second = process.start(["--version"], log=tmp_path / "log-1", environment={}, descriptors={}, server=server)
        assert isinstance(second, subprocess.Popen)  # started without the server
        assert second.wait() == 0
        assert first.poll() is None
        third = start(server, tmp_path / "log-2", "--version")
        assert third.wait() == 0
        process.end([first, second, third])


def test_its_end_is_known_though_somebody_stops_the_server(server: ForkServer | None, tmp_path: Path) -> None:
    assert server is not None
    os.mkfifo(study := tmp_path / "study.toml")
    child = start(server, tmp_path / "log", "party", str(study), "--id", "0")
    os.kill(server._process.pid, signal.SIGSTOP)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    process.end([child])


def test_without_a_server_a_party_is_started_all_the_same(tmp_path: Path) -> None:
    with process.fork_server([], {}) as server:
        assert server is not None
        server._process.kill()
        server._process.wait()
        child = process.start(["--version"], log=tmp_path / "log", environment={}, descriptors={}, server=server)
    assert isinstance(child, subprocess.Popen)
    assert child.stdout is not None
    assert __version__ in child.stdout.read()
    process.end([child])
