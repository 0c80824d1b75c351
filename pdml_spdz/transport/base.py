"""What every link between M parties offers: rounds of frames, counted, in step, with a word before leaving.

A frame is a fixed header (kind, step, sequence number, length) and a payload. The sequence number is the
count of rounds so far and the step is a short name such as "svd:sum": a peer that is elsewhere in the protocol is
noticed at its first frame, before its payload is used, and so is one that announces more bytes than its step has.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import INTERRUPTED, PUBLIC, RESUME, PdmlError, PeerAborted, PeerError, ProtocolError

Buffer: TypeAlias = "bytes | bytearray | memoryview | NDArray[Any]"

HEADER = struct.Struct("<3sB20sQQ")  # magic, kind, step, sequence, length: 40 bytes
MAGIC = b"PD1"
FAREWELL = struct.Struct("<3B")  # who ended the run, through whom, why
DATA, ABORT, WORKING = 0, 1, 2
# No frame is longer, whatever a step allows. "Still working" says everything in its header.
LONGEST = {DATA: 1 << 36, ABORT: FAREWELL.size, WORKING: 0}
# What a party says in the place of a step: that it computes, or that it waits for others. Who says neither is late.
AT_WORK, AWAITING = "working", "waiting"


@dataclass(frozen=True)
class Frame:
    kind: int
    step: str
    sequence: int
    payload: memoryview


@dataclass
class Traffic:
    """What one party sent and received: bytes of frames (headers included, TLS records not) by peer.

    machines : bytes that an engine's own programs have sent, on connections of their own
    rounds : of the link, and theirs
    """

    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    rounds: int = 0
    machines: int = 0

    @property
    def bytes_sent(self) -> int:
        return sum(self.sent.values()) + self.machines

    def add_machine(self, n: int, rounds: int) -> None:
        self.machines += n
        self.rounds += rounds

    def add_sent(self, peer: int, n: int) -> None:
        self.sent[peer] = self.sent.get(peer, 0) + n

    def add_received(self, peer: int, n: int) -> None:
        self.received[peer] = self.received.get(peer, 0) + n


def view(data: Buffer) -> memoryview:
    """The bytes of `data` without a copy (an array that is not contiguous is copied)."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return memoryview(data).cast("B")


def read_object(raw: Buffer) -> dict[str, Any]:
    """The JSON object that a peer sent as `raw`; ValueError for whatever else.

    Python's reader takes more than JSON has: NaN, Infinity and numbers that become it, halves of characters that no
    file or terminal takes; it gives up on deep nesting with an error of another class.
    """
    try:
        content = json.loads(bytes(view(raw)))
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return content


def header(kind: int, step: str, sequence: int, length: int) -> bytes:
    return HEADER.pack(MAGIC, kind, step.encode("ascii"), sequence, length)


def parse_header(raw: bytes | bytearray, peer: int) -> tuple[int, str, int, int]:
    magic, kind, step, sequence, length = HEADER.unpack(raw)
    if magic != MAGIC or length > LONGEST.get(kind, -1):
        raise ProtocolError(
            f"P{peer} sent bytes that are not a frame of this protocol.",
            "the same version of pdml-spdz at every party",
            "compare `pdml-spdz --version` at both ends",
            culprit=peer,
        )
    return kind, step.rstrip(b"\0").decode("ascii", "replace"), sequence, length


class Clock:
    """Where time goes: `with clock("crypto"):` adds what passes inside to it, and takes that from what is around."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stack: list[tuple[str, bool]] = []
        self._since = self._start = time.perf_counter()

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.seconds[self._stack[-1][0]] += now - self._since
        self._since = now

    @contextmanager
    def __call__(self, category: str, *, whole: bool = False) -> Iterator[None]:
        """whole : categories inside this one are not told apart from it"""
        self._settle()
        inside = self._stack[-1] if self._stack else ("", False)
        self._stack.append(inside if inside[1] else (category, whole))
        try:
            yield
        finally:
            self._settle()
            self._stack.pop()

    def move(self, seconds: float, source: str, to: str) -> None:
        """Time that was counted in one category, as far as it was, belongs to another."""
        self._settle()
        moved = min(seconds, self.seconds[source])
        self.seconds[source] -= moved
        self.seconds[to] += moved

    @property
    def total(self) -> float:
        return time.perf_counter() - self._start


class Link(ABC):
    """One party's connection to all others.

    me, M : this party's number and the number of parties
    phases : what has been counted by name (`phase`) of time and traffic
    heard : a hash of all that any party has sent to all (`all_to_all`, `broadcast`), from the first round on. It is the
        same at all parties unless one of them has said different things to different others
    """

    def __init__(self, me: int, M: int, *, timeout: float, clock: Clock | None = None) -> None:
        self.me, self.M, self.timeout = me, M, timeout
        self.clock = clock or Clock()
        self.traffic = Traffic()
        self.offline_traffic = Traffic()
        self.phases: dict[str, dict[str, float]] = {}
        self.heard = bytes(32)
        self._offline = False
        self._sequence = 0
        self._at_work: Callable[[], bool] = lambda: True
        self.peers = [l for l in range(M) if l != me]

    @property
    def below(self) -> list[int]:
        """The peers with lower numbers."""
        return list(range(self.me))

    @property
    def above(self) -> list[int]:
        return list(range(self.me + 1, self.M))

    @contextmanager
    def offline(self) -> Iterator[None]:
        """What happens inside is the offline phase: its time and traffic are counted apart. May be nested."""
        if self._offline:
            yield
            return
        self._offline = True
        self.traffic, self.offline_traffic = self.offline_traffic, self.traffic
        try:
            with self.clock("offline", whole=True):
                yield
        finally:
            self.traffic, self.offline_traffic = self.offline_traffic, self.traffic
            self._offline = False

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens inside, in time and traffic, is added up under a name as well."""
        before = time.perf_counter(), self.traffic.bytes_sent, self.traffic.rounds
        try:
            yield
        finally:
            after = time.perf_counter(), self.traffic.bytes_sent, self.traffic.rounds
            spent = self.phases.setdefault(name, {"seconds": 0.0, "bytes_sent": 0, "rounds": 0})
            for key, new, old in zip(spent, after, before, strict=True):
                spent[key] += new - old

    @contextmanager
    def working_while(self, at_work: Callable[[], bool]) -> Iterator[None]:
        """Inside, this party is working only if `at_work` says so, and otherwise waits; another thread asks."""
        before, self._at_work = self._at_work, at_work
        try:
            yield
        finally:
            self._at_work = before

    def listen(self) -> float:
        """Between rounds: when a peer last said that it is working, by this process's monotonic clock; raises if one
        has ended the run.
        """
        return 0.0

    def each(self, most: int) -> dict[int, int]:
        """At most so many bytes from every peer: for `exchange`."""
        return dict.fromkeys(self.peers, most)

    def exchange(self, step: str, outgoing: Mapping[int, Buffer], expect: Mapping[int, int]) -> dict[int, memoryview]:
        """One round: send `outgoing[l]` to each l, return one payload from each party in `expect`.

        Every party calls the same steps in the same order, also when it has nothing to send or to receive in one.

        expect : by party, how many bytes its payload may have; that it has as many as it should is the caller's to see
        """
        self._sequence += 1
        self.traffic.rounds += 1
        payloads = {peer: view(data) for peer, data in outgoing.items()}
        received = self._round(step, self._sequence, payloads, expect)
        for peer, data in payloads.items():
            self.traffic.add_sent(peer, HEADER.size + data.nbytes)
        for peer, data in received.items():
            check_length(data.nbytes, expect[peer], peer, step)
            self.traffic.add_received(peer, HEADER.size + data.nbytes)
        return received

    def exchange_all(self, step: str, outgoing: Mapping[int, Buffer], size: int) -> dict[int, memoryview]:
        """One round with every peer, in which each sends exactly `size` bytes."""
        return self.exchange_exactly(step, outgoing, self.peers, size)

    def exchange_exactly(
        self, step: str, outgoing: Mapping[int, Buffer], senders: Iterable[int], size: int
    ) -> dict[int, memoryview]:
        """One round in which each of the senders sends this party exactly `size` bytes, and nobody else any."""
        received = self.exchange(step, outgoing, dict.fromkeys(senders, size))
        for peer, data in received.items():
            if data.nbytes != size:
                raise misfit(data.nbytes, f"exactly {size} bytes", peer, step)
        return received

    def all_to_all(self, step: str, data: Buffer, most: int | None = None) -> dict[int, memoryview]:
        """Send the same bytes to every peer, return every peer's: at most as many as ours, or `most`."""
        payload = view(data)
        expect = self.each(payload.nbytes if most is None else most)
        received = self.exchange(step, dict.fromkeys(self.peers, payload), expect)
        self._hear(step, received | {self.me: payload})
        return received

    def broadcast(self, step: str, data: Buffer | None, root: int = 0, *, most: int) -> memoryview:
        """The root's bytes, at most `most`, at every party."""
        if self.me == root:
            assert data is not None
            payload = view(data)
            self.exchange(step, dict.fromkeys(self.peers, payload), {})
        else:
            payload = self.exchange(step, {}, {root: most})[root]
        self._hear(step, {root: payload})
        return payload

    def _hear(self, step: str, said: Mapping[int, memoryview]) -> None:
        heard = hashlib.sha256(self.heard + f"{self._sequence} {step}".encode())
        for party in sorted(said):
            heard.update(f" {party} {said[party].nbytes} ".encode())
            heard.update(said[party])
        self.heard = heard.digest()

    def check(self, frame: Frame, peer: int, step: str, sequence: int) -> memoryview:
        """The payload of the frame that this round expects from `peer`, or the error that its header means."""
        if frame.kind == ABORT:
            raise aborted(frame, peer, self.me, self.M)
        self.check_step(frame.step, frame.sequence, peer, step, sequence)
        return frame.payload

    def check_step(self, found: str, at: int, peer: int, step: str, sequence: int) -> None:
        if (found, at) != (step, sequence):
            raise ProtocolError(
                f"P{peer} is at step {found!r} (round {at}), P{self.me} is at {step!r} (round {sequence}).",
                "all parties at the same step",
                "start all parties with the same study file, version and --resume setting",
                culprit=peer,
            )

    @abstractmethod
    def _round(
        self, step: str, sequence: int, payloads: Mapping[int, memoryview], expect: Mapping[int, int]
    ) -> dict[int, memoryview]: ...

    @abstractmethod
    def abort(self, error: BaseException) -> None:
        """Tell every peer, as far as it can still be told, that this party ends the run and why (class only)."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                self.abort(error)
        finally:
            self.close()


def abort_payload(error: BaseException, me: int) -> bytes:
    """What the others may know: who ended the run, through whom, and a code for why; nothing that depends on data."""
    if isinstance(error, PeerAborted) and error.farewell:
        return error.farewell
    culprit, code = me, PdmlError.code
    if isinstance(error, PdmlError):
        culprit, code = me if error.culprit is None else error.culprit, error.code
    if isinstance(error, KeyboardInterrupt | SystemExit):
        code = INTERRUPTED
    return FAREWELL.pack(me, culprit, code if code in PUBLIC else PdmlError.code)


def aborted(frame: Frame, peer: int, me: int, M: int) -> PeerAborted:
    """The error for a peer's farewell: whoever ended the run first is named, and the messenger if it is another one.

    A peer's words are numbers, of parties and of a sentence in `PUBLIC`: what is neither is not repeated.
    """
    by, culprit, code = FAREWELL.unpack(frame.payload) if frame.payload.nbytes == FAREWELL.size else (M, M, 0)
    if not (by < M and by != me and culprit < M and code in PUBLIC):
        by, culprit, code = peer, peer, PdmlError.code
    cause = f"P{by} ended the run: {PUBLIC[code]}" + (f" (P{culprit})" if culprit != by else "")
    told = f", as P{peer} says" if by != peer else ""
    do = f"see the message at P{culprit}, mend it there and start again; {RESUME}"
    error = PeerAborted(f"{cause}{told}.", do=do, culprit=culprit)
    error.farewell = FAREWELL.pack(by, culprit, code)
    return error


def check_length(found: int, most: int, peer: int, step: str) -> None:
    if found > most:
        raise misfit(found, f"at most {most} bytes", peer, step)


def misfit(found: int, wanted: str, peer: int, step: str) -> ProtocolError:
    return ProtocolError(
        f"P{peer} has a message of {found} bytes at step {step!r}.",
        f"{wanted} in this step",
        "start all parties with the same study file and version",
        culprit=peer,
    )


def lost(peer: int) -> PeerError:
    return PeerError(
        f"P{peer} closed the connection in the middle of the run (killed, crashed or cut off).",
        "every party to stay until the end",
        f"look at P{peer}'s log; {RESUME}",
        culprit=peer,
    )


def stalled(peers: list[int], seconds: float, step: str) -> PeerError:
    names = ", ".join(f"P{p}" for p in peers)
    return PeerError(
        f"{names} sent nothing for {seconds:g} s at step {step!r}.",
        "an answer, or a word that it is still there, within the study's time-outs",
        "look at that party: it has stopped, or is cut off; raise `timeouts.work` (and `timeouts.round`) in the study "
        f"if its local work takes longer than that; {RESUME}",
        culprit=peers[0],
    )
