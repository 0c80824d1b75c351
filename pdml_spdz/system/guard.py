"""Runs one program that must not outlive whoever asked for it. Started by path, imports nothing of this package.

Standard input is a pipe from the parent and nothing is written to it: when it closes, in whatever way the parent
ended, the program is killed. If this guard itself is killed, the kernel kills the program (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1


def die_with_guard(guard: int) -> None:
    """In the program's process, before it becomes the program."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # it went in between
            os._exit(1)


def main(command: list[str]) -> int:
    guard = os.getpid()
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=lambda: die_with_guard(guard))  # noqa: S603

    def stop(number: int, frame: FrameType | None) -> None:
        program.kill()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        program.kill()

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, stop)
    threading.Thread(target=watch, daemon=True).start()
    code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
