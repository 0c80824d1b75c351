"""Lines between the parties of a benchmark: latency, and a bandwidth that each party's peers share.

The machine's own loopback carries the bytes; between two parties stands a relay, in a process of its own, that hands
on what party m sends when it would have arrived: after m's uplink was free and had sent it, and the latency. What is
left out: loss, jitter, and TCP's slow start (the relay always takes what m sends, up to some megabytes).
"""

from __future__ import annotations

import heapq
import multiprocessing as mp
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from pdml_spdz.bench.links import Address, Wiring, direct

CHUNK = 1 << 17
AHEAD = 1 << 22  # bytes that a line takes beyond what is on its way


@dataclass(frozen=True)
class Network:
    """round_trip in seconds, bandwidth of a party's uplink in bits a second; 0 : loopback as it is"""

    name: str
    round_trip: float = 0.0
    bandwidth: float = 0.0

    @property
    def latency(self) -> float:
        """One way: what one round of a protocol waits for."""
        return self.round_trip / 2

    @property
    def wiring(self) -> Wiring:
        """How the parties of a benchmark are connected through it."""
        return partial(relayed, network=self) if self.round_trip or self.bandwidth else direct

    def seconds(self, rounds: float, bytes_sent: float) -> float:
        """What this network adds to a protocol with so many rounds, and bytes sent by a party to all its peers."""
        return rounds * self.latency + (8 * bytes_sent / self.bandwidth if self.bandwidth else 0.0)


LOOPBACK = Network("loopback")
LAN = Network("LAN (10 Gbit/s, 0.2 ms)", 0.2e-3, 10e9)
REGION = Network("1 Gbit/s, 20 ms", 20e-3, 1e9)
CONTINENT = Network("100 Mbit/s, 100 ms", 100e-3, 100e6)
NETWORKS = {"loopback": LOOPBACK, "lan": LAN, "20ms": REGION, "100ms": CONTINENT}


@contextmanager
def relayed(addresses: Sequence[Address], network: Network) -> Iterator[list[list[Address]]]:
    """For each party the addresses at which it reaches the others through `network`.

    Party m connects to those with lower numbers (transport.connect), so there is a door for every m > l.
    """
    M = len(addresses)
    doors = {(m, l): socket.create_server(("127.0.0.1", 0)) for m in range(M) for l in range(m)}
    seen = [list(addresses) for _ in range(M)]
    for (m, l), door in doors.items():
        seen[m][l] = ("127.0.0.1", int(door.getsockname()[1]))
    relay = mp.get_context("fork").Process(target=_Relay(network, doors, addresses).run, daemon=True)
    relay.start()
    for door in doors.values():
        door.close()
    try:
        yield seen
    finally:
        relay.terminate()
        relay.join()


@dataclass(eq=False)
class _Way:
    """One direction of one line: from party `sender`, read at `source`, written to `sink`."""

    sender: int
    source: socket.socket
    sink: socket.socket
    queue: deque[tuple[float, memoryview]] = field(default_factory=deque)
    waiting: int = 0
    ended: bool = False
    closed: bool = False


class _Relay:
    def __init__(
        self, network: Network, doors: dict[tuple[int, int], socket.socket], addresses: Sequence[Address]
    ) -> None:
        self.network, self.addresses = network, addresses
        self.doors = {door: pair for pair, door in doors.items()}
        self.free = [0.0] * len(addresses)  # when each party's uplink has sent all it was given
        self.ways: list[_Way] = []
        self.most = AHEAD + int(network.bandwidth * network.latency / 4)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # how it ends: the command's own handler would say so
        while True:
            now = time.monotonic()
            ripe = [w for w in self.ways if w.queue and w.queue[0][0] <= now]
            coming = heapq.nsmallest(1, (w.queue[0][0] for w in self.ways if w.queue and w not in ripe))
            readers = [w for w in self.ways if not w.ended and w.waiting < self.most]
            sources, sinks = {w.source: w for w in readers}, {w.sink: w for w in ripe}
            # select, not epoll: its time-out is finer than a millisecond.
            readable, writable, _ = select.select(
                [*self.doors, *sources], list(sinks), [], max(0.0, coming[0] - now) if coming else None
            )
            for sock in readable:
                if sock in self.doors:
                    self._open(sock)
                else:
                    self._take(sources[sock])
            for sock in writable:
                self._give(sinks[sock])
            for way in self.ways:
                if way.ended and not way.queue and not way.closed:
                    way.closed = True
                    with suppress(OSError):
                        way.sink.shutdown(socket.SHUT_WR)

    def _open(self, door: socket.socket) -> None:
        m, l = self.doors[door]
        near, _ = door.accept()
        far = socket.create_connection(self.addresses[l])
        for sock in (near, far):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ways += [_Way(m, near, far), _Way(l, far, near)]

    def _take(self, way: _Way) -> None:
        try:
            data = way.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            way.ended = True
            return
        sent = max(time.monotonic(), self.free[way.sender])
        if self.network.bandwidth:
            sent += 8 * len(data) / self.network.bandwidth
        self.free[way.sender] = sent
        way.queue.append((sent + self.network.latency, memoryview(data)))
        way.waiting += len(data)

    def _give(self, way: _Way) -> None:
        now = time.monotonic()
        try:
            while way.queue and way.queue[0][0] <= now:
                due, data = way.queue[0]
                n = way.sink.send(data)
                way.waiting -= n
                if n == len(data):
                    way.queue.popleft()
                else:
                    way.queue[0] = due, data[n:]
        except BlockingIOError:
            pass
        except OSError:  # nobody is there any more
            way.waiting = 0
            way.queue.clear()
            way.ended = True
