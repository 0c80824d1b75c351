"""Until all parties have met: latecomers, absentees, strangers, doubles."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pdml_spdz.errors import PeerError, ProtocolError
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import DATA, header
from pdml_spdz.transport.connect import WELCOME
from tests.parties.helpers import HASTE, Parties, free_ports, until
from tests.parties.helpers import run as command


@pytest.mark.parametrize(
    ("absent", "phrase"),
    [(0, "P0 at 127.0.0.1:"), (2, "P2 did not connect within 2 s")],
    ids=["called", "caller"],
)
def test_party_that_never_starts_is_named(parties: Callable[..., Parties], absent: int, phrase: str) -> None:
    site = parties(3, timeouts=HASTE)
    for m in {0, 1, 2} - {absent}:
        site.start(m)
    for end in site.end(HASTE.connect + 10):
        end.failed(PeerError, phrase, "within 2 s", f"Do this: start P{absent}")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "no TLS"])
def test_something_else_answers_at_the_address(parties: Callable[..., Parties], answer: bytes) -> None:
    site = parties(timeouts=HASTE)
    with socket.create_server(("127.0.0.1", site.study.parties[0].port)) as server:
        site.start(1)
        server.settimeout(10)
        first, _ = server.accept()
        with first:
            first.sendall(answer)
            if answer:
                first.shutdown(socket.SHUT_WR)
            (end,) = site.end(HASTE.connect + 10)
    end.failed(
        PeerError, "P0 at 127.0.0.1:", "could not be reached within 2 s (", "Do this: start P0, check host, port"
    )


@pytest.mark.parametrize("m", [0, 1])
def test_party_stopped_while_it_waits(parties: Callable[..., Parties], m: int) -> None:
    site = parties()
    waiting = site.start(m)
    until(lambda: "waiting up to 30 s" in waiting.out)
    waiting.signal(signal.SIGTERM)
    end = waiting.end(5)
    assert end.code == 130
    assert end.err.strip() == "pdml-spdz: stopped. By SIGTERM."


def test_parties_start_in_any_order(parties: Callable[..., Parties]) -> None:
    site = parties(3)
    for m in (2, 1, 0):
        site.start(m)
        until(lambda m=m: "waiting up to 30 s" in site.processes[m].out)
        time.sleep(0.5)
    for end in site.end():
        end.well()


def garbage(site: Parties, stranger: socket.socket) -> None:
    stranger.sendall(b"GET / HTTP/1.1\r\nHost: P0\r\n\r\n" + bytes(2000))


def showing(certificate: Path) -> ssl.SSLContext:
    """A client that shows this certificate and takes whatever the other side shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


def unpinned(site: Parties, stranger: socket.socket) -> None:
    made = certs.make(site.directory / "stranger", 1)
    with showing(made.path).wrap_socket(stranger) as sock, pytest.raises((ssl.SSLError, ConnectionError)):
        sock.recv(1)  # TLS 1.3: a client learns at its first read that it was refused


def silent(site: Parties, stranger: socket.socket) -> None:
    pass


@pytest.mark.parametrize("behaviour", [garbage, unpinned, silent])
def test_stranger_does_not_disturb(
    parties: Callable[..., Parties], behaviour: Callable[[Parties, socket.socket], None]
) -> None:
    site = parties()
    first = site.start(0)
    until(lambda: "waiting up to 30 s" in first.out)
    with socket.create_connection(("127.0.0.1", site.study.parties[0].port), timeout=10) as stranger:
        behaviour(site, stranger)
        if behaviour is not silent:
            until(lambda: "refused a connection from 127.0.0.1" in first.out)
        site.start(1)
        for end in site.end():
            end.well()


def test_second_process_of_a_party_is_refused(parties: Callable[..., Parties]) -> None:
    site = parties(3)
    site.start(0)
    site.start(1)
    until(lambda: "waiting up to 30 s" in site.processes[1].out)
    time.sleep(0.5)  # P1 has connected to P0, which waits for P2
    first = site.processes.pop(1)
    double = site.start(1, "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--out", "elsewhere")
    double.end().failed(PeerError, "P0 already has a connection from P1", "Do this: end the other process", "--id 1")
    site.processes[1] = first
    site.start(2)
    for end in site.end():
        end.well()


def test_last_party_needs_no_address_of_its_own_machine(parties: Callable[..., Parties]) -> None:
    """Behind a router: the study has the router's address, on which the party cannot listen; nobody connects to it."""
    site = parties(3)
    *others, last = site.study.parties
    site.change_studies(parties=(*others, replace(last, host="192.0.2.20")))  # of documentation: on no machine
    asked = command("doctor", "study.toml", "--id", "2", "--json", cwd=site.home(2))
    asked.well()
    (port,) = [f for f in json.loads(asked.out) if f["what"] == "port"]
    assert port["level"] == "note"
    assert "Nobody connects to the last party" in port["found"]
    for end in (ends := site.run()):
        end.well()
    assert "Nobody connects to the last party: it goes on" in " ".join(ends[2].out.split())
    end = command(
        "party", "study.toml", "--id", "2", "--data", "rows.npy", "--listen", "192.0.2.20:1", cwd=site.home(2)
    )
    end.failed(PeerError, "cannot listen on 192.0.2.20:1")
    site.change_studies(parties=(replace(site.study.parties[0], host="192.0.2.20"), *site.study.parties[1:]))
    site.processes.clear()
    site.start(0, "--force").end().failed(PeerError, "cannot listen on 192.0.2.20:")


def test_second_process_on_the_same_port_is_refused(parties: Callable[..., Parties]) -> None:
    site = parties()
    first = site.start(0)
    until(lambda: "waiting up to 30 s" in first.out)
    double = site.start(0)
    double.end().failed(PeerError, "cannot listen on 127.0.0.1:", "Do this: end the other program")
    site.processes[0] = first
    site.start(1)
    for end in site.end():
        end.well()


@pytest.mark.parametrize("sent", [bytes(40), header(DATA, "hello", 1, 1 << 60)], ids=["zeros", "endless"])
def test_party_that_does_not_speak_the_protocol(parties: Callable[..., Parties], sent: bytes) -> None:
    """It has P1's key, but is another program, or another version."""
    site = parties()
    first = site.start(0)
    until(lambda: "waiting up to 30 s" in first.out)
    with (
        socket.create_connection(("127.0.0.1", site.study.parties[0].port), timeout=10) as raw,
        showing(site.certs(1) / "P1.pem").wrap_socket(raw) as sock,
    ):
        assert sock.recv(1) == WELCOME
        sock.sendall(sent)
        first.end().failed(
            ProtocolError, "P1 sent bytes that are not a frame", "Do this: compare `pdml-spdz --version`"
        )
