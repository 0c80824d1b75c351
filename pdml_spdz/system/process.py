"""The one place where processes are started, watched and ended.

A child's standard input is a pipe from this process and nothing is written to it: when this process ends, in whatever
way, the pipe closes and the child knows (`watch_parent`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

from pdml_spdz.system import forks
from pdml_spdz.system.forks import Forked, ForkServer

UTF_8 = {"PYTHONIOENCODING": "utf-8"}  # what a child says is read as that, whatever this process prints to
Child: TypeAlias = "subprocess.Popen[str] | Forked"


@contextmanager
def fork_server(modules: Sequence[str], environment: Mapping[str, str]) -> Iterator[ForkServer | None]:
    """Of children that need these modules; None where each of them has to import them itself (`forks`).

    modules : what it imports; of "module:function" it calls the function, too
    environment : variables of the server, and so of all its children, besides those of this process
    """
    if sys.platform != "linux":
        yield None
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        started = subprocess.Popen(  # noqa: S603 - our own interpreter, arguments as a list
            forks.command(theirs.fileno(), modules),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=os.environ | UTF_8 | dict(environment),
        )
    server = ForkServer(ours, started)
    try:
        yield server
    finally:
        server.close()


def start(
    arguments: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    descriptors: Mapping[str, int],
    server: ForkServer | None = None,
) -> Child:
    """Start this package's command line as a child: events on its standard output, everything else in `log`.

    environment : variables of the child besides those of this process
    descriptors : options of the command whose values are descriptors, with those of this process
    server : it has this environment, and forks the child
    """
    with log.open("w", encoding="utf-8") as file:
        if server is not None and (forked := server.start(arguments, file.fileno(), descriptors)) is not None:
            return forked
        options = [text for option, number in descriptors.items() for text in (option, str(number))]
        return subprocess.Popen(  # noqa: S603 - our own interpreter, arguments as a list
            [sys.executable, "-m", "pdml_spdz", *arguments, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            bufsize=1,
            pass_fds=tuple(descriptors.values()),
            env=os.environ | UTF_8 | dict(environment),
        )


def start_guarded(command: Sequence[str], *, directory: Path, log: Path) -> subprocess.Popen[str]:
    """Start another program in `directory`, its words in `log`; it ends when this process does, in whatever way."""
    with log.open("a", encoding="utf-8") as file:
        return subprocess.Popen(  # noqa: S603 - arguments as a list
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), *command],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
        )


def run(command: Sequence[str], *, directory: Path, timeout: float) -> tuple[int, str]:
    """Run another program to its end; its exit code and everything it said."""
    done = subprocess.run(  # noqa: S603 - arguments as a list
        list(command),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout


def end(processes: Sequence[Child], grace: float = 3.0) -> None:
    """Ask, then make, every process that still runs end."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def is_stopped(number: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger, as far as the system says so (Linux)."""
    return _state(Path(f"/proc/{number}/stat"))[0] in ("T", "t")


def program_is_stopped(guarded: subprocess.Popen[str]) -> bool:
    """The same of a guarded program, or of its guard."""
    return is_stopped(guarded.pid) or any(words[0] in ("T", "t") for words in _programs(guarded))


def program_seconds(guarded: subprocess.Popen[str]) -> float:
    """Processor time of a guarded program so far; 0 where the system does not say (Linux does)."""
    ticks = sum(int(words[11]) + int(words[12]) for words in _programs(guarded))  # in user and in kernel mode
    return ticks / os.sysconf("SC_CLK_TCK")


def _programs(guarded: subprocess.Popen[str]) -> list[list[str]]:
    found = (_state(path) for path in Path("/proc").glob("[0-9]*/stat"))
    return [words for words in found if words[1] == str(guarded.pid)]


def _state(path: Path) -> list[str]:
    """Of a process, from its state on; the number of its parent is next."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return ["", "0"]


def watch_parent() -> None:
    """End this process as soon as the parent's end of standard input closes."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(128 + signal.SIGHUP)

    threading.Thread(target=watch, daemon=True).start()


def in_words(code: int) -> str:
    """What an exit code means."""
    if 128 < code < 192:  # as a shell, or our guard, passes on a signal
        code = 128 - code
    if code < 0:
        try:
            return f"killed by signal {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return "ended well" if code == 0 else f"exit code {code}"


# mallopt's parameters, from malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed(megabytes: int = 512) -> bool:
    """Tell the C library to keep up to so much freed memory. Whether it did (glibc does).

    Vectors of a megabyte come and go in every line of numpy. By default they go back to the operating system, which
    hands them out again page by page, cleared: that costs more than the arithmetic on them.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        # 32 MB is the most that glibc takes for blocks of the common heap.
        return bool(mallopt(M_TRIM_THRESHOLD, megabytes << 20) and mallopt(M_MMAP_THRESHOLD, 32 << 20))
    return False
