"""One virtual machine of MP-SPDZ: started, fed through pipes, watched, and ended with this process whatever happens."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pdml_spdz.engines.mp_spdz.compiler import last_line
from pdml_spdz.engines.mp_spdz.directory import RunDirectory
from pdml_spdz.engines.mp_spdz.watch import Watch
from pdml_spdz.errors import EngineError, PdmlError, PeerError, ProtocolError, RangeExceeded
from pdml_spdz.system import process

POLL = 0.1
CHUNK = 1 << 16


@dataclass(frozen=True)
class Usage:
    """What a virtual machine says of itself at its end: all that it cost, and how much of it the offline phase.

    cpu : seconds of all its threads, which do not depend on how busy the machine is
    """

    seconds: float = 0.0
    megabytes: float = 0.0
    rounds: int = 0
    offline_seconds: float = 0.0
    offline_megabytes: float = 0.0
    offline_rounds: int = 0
    cpu: float = 0.0

    @property
    def known(self) -> bool:
        """Or else its log was cut."""
        return self.seconds > 0 and self.megabytes > 0

    @property
    def online_rounds(self) -> int:
        return max(0, self.rounds - self.offline_rounds)


class VirtualMachine:
    """A program of MP-SPDZ in its directory. timeout, work, heard : of its `Watch`"""

    def __init__(
        self,
        command: Sequence[str],
        run: RunDirectory,
        timeout: float,
        work: float = 0.0,
        heard: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.run = run
        # Opened at both ends here: neither side ever waits for the other to open, and a pipe that the machine has
        # closed is noticed by looking at the machine.
        self._pipes = {
            path: os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in (run.inputs, run.publics, run.outputs)
        }
        self._process = process.start_guarded(command, directory=run.path, log=run.log)
        self._watch = Watch(self._process, timeout, work, heard)

    def works(self) -> bool:
        return self._watch.works()

    def exchange(self, publics: Sequence[int], inputs: Sequence[int], n: int) -> bytes:
        """Give public numbers (all parties alike) and this party's secret ones; take n opened numbers, 8 bytes each.

        Which of the two the program reads first is its own affair: both pipes are filled as they empty.
        """
        writes = {self._pipes[self.run.publics]: _text(publics), self._pipes[self.run.inputs]: _text(inputs)}
        pending = {fd: memoryview(data) for fd, data in writes.items() if data}
        parts, wanted, outputs = [], 8 * n, self._pipes[self.run.outputs]
        self._watch.moved()
        while pending or wanted:
            readable, writable, _ = select.select([outputs] if wanted else [], list(pending), [], POLL)
            for fd in writable:
                pending[fd] = pending[fd][os.write(fd, pending[fd][:CHUNK]) :]
                if not pending[fd]:
                    del pending[fd]
            if readable:
                parts.append(os.read(outputs, min(wanted, CHUNK)))
                wanted -= len(parts[-1])
            if readable or writable:
                self._watch.moved()
            elif self._process.poll() is not None:
                raise self.failure()
            elif error := self._watch.late():
                self.kill()
                raise error
        return b"".join(parts)

    def finish(self) -> Usage:
        """Wait for the program's end, which must be a good one."""
        self._watch.moved()
        while self._process.poll() is None:
            if error := self._watch.late():
                self.kill()
                raise error
            time.sleep(0.002)
        if self._process.returncode != 0:
            raise self.failure()
        return parse_usage(self.said())

    def kill(self) -> None:
        """End it, and let go of its pipes; may be called again."""
        process.end([self._process], grace=5.0)
        while self._pipes:
            os.close(self._pipes.popitem()[1])

    def said(self) -> str:
        with suppress(OSError):
            return self.run.log.read_text(encoding="utf-8", errors="replace")
        return ""

    def failure(self) -> PdmlError:
        return explain(self._process.returncode, self.said())


def _text(numbers: Sequence[int]) -> bytes:
    """Integers of any size, one a line."""
    return "".join(f"{x}\n" for x in numbers).encode()


# What MP-SPDZ says, which of our errors it is, and what that means.
SAYINGS: tuple[tuple[str, type[PdmlError], str, str], ...] = (
    (
        # The programs' gate is the only thing that ends them; party 0 alone prints its message.
        r"too small for the agreed bound and range|Crash requested by program",
        RangeExceeded,
        "the sum is too small for the agreed bound and range; nothing that depends on it was opened.",
        "agree on a smaller --bound, a larger --range, or a rank below the rank of the rows; with a hidden mean on an "
        "--offset near it",
    ),
    (
        r"MacCheck Failure|Offline-Check-Error|sacrifice fail|consistency check failed|correlation check|"
        r"Invalid Commitment|Inconsistent broadcast",
        ProtocolError,
        "a party deviated from the protocol, or offline material was changed: a check of MP-SPDZ failed.",
        "burn the stock, find out which party's files were touched, and start again with fresh material",
    ),
    (
        r"Not enough data available|error reading edaBits|insufficient preprocessing|preprocessing data on disk",
        EngineError,
        "the offline material was not enough: the fit takes more iterations than a stock is made for.",
        "go on with --resume, from another stock or with --offline on-demand",
    ),
    (
        r"Does the compiler version match the virtual machine",
        EngineError,
        "MP-SPDZ's compiler and its virtual machine are of different versions.",
        "build the programs anew from the source tree that the compiler is in",
    ),
    (
        r"not compiled for \d+-bit computation|not compiled for k=",
        EngineError,
        "this build of MP-SPDZ has no ring of the size that the program needs.",
        "build it with that RING_SIZE (docs/mp-spdz.md), or take a protocol over a prime field (semi, hemi, mascot)",
    ),
    (
        r"Not compiled for \d+-bit primes",
        EngineError,
        "this build of MP-SPDZ has no primes of the length that the program needs.",
        "build it without -DFEWER_PRIMES, after `make clean` (docs/mp-spdz.md)",
    ),
    (
        r"program differs between parties|bytecode",
        EngineError,
        "the parties' virtual machines do not run the same program.",
        "install one version of MP-SPDZ at all parties",
    ),
    (
        r"Fatal error in communication|Connection closed down|cannot connect from|stream truncated|Broken pipe|"
        r"Connection reset|End of file(?! when reading)|signal SIGPIPE",  # it writes to nothing else that may be gone
        PeerError,
        "the virtual machine lost another party's.",
        "look at the other parties' errors",
    ),
    (
        r"handshake with|SSL",
        EngineError,
        "the virtual machines could not make a TLS connection.",
        "check that all parties pinned each other's certificates (`pdml-spdz doctor STUDY --id I`)",
    ),
)


def explain(
    code: int | None, said: str, log: str = "vm.log in this party's directory of results, beside its report"
) -> PdmlError:
    """The error that a virtual machine ended with, in words. log : where its words are kept"""
    ended = process.in_words(code or 0)
    for pattern, kind, found, do in SAYINGS:
        if re.search(pattern, f"{said}\n{ended}"):
            return kind(f"{found} (MP-SPDZ: {ended}; {_reason(said)})", do=do)
    return EngineError(
        f"MP-SPDZ's virtual machine failed: {ended}; its last words: {_reason(said)}",
        "exit code 0",
        f"its whole log is {log}",
    )


def _reason(said: str) -> str:
    """The line that names the error; advice may follow it, which is for users of MP-SPDZ itself."""
    return next((line.strip() for line in reversed(said.splitlines()) if " error" in line), last_line(said))


OFFLINE = r" and (NUMBER) seconds(?: \((NUMBER) MB, (\d+) rounds\))? on the preprocessing/offline phase"
NUMBER = r"[\d.]+(?:e[+-]?\d+)?"


def parse_usage(said: str) -> Usage:
    seconds = re.search(rf"^Time = ({NUMBER}) seconds", said, re.MULTILINE)
    data = re.search(rf"^Data sent = ({NUMBER}) MB in ~(\d+) rounds", said, re.MULTILINE)
    offline = re.search(OFFLINE.replace("NUMBER", NUMBER), said)
    whole = float(seconds[1]) if seconds else 0.0, float(data[1]) if data else 0.0, int(data[2]) if data else 0
    part = (float(offline[1]), float(offline[2] or 0), int(offline[3] or 0)) if offline else (0.0, 0.0, 0)
    cpu = re.search(rf"^CPU time = ({NUMBER})", said, re.MULTILINE)
    return Usage(*whole, *part, float(cpu[1]) if cpu else 0.0)
