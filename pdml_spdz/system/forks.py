"""A process that imports what parties need once, and forks them: M parties of one command start for the price of one.

For a small fit imports are most of the work, and they are the same in every party. The server is a process that does
nothing but import, with one thread (BLAS ends its own before a fork, and begins them again when they are needed), no
key, no link and nobody's rows: code is all that its forks have in common. Each of them is a process of its own, with
its own standard streams, descriptors and randomness (the operating system's, and OpenSSL draws anew after a fork); from
there on it is `python -m pdml_spdz ARGUMENTS`.

On Linux only: elsewhere libraries of the system may not survive a fork.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import math
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

NUMBER = struct.Struct("<q")  # what the server says of a child: its process number, and in the end its exit code
REQUEST = 1 << 16  # bytes of the longest one
WAKE = 1.0  # seconds after which a server that is waited for is told to go on
ROOM = 4000  # characters of a child's command line that lists of processes show
LOST = -signal.SIGKILL  # the exit code of a child of which the server, gone, said none
# Whoever sends these means the parties; the server ends after them.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def _await(status: socket.socket, server: int, timeout: float | None = None) -> bool:
    """Whether the server says something within so many seconds. One that somebody stopped never would: it is told to go
    on.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    said_something = select.poll()
    said_something.register(status, select.POLLIN)
    while not said_something.poll(1000.0 * min(WAKE, max(0.0, until - time.monotonic()))):
        if time.monotonic() >= until:
            return False
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGCONT)
    return True


class Forked:
    """A child of the server: what is needed of `subprocess.Popen`."""

    def __init__(self, pid: int, stdin: IO[str], stdout: IO[str], status: socket.socket, server: int) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._status, self._lock, self._server = status, threading.Lock(), server

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not _await(self._status, self._server, timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            with self._lock:  # another thread may have waited, too
                if self.returncode is None:
                    said = self._status.recv(NUMBER.size)
                    self.returncode = NUMBER.unpack(said)[0] if said else LOST
        return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ForkServer:
    """The parent's side (`process.fork_server` starts the other one, which imports while this process goes on).

    channel : to the server
    process : the server
    """

    def __init__(self, channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._channel, self._process = channel, process
        self._statuses: list[socket.socket] = []

    def start(self, arguments: Sequence[str], log: int, descriptors: Mapping[str, int]) -> Forked | None:
        """Fork `python -m pdml_spdz ARGUMENTS`; None if the server is not there to do it.

        log : a descriptor, for standard error
        descriptors : options of the command whose values are descriptors, with those of this process
        """
        request = json.dumps({"arguments": list(arguments), "descriptors": list(descriptors)}).encode()
        if len(request) > REQUEST:
            return None
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._statuses.append(status)
        (stdin, stdin_ours), (stdout_ours, stdout) = os.pipe(), os.pipe()
        said = b""
        try:
            with theirs, suppress(OSError):
                handed = [theirs.fileno(), stdin, stdout, log, *descriptors.values()]
                socket.send_fds(self._channel, [request], handed)
                theirs.close()  # the server alone is to have it: when it is gone, this end says so
                _await(status, self._process.pid)
                said = status.recv(NUMBER.size)
        finally:
            # If there is no child, or this process is stopped meanwhile: one that comes all the same ends at once.
            for descriptor in (stdin, stdout) if said else (stdin, stdout, stdin_ours, stdout_ours):
                os.close(descriptor)
        if not said:
            return None
        streams = os.fdopen(stdin_ours, "w", encoding="utf-8"), os.fdopen(stdout_ours, encoding="utf-8")
        return Forked(NUMBER.unpack(said)[0], *streams, status, self._process.pid)

    def close(self, grace: float = 3.0) -> None:
        """When all children have ended, or are not waited for any more."""
        self._channel.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for status in self._statuses:
            status.close()


# ---- the server's side


def command(channel: int, modules: Sequence[str]) -> list[str]:
    """What starts a server that has this descriptor."""
    return [sys.executable, "-m", "pdml_spdz.system.forks", str(channel), *modules, " " * ROOM]


def main(channel: socket.socket, modules: Sequence[str]) -> None:
    """Import, serve, and end when the parent and all children have. In a child: go on as the command it is."""
    show_command([sys.executable, "-m", "pdml_spdz.system.forks"])
    gc.disable()  # imports make hundreds of thousands of objects, all of which stay
    for name in modules:
        with suppress(Exception):  # whoever needs it will say so, in its own log
            module, _, function = name.partition(":")
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    gc.freeze()  # a collection in a child would write to, and so copy, the memory of all of them
    arguments = serve(channel)
    if arguments is None:
        _exit(0)
    gc.enable()
    sys.argv = ["pdml-spdz", *arguments]
    show_command([sys.executable, "-m", "pdml_spdz", *arguments])
    try:
        runpy.run_module("pdml_spdz", run_name="__main__", alter_sys=False)
    except SystemExit as ended:  # which is how a command ends
        _exit(ended.code if isinstance(ended.code, int) else ended.code is not None)


def _exit(code: int) -> NoReturn:
    """End this process without taking all modules apart, which a fork would have to copy for it."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def show_command(words: Sequence[str]) -> None:
    """Have lists of processes show this command, as far as there is room: a fork is known by its own words.

    The kernel takes them from where it put the arguments of the process; Python has copies of its own.
    """
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # proc(5): arg_start, arg_end
    except (OSError, IndexError):  # where /proc is not what it usually is
        return
    if 0 < start < end:
        text = "\0".join(words).encode(errors="surrogateescape")[: end - start - 1]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def serve(channel: socket.socket) -> list[str] | None:
    """Fork a child for each request until there are none. Returns in the children, with their arguments; here None."""
    usual = {number: signal.signal(number, signal.SIG_IGN) for number in IGNORED}
    usual[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    children: dict[int, socket.socket] = {}
    asking = True
    while asking or children:
        ready = select.select([woken, *([channel] if asking else [])], [], [])[0]
        if woken in ready:
            woken.recv(4096)
            _tell_ended(children)
        if channel not in ready:
            continue
        message, received, _, _ = socket.recv_fds(channel, REQUEST, 64)
        if not message:
            asking = False
            continue
        if not received:  # there was no room for descriptors: whoever asked sees their ends close, and does without
            continue
        request, status = json.loads(message), socket.socket(fileno=received[0])
        try:
            pid = os.fork()
        except OSError:  # no more processes, or no memory for one
            status.close()
            for descriptor in received[1:]:
                os.close(descriptor)
            continue
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number, handler in usual.items():
                signal.signal(number, handler)
            for held in (channel, woken, waker, status, *children.values()):
                held.close()
            return _arguments(request, received[1:])
        children[pid] = status
        for descriptor in received[1:]:
            os.close(descriptor)
        with suppress(OSError):
            status.send(NUMBER.pack(pid))
    return None


def _tell_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, code = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with children.pop(pid) as status, suppress(OSError):  # the parent may be gone
            status.send(NUMBER.pack(os.waitstatus_to_exitcode(code)))


def _arguments(request: dict[str, Any], received: Sequence[int]) -> list[str]:
    """Of a child, which makes the descriptors it was handed its own."""
    streams, others = received[:3], received[3:]
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    options = zip(request["descriptors"], others, strict=True)
    return [*request["arguments"], *(text for option, number in options for text in (option, str(number)))]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:-1])
