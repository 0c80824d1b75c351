"""M parties as on M hosts: each with its own directory (study, key, pinned certificates, rows, results) and process."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.cli.app import main
from pdml_spdz.errors import PdmlError
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import PartyEntry, Study, Timeouts
from pdml_spdz.system.signals import STOPPING
from pdml_spdz.transport import certs

PATIENCE = Timeouts(connect=30.0, round=30.0)  # where all is to go well, on however busy a machine
HASTE = Timeouts(connect=2.0, round=30.0)  # where somebody never comes
SETTINGS: dict[str, Any] = {"rank": 2, "tol": 1e-6, "engine": "secsum", "reveal": "sum", "timeouts": PATIENCE}
EMBEDDED: dict[str, Any] = {"engine": "embedded", "reveal": "normed"}
ENDLESS: dict[str, Any] = {"rank": 1, "solver": "power", "tol": 0.0, "iterations": 10**4}  # to go with slow_rows
ENDS = 30.0  # seconds within which a failure must be over at every party


@dataclass(frozen=True)
class Ended:
    """What is left of a process."""

    code: int
    out: str
    err: str

    def well(self) -> None:
        assert self.code == 0, self.err

    def failed(self, kind: type[PdmlError], *phrases: str) -> None:
        """It ended with the exit code of `kind`, and with a message, not a trace, that has all the phrases."""
        assert self.code == kind.code, self.err
        assert "Traceback" not in self.err
        for phrase in phrases:
            assert phrase in self.err, self.err


class Process:
    """One `pdml-spdz` command in a process of its own, with its output in files: it never waits for a reader.

    It is forked from a server that has imported the package: a start takes a twentieth of a second, not most of one.
    """

    _count = itertools.count()

    def __init__(
        self, *arguments: str | Path, cwd: Path, target: Callable[..., None] | None = None, said: Path | None = None
    ) -> None:
        self._streams = [(said or cwd) / f"{stream}-{next(self._count)}" for stream in ("stdout", "stderr")]
        for stream in self._streams:
            stream.touch()  # a process that is killed early has not opened them
        words = [str(argument) for argument in arguments]
        here = dict(os.environ), target or command
        self.process = _forkserver().Process(target=as_here, args=(*here, words, cwd, *self._streams))
        self.process.start()

    @property
    def out(self) -> str:
        """What it has printed so far, without the line ends that the width of a terminal makes."""
        return " ".join(self._streams[0].read_text().split()) if self._streams[0].exists() else ""

    def end(self, within: float = ENDS) -> Ended:
        self.process.join(max(within, 0.01))
        assert self.process.exitcode is not None, f"it did not end within {within:.0f} s"
        return Ended(self.process.exitcode, *(path.read_text() for path in self._streams))

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def clear_away(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()


@functools.cache
def _forkserver() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.parties.helpers", "tests.parties.imported"])
    return context


def command(arguments: list[str], cwd: Path, *streams: Path) -> None:
    os.chdir(cwd)
    for descriptor, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = ["pdml-spdz", *arguments]
    usual_signals()
    main()


def usual_signals() -> None:
    """What ran these tests in the background may have had them ignore signals, and so all that they start."""
    for number in STOPPING:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def as_here(environment: dict[str, str], target: Callable[..., None], *arguments: Any) -> None:
    """With these variables, not with those of the test that happened to start the server."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # the server has looked at its own TMPDIR
    target(*arguments)


def run(*arguments: str | Path, cwd: Path, within: float = 60.0, **environment: str) -> Ended:
    """Run `pdml-spdz ARGUMENTS` from start to end; with variables of its own, which may concern imports, it is
    `python -m pdml_spdz`.
    """
    if not environment:
        with tempfile.TemporaryDirectory() as said:
            process = Process(*arguments, cwd=cwd, said=Path(said))
            try:
                return process.end(within)
            finally:
                process.clear_away()
    done = subprocess.run(
        [sys.executable, "-m", "pdml_spdz", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment,
        timeout=within,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Parties:
    """M parties; what a test does not say is as it should be. `settings` are the study's."""

    def __init__(self, directory: Path, M: int, **settings: Any) -> None:
        self.directory, self.M = directory, M
        self.target: Callable[..., None] | None = None  # what a process does, if it is not `command` alone
        self.processes: dict[int, Process] = {}
        self._started: list[Process] = []
        made = [certs.make(self.certs(m), m, days=1) for m in range(M)]
        for m, other in itertools.permutations(range(M), 2):
            certs.add(self.certs(m), made[other].path)
        entries = tuple(
            PartyEntry(port=port, fingerprint=c.fingerprint) for port, c in zip(free_ports(M), made, strict=True)
        )
        self.study = Study(entries, **(SETTINGS | settings))
        for m in range(M):
            self.change_study(m)
            self.give(m, rows(m))

    def copy(self, directory: Path) -> Parties:
        """The same parties with all their files in another place."""
        shutil.copytree(self.directory, directory)
        other = object.__new__(Parties)
        other.__dict__.update(vars(self) | {"directory": directory, "processes": {}, "_started": []})
        return other

    # ---- what each of them has

    def home(self, m: int) -> Path:
        return self.directory / f"P{m}"

    def certs(self, m: int) -> Path:
        return self.home(m) / "certs"

    def results(self, m: int) -> Path:
        return self.home(m) / "out" / f"party-{m}"

    def checkpoints(self, m: int) -> list[Path]:
        found = (self.results(m) / "checkpoint").glob("iteration-*.npz")
        return sorted(found, key=lambda path: int(path.stem.removeprefix("iteration-")))

    def give(self, m: int, X: np.ndarray) -> None:
        np.save(self.home(m) / "rows.npy", X)

    def change_study(self, m: int, **changes: Any) -> Path:
        """Party m's study file, with changes that the others do not have."""
        study_file.write(path := self.home(m) / "study.toml", replace(self.study, **changes))
        return path

    def change_studies(self, **changes: Any) -> None:
        self.study = replace(self.study, **changes)
        for m in range(self.M):
            self.change_study(m)

    # ---- what they do

    def start(self, m: int, *options: str, data: str = "rows.npy") -> Process:
        """Start party m in its directory; of two processes of a party only the last one is in `processes`."""
        arguments = ["party", "study.toml", "--id", str(m), "--data", data, "--out", "out", *options]
        self.processes[m] = process = Process(*arguments, cwd=self.home(m), target=self.target)
        self._started.append(process)
        return process

    def run(self, *options: str, within: float = 60.0) -> list[Ended]:
        """Start all of them and wait for them."""
        for m in range(self.M):
            self.start(m, *options)
        return self.end(within)

    def end(self, within: float = ENDS) -> list[Ended]:
        """Wait for everyone who was started; one that does not end in time fails the test."""
        deadline = time.monotonic() + within
        return [self.processes[m].end(deadline - time.monotonic()) for m in sorted(self.processes)]

    def start_endless(self, t: int = 3) -> None:
        """Start all with rows on which they go on for ever, and wait until everyone has done iteration t."""
        for m in range(self.M):
            self.give(m, slow_rows())
            self.start(m)
        until(lambda: all(self.checkpoints(m) and self.last_iteration(m) >= t for m in range(self.M)))

    def last_iteration(self, m: int) -> int:
        return int(self.checkpoints(m)[-1].stem.removeprefix("iteration-"))

    def clear_away(self) -> None:
        for process in self._started:
            process.clear_away()


def rows(m: int, n: int = 12, d: int = 6) -> np.ndarray:
    """Party m's rows, with singular values far enough apart for a quick run."""
    return np.random.default_rng(m).standard_normal((n, d)) * 3.0 ** -np.arange(d)


def slow_rows(d: int = 6) -> np.ndarray:
    """Two rows with singular values that nearly coincide: the iteration of rank 1 goes on for ever, so to say."""
    return np.diag([1.0, 1.0 - 1e-6]) @ np.eye(2, d)


def close_rows(m: int, d: int = 40) -> np.ndarray:
    """Close singular values: the solver krylov needs some blocks for three of them."""
    return np.random.default_rng(m).normal(size=(60, d)) * np.geomspace(2.0, 1.0, d)


def until(condition: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


# Below the range from which the system gives ports to others, and elsewhere in every process that runs tests.
_ports = itertools.cycle(range(first := 10_000 + os.getpid() % 200 * 100, first + 100))


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = next(_ports)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
    return found


def processes_with(text: str) -> list[int]:
    """Processes of this machine that have `text` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue  # it has just ended
    return found
