"""Whether a program of MP-SPDZ is still at work: it moves bytes, it computes, or it waits for one that does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pdml_spdz.errors import RESUME, EngineError, PdmlError, PeerError, ProtocolError
from pdml_spdz.system import process
from pdml_spdz.transport.base import Link

LOOK = 1.0  # seconds after which it is looked at again, at the most


class Watch:
    """The time since a guarded program gave a sign of life.

    timeout : seconds without any; work : seconds without a byte from it, however much it computes
    heard : when another party last said that its own program works (`Link.listen`), by the clock of this process

    A program that waits for another's uses no processor time: what it waits for is known to the other party only, which
    says that it is working for as long as its program is (`works`).
    """

    def __init__(
        self, child: subprocess.Popen[str], timeout: float, work: float, heard: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.child, self.timeout, self.work, self.heard = child, timeout, max(work, timeout), heard
        self._look = min(LOOK, timeout / 8)
        self._looked, self._seconds = 0.0, 0.0
        self._worked = self._sign = 0.0
        self.moved()

    def moved(self) -> None:
        """A byte has come, or was taken."""
        self._since = time.monotonic()

    def works(self) -> bool:
        """Whether it has computed lately; for other threads, too."""
        return time.monotonic() - max(self._worked, self._since) < 2 * self._look

    def late(self) -> PdmlError | None:
        """The error that its silence means, once that has lasted too long."""
        now = time.monotonic()
        if now - self._looked < self._look:
            return None
        self._looked = now
        seconds = process.program_seconds(self.child)
        if seconds > self._seconds:
            self._seconds, self._worked = seconds, now
        self._sign = max(self._sign, self.heard())
        silent = now - max(self._since, self._worked)
        if silent > self.timeout and (error := self._stopped()):
            return error  # it waits for nobody
        if min(silent, now - self._sign) > self.timeout:
            return idle(self.timeout)
        return unanswered(self.work) if now - self._since > self.work else None

    def _stopped(self) -> EngineError | None:
        if not process.program_is_stopped(self.child):
            return None
        return EngineError(
            f"this party's virtual machine of MP-SPDZ is stopped: it did nothing for {self.timeout:g} s.",
            "a process that runs",
            f"find out what stopped it (a signal, a debugger, a batch system); {RESUME}",
        )


def idle(seconds: float) -> PeerError:
    return PeerError(
        f"MP-SPDZ's virtual machine did nothing for {seconds:g} s.",
        "a machine that computes, or waits for one of another party that does, within the round time-out",
        f"look at the other parties; raise the time-out (--timeout) if the network is that slow; {RESUME}",
    )


def unanswered(seconds: float) -> EngineError:
    return EngineError(
        f"MP-SPDZ's virtual machine has computed for {seconds:g} s without an answer.",
        "an answer within the study's `timeouts.work`",
        f"make a stock first (`pdml-spdz offline make`), or agree on a larger `timeouts.work`; {RESUME}",
    )


@contextmanager
def naming(link: Link, works: Callable[[], bool]) -> Iterator[None]:
    """This party works for as long as its program does (`Watch.works`). One that lost another's, or waited for it in
    vain, does not know whose: the parties do. Whoever's it is says so, or says nothing.
    """
    try:
        with link.working_while(works):
            yield
    except PeerError as error:
        if error.culprit is None:
            with suppress(ProtocolError):  # another party is elsewhere
                link.all_to_all("vm:late", b"")
        raise
