"""Rounds over a full mesh of TLS 1.3 connections.

Each pair of parties has one connection. All sockets are non-blocking and a selector moves the sends and receives of
a round together, so two parties that send large vectors to each other at once cannot block each other, and a peer
that leaves is noticed while waiting for any other. Between rounds a second thread says that this party is still
working; a lock sees to it that no two threads use a connection at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import selectors
import socket
import struct
import termios
import threading
import time
from collections.abc import Mapping

from pdml_spdz.system.signals import deferrable, whole
from pdml_spdz.transport.base import (
    ABORT,
    AT_WORK,
    AWAITING,
    DATA,
    WORKING,
    Clock,
    Link,
    abort_payload,
    aborted,
    lost,
)
from pdml_spdz.transport.connection import CHUNK, READS, Connection, Expected
from pdml_spdz.transport.patience import Patience, Wait

FAREWELL_SECONDS = 2.0  # how long a failing party tries to say why
TICK = 0.5  # seconds after which a waiting party looks at the time


class TlsLink(Link):
    """Party me's end of the mesh. `connections[l]` is the authenticated connection to party l."""

    def __init__(
        self,
        me: int,
        M: int,
        connections: Mapping[int, Connection],
        *,
        patience: Patience,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(me, M, timeout=patience.round, clock=clock)
        self.patience = patience
        self._selector = selectors.DefaultSelector()
        self._connections = dict(connections)
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._spoke, self._patience_at_the_end = time.monotonic(), patience.round
        self._until_closed = contextlib.ExitStack()
        self._until_closed.enter_context(deferrable())
        with contextlib.suppress(RuntimeError):  # no thread to be had: the others wait for `timeouts.round`
            threading.Thread(target=self._say_working, daemon=True).start()

    def _round(
        self, step: str, sequence: int, payloads: Mapping[int, memoryview], expect: Mapping[int, int]
    ) -> dict[int, memoryview]:
        with self.clock("transport"), self._lock:
            for party, most in expect.items():
                self._connections[party].expect(Expected(self, step, sequence, most))
            with whole():
                for party, payload in payloads.items():
                    self._connections[party].post(DATA, step, sequence, payload)
                    self._connections[party].write()
            self._pump(step, expect)
            return {party: self._connections[party].take() for party in expect}

    def _pump(self, step: str, expect: Mapping[int, int]) -> None:
        """Move bytes until everything is sent and a frame of each expected party is there."""
        # Whoever waits for one party only may be waiting for one that itself waits for a third: it gives that party
        # time to find out, and to name, who is late.
        wait = Wait(self.patience, step, expect, self._connections, direct=len(expect) == self.M - 1)
        while True:
            self._notice()
            waiting = [peer for peer in self._connections.values() if peer.awaited]
            if not waiting:
                return
            self._select(min(TICK, self.patience.beat))
            if wait.late(waiting):
                self._select(0.0)  # if it was this party that slept, what the others sent is here by now
                self._notice()
                if error := wait.verdict(waiting):
                    raise error
            if time.monotonic() - self._spoke > self.patience.beat:
                self._beat(AWAITING)  # somebody else may be waiting for this party, or for one that waits for it

    def _notice(self) -> None:
        """Raise if a party has said farewell or broken the rules, or if one that is still needed has gone."""
        for party, peer in self._connections.items():
            if peer.left is not None:
                raise aborted(peer.left, party, self.me, self.M)
            if peer.error is not None:
                raise peer.error
        for peer in self._connections.values():
            if (peer.closed and peer.awaited) or (peer.cut and peer.outbox):
                raise aborted(peer.farewell, peer.party, self.me, self.M) if peer.farewell else lost(peer.party)

    def listen(self) -> float:
        with self._lock:
            self._select(0.0)
            self._notice()
            for peer in self._connections.values():
                if peer.closed:  # killed: it was asked for nothing, and has said nothing
                    raise lost(peer.party)
            return max(peer.sign for peer in self._connections.values())

    def _select(self, timeout: float) -> None:
        ready: list[Connection] = []
        with whole():  # the system and the selector are to know the same of a socket
            for peer in self._connections.values():
                peer.register(self._selector)
        for peer in self._connections.values():
            if peer.reads and peer.sock.pending():
                ready.append(peer)  # it is in TLS's own buffer: the socket shows nothing
        with self.clock("wait"):
            events = self._selector.select(0.0 if ready else timeout) if self._selector.get_map() else []
        for key, mask in events:
            if mask & selectors.EVENT_WRITE:
                with whole():
                    key.data.write()
            if mask & selectors.EVENT_READ and key.data not in ready:
                ready.append(key.data)
        for peer in ready:
            peer.read()

    # ---- the other thread

    def _say_working(self) -> None:
        while not self._closing.wait(self.patience.beat):
            # In a round it says itself that it is there (`_pump`).
            if self._at_work() and self._lock.acquire(blocking=False):
                try:
                    self._beat(AT_WORK)
                finally:
                    self._lock.release()

    def _beat(self, word: str) -> None:
        self._spoke = time.monotonic()
        with whole():
            for peer in [peer for peer in self._connections.values() if not (peer.outbox or peer.cut)]:
                peer.post(WORKING, word, self._sequence, memoryview(b""))
                peer.write()
                if peer.cut:
                    peer.outbox.clear()  # nobody waits for this word; a frame and a farewell may still be read

    # ---- the end

    def abort(self, error: BaseException) -> None:
        payload = memoryview(abort_payload(error, self.me))
        self._patience_at_the_end = FAREWELL_SECONDS
        with self._lock:
            for peer in self._connections.values():
                peer.post(ABORT, "abort", self._sequence, payload)
            deadline = time.monotonic() + FAREWELL_SECONDS
            while time.monotonic() < deadline and any(p.outbox and not p.cut for p in self._connections.values()):
                self._select(0.05)

    def close(self) -> None:
        self._closing.set()
        with self._until_closed, self._lock:
            try:
                self._linger()
            finally:
                for peer in self._connections.values():
                    with contextlib.suppress(OSError, ValueError):
                        peer.sock.close()
                self._selector.close()

    def _linger(self) -> None:
        """Until what was sent is with the others' systems.

        A socket that is closed before that, and has something unread or hears something afterwards, resets the
        connection and drops what it has not sent yet; and the others may say at any time that they are waiting.
        """
        left = [peer.sock for peer in self._connections.values() if not peer.cut]
        most = max(map(_unsent, left), default=0)
        deadline = time.monotonic() + self._patience_at_the_end + most / self.patience.least_rate
        while left := [sock for sock in left if _drained(sock) and _unsent(sock)]:
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)


def _drained(sock: socket.socket) -> bool:
    """Throw away what has arrived, as it is, without TLS; whether there may be more."""
    try:
        for _ in range(READS):
            if not socket.socket.recv(sock, CHUNK):
                return False
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def _unsent(sock: socket.socket) -> int:
    """Bytes that the other end's system has not confirmed yet."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return 0  # what a local socket was sent is at its other end
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0])
    except OSError:
        return 0
