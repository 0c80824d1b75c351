"""M processes with TLS links between them, and what one call costs on such a link."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from pdml_spdz.bench.results import Quartiles, spread
from pdml_spdz.errors import SECONDARY, EngineError, PdmlError
from pdml_spdz.system import process
from pdml_spdz.system.signals import STOPPING
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connect import Meeting, connect
from pdml_spdz.transport.patience import Patience
from pdml_spdz.transport.tls import TlsLink

T = TypeVar("T")
Address = tuple[str, int]
# From all parties' addresses to those at which each party sees the others, while the parties run.
Wiring = Callable[[Sequence[Address]], AbstractContextManager[list[list[Address]]]]
CONNECT_SECONDS, ROUND_SECONDS = 30.0, 900.0


@dataclass(frozen=True)
class _Failure:
    party: int
    text: str
    secondary: bool


def direct(addresses: Sequence[Address]) -> AbstractContextManager[list[list[Address]]]:
    """Over this machine's loopback, as it is."""
    return nullcontext([list(addresses) for _ in addresses])


def run_processes(M: int, party: Callable[[Link], T], wiring: Wiring = direct) -> list[T]:
    """party(link) in M processes with mutual TLS; what each returned. Raises the error of the party that failed first.

    The parties share this machine's cores, as in the local commands.
    """
    context = mp.get_context("fork")
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(M)]
    addresses = [("127.0.0.1", int(listener.getsockname()[1])) for listener in listeners]
    pipes = [context.Pipe(duplex=False) for _ in range(M)]
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory, wiring(addresses) as seen:
        home = Path(directory)
        for m in range(M):
            certs.make(home, m, days=1)

        def body(m: int) -> None:
            process.keep_freed()  # as the command does
            identity = certs.load_identity(home, m, {l: certs.pinned(home, l).fingerprint for l in range(M)})
            meeting = Meeting(m, seen[m], identity, CONNECT_SECONDS, Patience(ROUND_SECONDS))
            outcome: T | _Failure
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
                with threadpool_limits(max(1, (os.cpu_count() or 1) // M)), connect(meeting, listeners[m]) as link:
                    outcome = party(link)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again below, in the caller's process
                text = str(error) if isinstance(error, PdmlError) else f"{type(error).__name__}: {error}"
                outcome = _Failure(m, text, isinstance(error, SECONDARY))
            pipes[m][1].send(outcome)

        children = [context.Process(target=body, args=(m,), daemon=True) for m in range(M)]
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # what is called back by a fork loses an interrupt
            try:
                for child in children:
                    child.start()
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            for listener, (_, end) in zip(listeners, pipes, strict=True):
                listener.close()
                end.close()  # a process that dies without a word closes the pipe
            outcomes = [_receive(m, receive) for m, (receive, _) in enumerate(pipes)]
        finally:
            for child in children:
                child.join(1.0)
                child.kill()
    failures = sorted((o for o in outcomes if isinstance(o, _Failure)), key=lambda f: f.secondary)
    if failures:
        raise EngineError(f"a party of the benchmark failed. P{failures[0].party}: {failures[0].text}")
    return [o for o in outcomes if not isinstance(o, _Failure)]


def _receive(m: int, end: Connection) -> Any:
    try:
        return end.recv()
    except EOFError:
        return _Failure(m, "its process ended without a word", secondary=False)


@dataclass(frozen=True)
class Costs:
    """Of one call at one party: seconds (online apart from offline; wait, transport, crypto and local are parts of
    online), CPU seconds of both, rounds and bytes sent.
    """

    online: float
    offline: float
    wait: float
    transport: float
    crypto: float
    local: float
    cpu: float
    rounds: int
    sent: int
    offline_sent: int
    offline_rounds: int

    @property
    def seconds(self) -> float:
        return self.online + self.offline


class LinkMeter:
    """What a link has cost since the last reading."""

    def __init__(self, link: Link) -> None:
        self._link, self._before = link, _state(link)

    def read(self) -> Costs:
        before, self._before = self._before, _state(self._link)
        return Costs(**{name: after - before[name] for name, after in self._before.items()})


def costs(link: Link, call: Callable[..., T], *arguments: Any) -> tuple[Costs, T]:
    """What call(*arguments) costs at this party, and what it returns; all parties begin together."""
    link.all_to_all("barrier", b"")
    meter = LinkMeter(link)
    made = call(*arguments)
    return meter.read(), made


def _state(link: Link) -> dict[str, Any]:
    with link.clock("other"):  # settles what is being counted
        spent = {name: link.clock.seconds[name] for name in ("offline", "wait", "transport", "crypto", "local")}
    return spent | {
        "online": time.perf_counter() - spent["offline"],
        "cpu": time.process_time(),
        "rounds": link.traffic.rounds,
        "sent": sum(link.traffic.sent.values()),
        "offline_rounds": link.offline_traffic.rounds,
        "offline_sent": sum(link.offline_traffic.sent.values()),
    }


def slowest(parties: list[list[Costs]]) -> list[Costs]:
    """For each repetition what it cost the party that took longest."""
    return [max(together, key=lambda c: c.seconds) for together in zip(*parties, strict=True)]


def seconds(calls: Sequence[Costs]) -> dict[str, Quartiles]:
    """Online time and its parts over repetitions, and CPU time."""
    names = ("online", "local", "wait", "transport", "crypto", "cpu")
    return {f"{name} s": spread([getattr(c, name) for c in calls]) for name in names}


def wire_bytes_received(link: Link) -> int:
    """What TCP delivered to this party so far, TLS records included (Linux: tcp_info.tcpi_bytes_received)."""
    assert isinstance(link, TlsLink)
    infos = (p.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256) for p in link._connections.values())
    return sum(struct.unpack_from("<Q", info, 128)[0] for info in infos)
