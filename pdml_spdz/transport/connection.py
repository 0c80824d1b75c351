"""One connection of a mesh: frames on their way out, and the frame that is coming in."""

from __future__ import annotations

import selectors
import ssl
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import RESUME, PdmlError, PeerError
from pdml_spdz.transport.base import (
    ABORT,
    AWAITING,
    DATA,
    HEADER,
    Frame,
    Link,
    check_length,
    header,
    parse_header,
)

CHUNK = 1 << 18
SMALL = 1 << 13  # bytes that travel in one record with their header: a write costs more than a copy
READS = 256  # records taken in at a time: a peer that sends without end does not keep this party from the others


@dataclass(frozen=True)
class Expected:
    """The frame that a round wants of a peer."""

    link: Link
    step: str
    sequence: int
    most: int

    def check(self, peer: int, step: str, sequence: int, length: int) -> None:
        self.link.check_step(step, sequence, peer, self.step, self.sequence)
        check_length(length, self.most, peer, self.step)


class Connection:
    """Reads no payload but that of a frame which this party's round expects, or of a farewell.

    A peer that is a round ahead waits, with its bytes, in the operating system's buffers: a frame that nobody asked for
    takes no memory here, and its length is known to be right before there is room for it.

    outbox : frames waiting to go out
    expected : what this round wants of the peer, until it is there; None when it wants nothing (more)
    begun : when the first byte came of a frame that is not complete
    sign : when the peer last said that it is still working
    heard : the same, or that it waits for others, before the frame that this round expects of it
    farewell, error : why nothing more will come
    cut : nothing more can be sent; what came before may still be read
    closed : nothing more can be read
    """

    def __init__(self, party: int, sock: ssl.SSLSocket) -> None:
        sock.setblocking(False)
        self.party, self.sock = party, sock
        self.outbox: deque[memoryview] = deque()
        self.expected: Expected | None = None
        self.begun: float | None = None
        self.sign = self.heard = 0.0
        self.farewell: Frame | None = None
        self.error: PdmlError | None = None
        self.cut = self.closed = False
        self._events = 0
        self._frame: Frame | None = None
        self._header = bytearray(HEADER.size)
        self._begin()

    def _begin(self) -> None:
        self._parsed: tuple[int, str, int, int] | None = None
        self._target = memoryview(self._header)
        self._filled = 0
        self.begun = None
        self._held = False  # its header is here, and its round is not

    # ---- out

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
                if sent == part.nbytes:
                    self.outbox.popleft()
                else:
                    self.outbox[0] = part[sent:]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.cut = True
            self.read()  # it has gone; why, it may have said before,
            self.read()  # behind the frame that the round wanted

    # ---- in

    def expect(self, frame: Expected) -> None:
        self.expected = frame
        if self._held and self._parsed is not None:
            self._held = False
            self._open(*self._parsed)

    def take(self) -> memoryview:
        """The payload that was expected."""
        frame, self._frame = self._frame, None
        assert frame is not None
        return frame.payload

    @property
    def awaited(self) -> bool:
        """Whether the round waits for this peer: to send, or to take what it is sent."""
        return bool(self.expected or self.outbox)

    @property
    def left(self) -> Frame | None:
        """The peer's farewell, unless it came after the frame that the round wanted: that is used first."""
        return self.farewell if self._frame is None else None

    @property
    def reads(self) -> bool:
        return not (self.closed or self._held or self.error or self.farewell)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Ask the selector for what this connection can do now."""
        events = selectors.EVENT_READ * self.reads | selectors.EVENT_WRITE * bool(self.outbox and not self.cut)
        if events == self._events:
            return
        if not events:
            selector.unregister(self.sock)
        elif not self._events:
            selector.register(self.sock, events, self)
        else:
            selector.modify(self.sock, events, self)
        self._events = events

    def read(self) -> None:
        """Take in what has arrived, up to the next frame that nobody expects yet."""
        before = self._frame
        try:
            for _ in range(READS):
                if not self.reads:
                    return
                n = self.sock.recv_into(self._target[self._filled :])
                if n == 0:
                    self.closed = True
                    return
                self.begun = self.begun or time.monotonic()
                self._filled += n
                if self._filled == self._target.nbytes:
                    self._complete()
                    if self._frame is not before:
                        return  # what was wanted; to ask for more costs as much again, and mostly there is nothing
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            self.closed = True
        except ssl.SSLError as error:
            self.closed, self.error = True, damaged(self.party, error)
        except OSError:
            self.closed = True
        except PdmlError as error:
            self.error = error

    def _complete(self) -> None:
        if self._parsed is None:
            self._parsed = parse_header(self._header, self.party)
            self._open(*self._parsed)
        else:
            self._close()

    def _open(self, kind: int, step: str, sequence: int, length: int) -> None:
        """A header is here: make room for its payload, if it has one and if it is time."""
        if kind == DATA:
            if self.expected is None:
                self._held = True
                return
            self.expected.check(self.party, step, sequence, length)
        self._target, self._filled = np.empty(length, np.uint8).data, 0
        if length == 0:
            self._close()

    def _close(self) -> None:
        """A frame is complete."""
        assert self._parsed is not None
        kind, step, sequence, _ = self._parsed
        frame = Frame(kind, step, sequence, self._target)
        if kind == DATA:
            self._frame, self.expected = frame, None
        elif kind == ABORT:
            self.farewell = frame
        elif step != AWAITING:
            self.sign = self.heard = time.monotonic()
        elif self.expected is None or sequence < self.expected.sequence:
            self.heard = time.monotonic()  # not of one that waits in the round in which it owes a frame, or after it
        self._begin()


def damaged(peer: int, error: ssl.SSLError) -> PeerError:
    return PeerError(
        f"a record between P{peer} and this party was damaged on its way ({error.reason}).",
        "bytes that arrive as they were sent",
        f"look at what stands between P{peer} and this party (proxies, network cards); {RESUME}",
        culprit=peer,
    )
