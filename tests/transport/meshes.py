"""M parties' ends of a mesh of TLS connections, in one process: the project's own transport without a meeting."""

from __future__ import annotations

import functools
import itertools
import shutil
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connection import Connection
from pdml_spdz.transport.patience import Patience
from pdml_spdz.transport.tls import TlsLink

PATIENT = Patience(30.0)
HASTY = Patience(0.4, work=30.0, least_rate=1000.0)
Make = Callable[[int, ssl.SSLSocket], Connection]


@functools.cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(server, client), of one certificate for all: who is who does not matter here."""
    directory = Path(tempfile.mkdtemp())
    try:
        made = certs.make(directory, 0, days=1)
        found = []
        for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            context = ssl.SSLContext(protocol)
            context.minimum_version, context.check_hostname = ssl.TLSVersion.TLSv1_3, False
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(made.path, directory / "P0.key")
            context.load_verify_locations(made.path)
            if protocol == ssl.PROTOCOL_TLS_SERVER:
                context.num_tickets = 0
            found.append(context)
        return found[0], found[1]
    finally:
        shutil.rmtree(directory)


def wrapped(*ends: socket.socket) -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """The two ends of a connection, with TLS."""
    both = []
    for end, context, server in zip(ends, contexts(), (True, False), strict=True):
        end.setblocking(False)
        both.append(context.wrap_socket(end, server_side=server, do_handshake_on_connect=False))
    left = list(both)
    while left:
        for sock in list(left):
            try:
                sock.do_handshake()
                left.remove(sock)
            except ssl.SSLWantReadError:
                continue
    return both[0], both[1]


def ends(M: int, make: Mapping[int, Make] | None = None) -> list[dict[int, Connection]]:
    """For every party its connections; `make` says how a party makes its own, if not as usual."""
    makers = make or {}
    found: list[dict[int, Connection]] = [{} for _ in range(M)]
    for m, l in itertools.combinations(range(M), 2):
        one, other = wrapped(*socket.socketpair())
        found[m][l] = makers.get(m, Connection)(l, one)
        found[l][m] = makers.get(l, Connection)(m, other)
    return found


def mesh(M: int, patience: Patience = PATIENT, make: Mapping[int, Make] | None = None) -> list[TlsLink]:
    return [TlsLink(m, M, connections, patience=patience) for m, connections in enumerate(ends(M, make))]


def send(peer: Connection, data: bytes) -> None:
    """What a peer that has no link of its own puts on the wire."""
    peer.sock.setblocking(True)
    peer.sock.sendall(data)


class Outcome:
    """What a party's thread came to: what it returned, or its error."""

    def __init__(self, party: Callable[[Link], Any], link: Link) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._go, args=(party, link), daemon=True)
        self._thread.start()

    def _go(self, party: Callable[[Link], Any], link: Link) -> None:
        try:
            with link:
                self.value = party(link)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def end(self, within: float = 30.0) -> Outcome:
        self._thread.join(within)
        assert not self._thread.is_alive(), f"it did not end within {within:g} s"
        return self
