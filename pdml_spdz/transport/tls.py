"""Rounds over a full mesh of TLS 1.3 connections, from one thread.

Each pair of parties has one connection. All sockets are non-blocking and a selector moves the sends and receives of
a round together, so two parties that send large vectors to each other at once cannot block each other, and a peer
that leaves is noticed while waiting for any other. (TLS objects are not made to be used by two threads at once.)
"""

from __future__ import annotations

import contextlib
import selectors
import ssl
import time
from collections import deque
from collections.abc import Mapping

import numpy as np

from pdml_spdz.transport.base import (
    ABORT,
    DATA,
    HEADER,
    Frame,
    Link,
    abort_payload,
    aborted,
    header,
    lost,
    parse_header,
    stalled,
)
from pdml_spdz.transport.clock import Clock
from pdml_spdz.transport.whole import whole

FAREWELL_SECONDS = 2.0  # how long a failing party tries to say why
CHUNK = 1 << 18
SMALL = 1 << 13  # bytes that travel in one record with their header: a write costs more than a copy


class _Peer:
    """One connection: frames waiting to go out, frames that came in, the frame being read."""

    def __init__(self, party: int, sock: ssl.SSLSocket) -> None:
        self.party, self.sock = party, sock
        self.outbox: deque[memoryview] = deque()
        self.inbox: deque[Frame] = deque()
        self.closed = False
        self.moved = time.monotonic()  # when a byte last came or went
        self._header = bytearray(HEADER.size)
        self._begin()

    def _begin(self) -> None:
        self._parsed: tuple[int, str, int, int] | None = None
        self._target = memoryview(self._header)
        self._filled = 0

    def post(self, kind: int, step: str, sequence: int, payload: memoryview) -> None:
        head = header(kind, step, sequence, payload.nbytes)
        if payload.nbytes <= SMALL:
            self.outbox.append(memoryview(head + payload.tobytes()))
        else:
            self.outbox.extend((memoryview(head), payload))

    def write(self) -> None:
        """Send what the socket takes now."""
        try:
            while self.outbox:
                part = self.outbox[0]
                sent = self.sock.send(part[:CHUNK])
                self.moved = time.monotonic()
                if sent == part.nbytes:
                    self.outbox.popleft()
                else:
                    self.outbox[0] = part[sent:]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.read()  # it has gone; why, it may have said before
            self.closed = True

    def read(self) -> None:
        """Take in what has arrived; whole frames go to the inbox."""
        try:
            while not self.closed:
                n = self.sock.recv_into(self._target[self._filled :])
                if n == 0:
                    self.closed = True
                    return
                self.moved = time.monotonic()
                self._filled += n
                if self._filled == self._target.nbytes:
                    self._complete()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.closed = True

    def _complete(self) -> None:
        if self._parsed is None:
            self._parsed = parse_header(self._header, self.party)
            length = self._parsed[3]
            if length:
                self._target, self._filled = np.empty(length, np.uint8).data, 0
                return
            self._target = memoryview(b"")
        kind, step, sequence, _ = self._parsed
        self.inbox.append(Frame(kind, step, sequence, self._target))
        self._begin()


def longer(timeout: float) -> float:
    """For whoever may be waiting for one that itself waits for a third."""
    return 1.2 * timeout + 1.0


class TlsLink(Link):
    """Party me's end of the mesh. `sockets[l]` is the authenticated connection to party l."""

    def __init__(
        self,
        me: int,
        M: int,
        sockets: Mapping[int, ssl.SSLSocket],
        *,
        timeout: float,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(me, M, timeout=timeout, clock=clock)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Peer] = {}
        for party, sock in sockets.items():
            sock.setblocking(False)
            self._connections[party] = _Peer(party, sock)
            self._selector.register(sock, selectors.EVENT_READ, self._connections[party])

    def _round(
        self, step: str, sequence: int, payloads: Mapping[int, memoryview], expect: list[int]
    ) -> dict[int, memoryview]:
        with self.clock("transport"):
            with whole():
                for party, payload in payloads.items():
                    self._connections[party].post(DATA, step, sequence, payload)
                    self._connections[party].write()
            # Whoever waits for one party only may be waiting for one that itself waits for a third: it
            # gives that party time to find out, and to name, who is late.
            direct = len(expect) == self.M - 1
            self._pump(step, expect, self.timeout if direct else longer(self.timeout))
            return {
                party: self.check(self._connections[party].inbox.popleft(), party, step, sequence) for party in expect
            }

    def _pump(self, step: str, expect: list[int], timeout: float) -> None:
        """Move bytes until everything is sent and a frame of each expected party is in its inbox."""
        started = time.monotonic()

        def late() -> list[int]:
            return [p.party for p in waiting if time.monotonic() - max(p.moved, started) > timeout]

        while True:
            waiting = [
                peer for party, peer in self._connections.items() if peer.outbox or (party in expect and not peer.inbox)
            ]
            self._notice(waiting)
            if not waiting:
                return
            self._select(timeout)
            if late():
                self._select(0.0)  # if it was this party that slept, what the others sent is here by now
                names = late()
                if len(names) > 1 and timeout == self.timeout:
                    timeout = longer(timeout)  # one of them may be waiting for another, and about to say so
                elif names:
                    raise stalled(names, timeout, step)

    def _notice(self, waiting: list[_Peer]) -> None:
        """Raise if a party has said farewell, or if one that is still needed has gone without a word."""
        for party, peer in self._connections.items():
            if peer.inbox and peer.inbox[0].kind == ABORT:
                self.check(peer.inbox[0], party, "", 0)
        for peer in waiting:
            if peer.closed:
                told = peer.inbox and peer.inbox[-1].kind == ABORT
                raise aborted(peer.inbox[-1], peer.party, self.me, self.M) if told else lost(peer.party)

    def _select(self, timeout: float) -> None:
        for key in list(self._selector.get_map().values()):
            peer: _Peer = key.data
            if peer.closed:
                self._selector.unregister(peer.sock)
                continue
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.outbox else 0)
            if key.events != events:
                self._selector.modify(peer.sock, events, peer)
        with self.clock("wait"):
            ready = self._selector.select(min(timeout, 0.5))
        with whole():
            for key, events in ready:
                if events & selectors.EVENT_WRITE:
                    key.data.write()
                if events & selectors.EVENT_READ:
                    key.data.read()

    def abort(self, error: BaseException) -> None:
        payload = memoryview(abort_payload(error, self.me))
        for peer in self._connections.values():
            peer.post(ABORT, "abort", self._sequence, payload)
        deadline = time.monotonic() + FAREWELL_SECONDS
        while time.monotonic() < deadline and any(p.outbox and not p.closed for p in self._connections.values()):
            self._select(0.05)

    def close(self) -> None:
        for peer in self._connections.values():
            with contextlib.suppress(OSError, ValueError):
                peer.sock.close()
        self._selector.close()
