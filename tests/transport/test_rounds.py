"""Rounds with a peer that is slow, silent, at work, ahead, or that announces more than it should."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import PeerAborted, PeerError, ProtocolError
from pdml_spdz.transport.base import ABORT, DATA, HEADER, WORKING, Link, header
from pdml_spdz.transport.connection import Connection
from pdml_spdz.transport.inprocess import mesh as mesh_of_queues
from pdml_spdz.transport.patience import Patience
from pdml_spdz.transport.tls import TlsLink
from tests.transport.meshes import HASTY, Outcome, ends, mesh, send, wrapped


def against(peer: Callable[[Connection, threading.Event], None], *, most: int = 100, patience: Patience = HASTY) -> str:
    """What P0 says of a P1 that does as it likes with its end of the connection, in a round that expects `most`."""
    (one,), (other,) = (list(found.values()) for found in ends(2))
    over = threading.Event()
    behaviour = threading.Thread(target=peer, args=(other, over), daemon=True)
    behaviour.start()
    link = TlsLink(0, 2, {1: one}, patience=patience)
    outcome = Outcome(lambda link: link.exchange("test", {1: b"own"}, {1: most}), link).end()
    over.set()
    behaviour.join(10)
    other.sock.close()
    assert isinstance(outcome.error, PeerError | ProtocolError)
    assert outcome.error.culprit == 1
    return str(outcome.error)


def test_silence() -> None:
    said = against(lambda peer, over: None)
    assert "P1 sent nothing for " in said
    assert "raise `timeouts.work` (and `timeouts.round`) in the study" in said


def drip(data: bytes, pause: float = 0.05, size: int = 1) -> Callable[[Connection, threading.Event], None]:
    def peer(connection: Connection, over: threading.Event) -> None:
        with contextlib.suppress(OSError):  # P0 may have gone, a moment before `over` is set
            for i in range(0, len(data), size):
                if over.wait(pause):
                    return
                send(connection, data[i : i + size])

    return peer


@pytest.mark.parametrize("length", [100, 3], ids=["in the payload", "in the header"])
def test_a_byte_now_and_then_holds_nobody_for_ever(length: int) -> None:
    said = against(drip(header(DATA, "test", 1, length) + bytes(length)))
    assert "P1 sends its message at step 'test' too slowly" in said
    assert "agree on a lower `timeouts.least_rate`" in said


@pytest.mark.parametrize(
    ("word", "sequence", "ahead", "work"),
    [
        ("working", 0, 0, 1.0),
        ("working", 0, 1, 1.0),  # the next one always begun
        ("waiting", 0, 0, 1.0),
        ("waiting", 0, 1, 1.0),
        ("waiting", 1, 0, 1000.0),  # in the round in which its frame is wanted: it has to send that before it waits
    ],
)
def test_signs_that_never_end(word: str, sequence: int, ahead: int, work: float) -> None:
    """One is enough for another 0.4 s; after `work` seconds they are of no use."""
    signs = (400 * header(WORKING, word, sequence, 0))[HEADER.size - ahead :]

    def peer(connection: Connection, over: threading.Event) -> None:
        send(connection, header(WORKING, word, sequence, 0)[: HEADER.size - ahead])
        drip(signs, 0.1, HEADER.size)(connection, over)

    said = against(peer, patience=Patience(0.4, work=work, least_rate=1000.0))
    assert "P1 sent nothing for " in said or "too slowly" in said


def test_peer_that_does_not_read() -> None:
    """It has sent its frame; what it is sent is more than the system buffers."""
    (one,), (other,) = (list(found.values()) for found in ends(2))
    send(other, header(DATA, "test", 1, 1) + b"x")
    link = TlsLink(0, 2, {1: one}, patience=Patience(0.4, least_rate=1e9))
    outcome = Outcome(lambda link: link.exchange("test", {1: bytes(10**7)}, {1: 1}), link).end()
    other.sock.close()
    assert isinstance(outcome.error, PeerError)
    assert "P1 takes what it is sent at step 'test' too slowly" in str(outcome.error)


def work(seconds: float) -> Callable[[Link], bytes]:
    def party(link: Link) -> bytes:
        if link.me == link.M - 1:
            time.sleep(seconds)
        own = bytes([link.me])
        received = link.exchange("sum", {0: own} if link.me else {}, link.each(1) if link.me == 0 else {})
        total = b"".join(bytes(received[l]) for l in sorted(received))
        return bytes(link.broadcast("total", total if link.me == 0 else None, most=link.M))

    return party


@pytest.mark.parametrize("M", [2, 3])
@pytest.mark.parametrize("queues", [False, True], ids=["TLS", "queues"])
def test_long_work_of_one_party_is_waited_for(M: int, queues: bool) -> None:
    """With three P1 waits for P0, who waits for P2."""
    patience = Patience(0.3, work=30.0)
    links = mesh_of_queues(M, timeout=0.3, work=30.0) if queues else mesh(M, patience)
    outcomes = [Outcome(work(2.0), link) for link in links]
    for outcome in outcomes:
        assert outcome.end().error is None
        assert outcome.value == bytes(range(1, M))


@pytest.mark.parametrize("queues", [False, True], ids=["TLS", "queues"])
def test_longer_work_than_agreed_is_not(queues: bool) -> None:
    links = mesh_of_queues(2, timeout=0.3, work=1.0) if queues else mesh(2, Patience(0.3, work=1.0))
    waiting, working = (Outcome(work(3.0), link) for link in links)
    assert isinstance(waiting.end().error, PeerError)
    assert isinstance(working.end().error, PeerAborted)


def test_party_that_only_waits_does_not_say_that_it_works() -> None:
    """As one whose virtual machine is idle: the others do not wait for `work` seconds."""

    def party(link: Link) -> object:
        if link.me == 1:
            with link.working_while(lambda: False):
                time.sleep(2.0)
        return link.all_to_all("test", b"")

    waiting, idle = (Outcome(party, link) for link in mesh(2, Patience(0.3, work=30.0)))
    error = waiting.end().error
    assert isinstance(error, PeerError)
    assert "P1 sent nothing for" in str(error)
    idle.end()


def test_between_rounds_a_party_hears_who_works_and_who_has_ended_the_run() -> None:
    def party(link: Link) -> object:
        if link.me == 1:
            time.sleep(1.0)
            raise ProtocolError("it has to end")
        began = time.monotonic()
        while link.listen() < began:
            time.sleep(0.02)
        while True:
            link.listen()
            time.sleep(0.02)

    listening, working = (Outcome(party, link) for link in mesh(2, Patience(0.3, work=30.0)))
    assert isinstance(working.end().error, ProtocolError)
    error = listening.end().error
    assert isinstance(error, PeerAborted)
    assert error.culprit == 1


def test_between_rounds_a_party_that_was_killed_is_missed() -> None:
    """It has said nothing, and nothing was asked of it: its connection is closed, as the system does it."""

    def party(link: Link) -> None:
        while True:
            link.listen()
            time.sleep(0.02)

    listening, killed = mesh(2, Patience(30.0))
    outcome = Outcome(party, listening)
    for peer in killed._connections.values():
        peer.sock.close()
    error = outcome.end().error
    assert isinstance(error, PeerError)
    assert error.culprit == killed.me


def test_frame_that_is_too_long_is_refused_by_its_header() -> None:
    """No byte of its payload is there, and no room for it was made."""
    tracemalloc.start()
    try:
        said = against(lambda peer, over: send(peer, header(DATA, "test", 1, 1 << 30)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert f"P1 has a message of {1 << 30} bytes at step 'test'" in said
    assert "Wanted: at most 100 bytes in this step" in said


@pytest.mark.parametrize("n", [99, 101])
def test_exact_length(n: int) -> None:
    def party(link: Link) -> object:
        return link.exchange_all("test", {1 - link.me: bytes(n if link.me else 100)}, 100)

    outcomes = [Outcome(party, link).end for link in mesh(2)]
    error = outcomes[0]().error
    assert isinstance(error, ProtocolError)
    assert f"P1 has a message of {n} bytes" in str(error)
    outcomes[1]()


def test_frames_of_a_peer_that_is_ahead_wait_outside() -> None:
    """P1 sends what it has for P0 in rounds that P0 comes to later; P0 takes none of it in before."""
    size, rounds = 10**6, 20

    def party(link: Link) -> list[int]:
        if link.me == 1:
            return [len(link.exchange(f"step {i}", {0: np.full(size, i, np.uint8)}, {})) for i in range(rounds)]
        if link.me == 2:
            time.sleep(1.0)  # P0 waits for P2 meanwhile, and P1 goes on
            link.exchange("wait", {0: b""}, {})
            return []
        link._sequence -= 1
        link.exchange("wait", {}, {2: 0})
        tracemalloc.start()
        try:
            found = [int(link.exchange(f"step {i}", {}, {1: size})[1][-1]) for i in range(rounds)]
            assert tracemalloc.get_traced_memory()[1] < 4 * size
        finally:
            tracemalloc.stop()
        return found

    links = mesh(3)
    links[2]._sequence = -1
    ahead, behind, third = Outcome(party, links[1]), Outcome(party, links[0]), Outcome(party, links[2])
    assert behind.end().error is None
    assert behind.value == list(range(rounds))
    assert (ahead.end().error, third.end().error) == (None, None)


class Flipping:
    """Between two ends: passes everything on, and changes a bit of the nth byte from the first."""

    def __init__(self, at: int) -> None:
        (self.first, self._a), (self._b, self.second) = socket.socketpair(), socket.socketpair()
        self._at = at
        for source, sink in ((self._a, self._b), (self._b, self._a)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        count = 0
        with source, contextlib.suppress(OSError):
            while data := bytearray(source.recv(1 << 16)):
                if source is self._a and count <= self._at < count + len(data):
                    data[self._at - count] ^= 1
                count += len(data)
                sink.sendall(data)


def test_damaged_record_is_called_that_at_both_ends() -> None:
    relay = Flipping(at=10**4)
    links = [
        TlsLink(m, 2, {1 - m: Connection(1 - m, sock)}, patience=Patience(10.0))
        for m, sock in enumerate(wrapped(relay.first, relay.second))
    ]

    def party(link: Link) -> object:
        link.all_to_all("test", bytes(10**5))  # whose frame is not damaged may have it, and has not looked further
        return link.all_to_all("more", bytes(10))

    for m, outcome in enumerate([Outcome(party, link) for link in links]):
        error = outcome.end().error
        assert isinstance(error, PeerError)
        assert f"a record between P{1 - m} and this party was damaged on its way" in str(error)


def test_peer_that_is_gone_in_the_middle_of_a_frame() -> None:
    def peer(connection: Connection, over: threading.Event) -> None:
        send(connection, header(DATA, "test", 1, 10) + b"half")
        connection.sock.close()

    assert "P1 closed the connection in the middle of the run" in against(peer)


def test_farewell_behind_the_frame_is_found_by_a_party_that_cannot_send() -> None:
    """It slept while the others gave it up: its own frame has nobody to go to."""
    (one,), (other,) = (list(found.values()) for found in ends(2))
    send(other, header(DATA, "test", 1, 3) + b"abc" + header(ABORT, "abort", 1, 3) + bytes([1, 0, PeerError.code]))
    socket.socket.shutdown(one.sock, socket.SHUT_WR)
    link = TlsLink(0, 2, {1: one}, patience=HASTY)
    with pytest.raises(PeerAborted, match="P1 ended the run: it lost another party"), link:
        link.exchange("test", {1: b"own"}, {1: 100})
    other.sock.close()


def test_farewell_does_not_hide_the_frame_before_it() -> None:
    """What P1 said before it left may tell P0 more than that it left; P2 is late."""
    own, first, second = ends(3)
    send(first[0], header(DATA, "test", 1, 1) + b"x" + header(ABORT, "abort", 1, 3) + bytes([1, 1, 5]))
    link = TlsLink(0, 3, own, patience=Patience(20.0))

    def party(link: Link) -> bytes:
        received = link.exchange("test", {}, link.each(1))
        with pytest.raises(PeerAborted, match="P1 ended the run: it holds a different study"):
            link.exchange("more", {}, link.each(1))
        return bytes(received[1]) + bytes(received[2])

    outcome = Outcome(party, link)
    time.sleep(0.3)
    send(second[0], header(DATA, "test", 1, 1) + b"y")
    assert outcome.end().error is None
    assert outcome.value == b"xy"
    for peer in (*first.values(), *second.values()):
        peer.sock.close()


def test_signal_while_a_socket_is_registered_does_not_keep_a_link_from_its_farewell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one,), (other,) = (list(found.values()) for found in ends(2))
    link = TlsLink(0, 2, {1: one}, patience=HASTY)
    register, signals = link._selector.register, iter([signal.SIGINT])

    def registered(*arguments: Any, **options: Any) -> Any:
        key = register(*arguments, **options)
        for number in signals:  # once: the selector knows of the socket, and nobody else does yet
            signal.raise_signal(number)
        return key

    monkeypatch.setattr(link._selector, "register", registered)
    with pytest.raises(KeyboardInterrupt), link:
        link.exchange("test", {1: b"own"}, {1: 100})
    received = TlsLink(1, 2, {0: other}, patience=HASTY)
    received.exchange("test", {}, {0: 100})
    with pytest.raises(PeerAborted, match="P0 ended the run: it was stopped"), received:
        received.exchange("more", {}, {0: 100})
