"""Floods and strangers at a port, connections that are cut, half open or damaged, and parties that come back."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pdml_spdz.errors import PeerError
from pdml_spdz.study.model import PartyEntry
from pdml_spdz.transport import certs, connect
from pdml_spdz.transport.acceptor import PER_ADDRESS, Acceptor
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connect import Meeting, listen
from pdml_spdz.transport.patience import Patience
from tests.parties.conftest import parties  # noqa: F401
from tests.parties.helpers import PATIENCE, Parties, free_ports, until
from tests.transport.meshes import Outcome, contexts


@contextlib.contextmanager
def knocking(port: int, data: bytes = b"", *, held: int = 400) -> Iterator[None]:
    """Somebody opens one connection after the other, as fast as it can, and keeps the last of them open."""
    over, kept = threading.Event(), []

    def knock() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", port), timeout=1)
                kept.append(sock)
                sock.sendall(data)
            for old in kept[:-held]:
                old.close()
            del kept[:-held]

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)
        for sock in kept:
            sock.close()


# A TLS 1.3 client's first message would be understood; its first bytes alone make the other end wait for more.
BEGINNING = b"\x16\x03\x01\x02\x00\x01\x00"


@pytest.mark.parametrize("data", [b"", BEGINNING, b"GET / HTTP/1.1\r\n\r\n"], ids=["silent", "half a hello", "HTTP"])
def test_flood_from_a_partys_own_address(parties: Callable[..., Parties], data: bytes) -> None:  # noqa: F811
    site = parties()
    first = site.start(0)
    until(lambda: "waiting up to 30 s" in first.out)
    with knocking(site.study.parties[0].port, data):
        until(lambda: "refused a connection from 127.0.0.1" in first.out)
        site.start(1)
        for end in site.end():
            end.well()
    assert first.out.count("refused a connection") < 10


def test_more_connections_than_a_process_may_have_files(parties: Callable[..., Parties]) -> None:  # noqa: F811
    site = parties()
    first = site.start(0)
    until(lambda: "waiting up to 30 s" in first.out)
    # Less room than for the handshakes that the port would take at once.
    files = len(list(Path(f"/proc/{first.process.pid}/fd").iterdir()))
    resource.prlimit(first.process.pid, resource.RLIMIT_NOFILE, (files + PER_ADDRESS // 2, 1024))
    with contextlib.ExitStack() as held:
        for _ in range(300):
            held.enter_context(socket.create_connection(("127.0.0.1", site.study.parties[0].port), timeout=10))
        until(lambda: "too many connections at once" in first.out)
        site.start(1)
        for end in site.end():
            end.well()


class Unlucky(socket.socket):
    """A listening socket of a system that is out of something, now and then."""

    errors = itertools.cycle([errno.EMFILE, errno.ECONNABORTED, errno.ENOBUFS, 0])

    def accept(self):  # type: ignore[no-untyped-def]
        if number := next(self.errors):
            raise OSError(number, os.strerror(number))
        return super().accept()


def test_acceptor_goes_on_after_errors() -> None:
    listener = Unlucky()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server, client = contexts()
    came: list[ssl.SSLSocket] = []
    with Acceptor(listener, server, 2, came.append, lambda text: None):
        for n in (1, 2, 3):
            with client.wrap_socket(socket.create_connection(listener.getsockname(), timeout=10)):
                until(lambda n=n: len(came) == n)
    for sock in came:
        sock.close()


def test_acceptor_keeps_to_its_limits() -> None:
    listener, (server, client) = socket.create_server(("127.0.0.1", 0)), contexts()
    came: list[ssl.SSLSocket] = []
    said: list[str] = []
    threads = threading.active_count()
    with Acceptor(listener, server, 2, came.append, said.append) as acceptor, contextlib.ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(listener.getsockname(), timeout=10))
        with client.wrap_socket(socket.create_connection(listener.getsockname(), timeout=10)):
            until(lambda: len(came) == 1)
        assert len(acceptor._pending) <= PER_ADDRESS
        assert threading.active_count() == threads + 1
        assert len(said) == 1
    came[0].close()


@pytest.mark.parametrize("party", [2, 0], ids=["who connects", "who is connected to"])
def test_party_that_died_and_came_back(parties: Callable[..., Parties], party: int) -> None:  # noqa: F811
    site = parties(3)
    for m in (0, 2):
        site.start(m)
        until(lambda m=m: "waiting up to 30 s" in site.processes[m].out)
    time.sleep(0.5)  # P2 has connected to P0, and tries to reach P1
    site.processes[party].signal(signal.SIGKILL)
    site.processes[party].end()
    site.start(party)
    site.start(1)
    for end in site.end():
        end.well()


def test_ipv6(parties: Callable[..., Parties]) -> None:  # noqa: F811
    site = parties()
    entries = [PartyEntry("::1", p.port, p.fingerprint) for p in site.study.parties]
    site.change_studies(parties=tuple(entries))
    for end in site.run():
        end.well()


@pytest.mark.parametrize(("host", "text"), [("::1", "[::1]:"), ("127.0.0.1", "127.0.0.1:")])
def test_port_that_is_taken(host: str, text: str) -> None:
    with listen(host, 0) as taken, pytest.raises(PeerError, match="cannot listen on ") as caught:
        listen(host, taken.getsockname()[1])
    assert text in str(caught.value)


class Between:
    """At P0's address: what comes there reaches P0, but for the first connection, which `first` deals with."""

    def __init__(self, first: Callable[[socket.socket, tuple[str, int]], None], target: tuple[str, int]) -> None:
        self.listener, self._first, self._target = socket.create_server(("127.0.0.1", 0)), first, target
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            for deal in itertools.chain([self._first], itertools.repeat(passed_on)):
                sock, _ = self.listener.accept()
                threading.Thread(target=deal, args=(sock, self._target), daemon=True).start()


def passed_on(sock: socket.socket, target: tuple[str, int], flip: int = -1) -> None:
    """flip : the number of a byte to P0 of which a bit is changed"""
    try:
        other = socket.create_connection(target)
    except OSError:
        sock.close()
        return
    threading.Thread(target=_pump, args=(other, sock, -1), daemon=True).start()
    _pump(sock, other, flip)


def _pump(source: socket.socket, sink: socket.socket, flip: int) -> None:
    count = 0
    with contextlib.suppress(OSError), sink:
        while data := bytearray(source.recv(1 << 16)):
            if count <= flip < count + len(data):
                data[flip - count] ^= 1
            count += len(data)
            sink.sendall(data)


def silent(sock: socket.socket, target: tuple[str, int]) -> None:
    with sock:
        time.sleep(20)


def cut(sock: socket.socket, target: tuple[str, int]) -> None:
    sock.recv(100)
    sock.close()


def damaging(sock: socket.socket, target: tuple[str, int]) -> None:
    passed_on(sock, target, flip=600)  # in the client's certificate, which is encrypted by then


@pytest.mark.parametrize("first", [silent, cut, damaging])
def test_connection_that_comes_to_nothing_is_tried_again(
    first: Callable[[socket.socket, tuple[str, int]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "ATTEMPT_SECONDS", 1.0)
    prints = {m: certs.make(tmp_path, m, days=1).fingerprint for m in range(2)}
    listeners = [listen("127.0.0.1", 0) for _ in range(2)]
    between = Between(first, listeners[0].getsockname())
    seen = [between.listener.getsockname(), listeners[1].getsockname()]
    said: list[str] = []
    meetings = [
        Meeting(m, seen, certs.load_identity(tmp_path, m, prints), 20.0, Patience(20.0), said.append) for m in range(2)
    ]

    def party(meeting: Meeting) -> bytes:
        with connect.connect(meeting, listeners[meeting.me]) as link:
            return bytes(link.all_to_all("test", bytes([link.me]))[1 - link.me])

    outcomes = [_Ended(party, meeting) for meeting in meetings]
    assert [outcome.end().value for outcome in outcomes] == [b"\1", b"\0"]
    between.listener.close()


class _Ended(Outcome):
    """The same for a party that makes its own link."""

    def _go(self, party: Callable[[Link], object], link: Link) -> None:
        try:
            self.value = party(link)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error


def test_damage_is_not_taken_for_a_certificate(parties: Callable[..., Parties]) -> None:  # noqa: F811
    """Every attempt is damaged: in the end P0 could not be reached, and that says why."""
    site = parties(timeouts=replace(PATIENCE, connect=3.0))
    listener = socket.create_server(("127.0.0.1", free_ports(1)[0]))
    target = ("127.0.0.1", site.study.parties[0].port)

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=damaging, args=(sock, target), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    entries = [replace(p) for p in site.study.parties]
    entries[0] = replace(entries[0], port=listener.getsockname()[1])
    site.change_study(0, timeouts=PATIENCE)
    site.start(0)
    site.change_study(1, parties=tuple(entries))
    with listener:
        site.start(1).end().failed(PeerError, "could not be reached within 3 s (", "BAD_RECORD_MAC")
