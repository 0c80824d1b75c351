"""Build the mesh: every party listens, the one with the higher number connects, both show their pinned certificate.

Parties may start in any order within the connect time-out, and one that dies may come back: the mesh is complete when
all connections are there at the same time. A connection that shows no pinned certificate is dropped and the party
goes on listening (`acceptor`), so that a stranger who finds the port cannot end a run.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdml_spdz.errors import CertificateError, PdmlError, PeerError
from pdml_spdz.transport.acceptor import Acceptor
from pdml_spdz.transport.base import Clock, Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.connection import Connection
from pdml_spdz.transport.mutual import REACH, WELCOME, answer_reach, party_of, tls_context
from pdml_spdz.transport.patience import Patience
from pdml_spdz.transport.tls import TlsLink

TAKEN = b"\x02"
ATTEMPT_SECONDS = 10.0  # for one attempt to reach a party
RETRY_SECONDS, PATIENT_SECONDS = 0.1, 2.0  # between attempts: in the first seconds, and later
LOOK_SECONDS = 0.5  # after which a party that waits looks whether the others are still there
SAID_SECONDS, REPEATED_SECONDS = 2.0, 600.0  # who is missing is said after the first, and again after the second
TAKEN_SECONDS = 6.0  # a connection that has died unseen is found out by then
# What a party says that refuses a certificate; any other alert is about bytes that were damaged on their way.
REFUSAL = re.compile("ALERT.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)")
# POLLRDHUP is Linux's; elsewhere a closed connection is noticed in the first round.
HUNG_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


@dataclass(frozen=True)
class Meeting:
    """What a party needs to meet the others: addresses by party number, its identity, its patience.

    notice : told of strangers
    waiting : told now and then who is missing, and how many seconds this party has waited; nobody: all are here
    """

    me: int
    addresses: Sequence[tuple[str, int]]
    identity: Identity
    connect_timeout: float
    patience: Patience
    notice: Callable[[str], None] = field(default=lambda text: None)
    waiting: Callable[[list[int], float], None] = field(default=lambda missing, seconds: None)

    @property
    def M(self) -> int:
        return len(self.addresses)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on host:port (port 0: any free one)."""
    try:
        found: Any = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)  # IPv4, where a name has both
        both = host == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        raise PeerError(
            f"cannot listen on {shown(host, port)} ({error.strerror or error}).",
            "a free port on an address of this machine",
            "end the other program, choose another port in the study, or pass --listen HOST:PORT",
        ) from None
    return listener


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def connect(meeting: Meeting, listener: socket.socket, clock: Clock | None = None) -> Link:
    """The mesh, when every party is there; PeerError or CertificateError naming whoever is not."""
    return _Mesh(meeting, listener, clock or Clock()).build()


class _Mesh:
    def __init__(self, meeting: Meeting, listener: socket.socket, clock: Clock) -> None:
        self.meeting, self.listener, self.clock = meeting, listener, clock
        self.began = time.monotonic()
        self.deadline = self.began + meeting.connect_timeout
        self._said: tuple[list[int], float] = [], 0.0  # who was missing when that was last said, and when
        self._reasons: dict[int, list[str]] = {}  # why a party could not be reached, of late
        self.here: dict[int, Connection] = {}  # to whom there is a connection
        self._changed = threading.Condition()  # also the lock of `here`
        self._taken: dict[int, float] = {}  # since when a party says that it has a connection from this one
        protocols = (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
        server, self._client = (tls_context(meeting.identity, p) for p in protocols)
        self.acceptor = Acceptor(listener, server, meeting.M, self._welcome, meeting.notice)

    def build(self) -> Link:
        try:
            with self.clock("wait"), self.acceptor:
                while missing := self._missing():
                    self._say_who_is_missing(missing)
                    for party in [p for p in missing if p < self.meeting.me]:
                        self._dial(party)
                    self._await_others()
        except BaseException as error:
            # Those who are here already are told why nothing will come of it.
            with self._link() as link:
                link.abort(error)
            raise
        if self._said[0]:
            self.meeting.waiting([], time.monotonic() - self.began)
        return self._link()

    def _link(self) -> TlsLink:
        for peer in self.here.values():
            _tuned(peer.sock)  # one that was probed is given more time again
        meeting = self.meeting
        return TlsLink(meeting.me, meeting.M, self.here, patience=meeting.patience, clock=self.clock)

    def _say_who_is_missing(self, missing: list[int]) -> None:
        now = time.monotonic()
        before, when = self._said
        if now - self.began < SAID_SECONDS or (missing == before and now - when < REPEATED_SECONDS):
            return
        self._said = missing, now
        self.meeting.waiting(missing, now - self.began)

    def _party_of(self, sock: ssl.SSLSocket) -> int | None:
        return party_of(self.meeting.identity, sock)

    # ---- the parties with lower numbers: we connect

    def _dial(self, party: int) -> None:
        """One attempt to reach a party; the next one comes after some time, in which others are tried."""
        host, port = self.meeting.addresses[party]
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise self._unreachable(party)
        try:
            sock = self._greet(party, socket.create_connection((host, port), timeout=min(left, ATTEMPT_SECONDS)))
            self.here[party] = Connection(party, sock)
            return
        except PdmlError:
            raise
        except ssl.SSLEOFError:  # perhaps the party is about to start
            reason = "it went away again"
        except ssl.SSLError as error:
            reason = f"what it sent is damaged, or it is no party: {error.reason}"
        except OSError as error:
            reason = str(error.strerror or error)
        before = self._reasons.get(party, [])
        self._reasons[party] = [*(r for r in before if r != reason), reason][-3:]  # they may fail in more than one way

    def _unreachable(self, party: int) -> PeerError:
        reasons = "; ".join(self._reasons.get(party, [])) or "no attempt was made in time"
        return PeerError(
            f"P{party} at {shown(*self.meeting.addresses[party])} could not be reached within "
            f"{self.meeting.connect_timeout:g} s ({reasons}).",
            "every party to start within the connect time-out",
            f"start P{party}, check host, port and firewall, or raise `timeouts.connect` in the study",
            culprit=party,
        )

    def _greet(self, party: int, raw: socket.socket) -> ssl.SSLSocket:
        sock = self._client.wrap_socket(raw, do_handshake_on_connect=False)
        try:
            self._handshake(party, sock)
        except BaseException:
            sock.close()
            raise
        return _tuned(sock)

    def _handshake(self, party: int, sock: ssl.SSLSocket) -> None:
        try:
            sock.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(
                f"what answers at P{party}'s address shows a certificate that is not pinned here "
                f"({error.verify_message}).",
                f"the certificate that was pinned for P{party}",
                f"get P{party}.pem from its owner, compare fingerprints, `pdml-spdz certs add P{party}.pem`",
                culprit=party,
            ) from None
        if self._party_of(sock) != party:
            raise CertificateError(
                f"P{party}'s address is answered by P{self._party_of(sock)}.",
                f"P{party}'s certificate there",
                "check hosts and ports in the study",
                culprit=party,
            )
        try:
            answer = sock.recv(1)  # TLS 1.3: only now do we learn whether our own certificate was accepted
        except ssl.SSLError as error:
            if not REFUSAL.search(error.reason or ""):
                raise
            raise CertificateError(
                f"P{party} does not accept this party's certificate ({error.reason}).",
                f"P{self.meeting.me}.pem pinned at P{party}",
                f"send P{self.meeting.me}.pem to P{party}, who runs `pdml-spdz certs add P{self.meeting.me}.pem`",
                culprit=party,
            ) from None
        if answer == TAKEN:
            if time.monotonic() - self._taken.setdefault(party, time.monotonic()) < TAKEN_SECONDS:
                raise ConnectionResetError("it still has another connection")
            raise PeerError(
                f"P{party} already has a connection from P{self.meeting.me}.",
                "one process for each party",
                f"end the other process that runs with --id {self.meeting.me}",
            )
        if answer != WELCOME:
            raise ConnectionResetError("the connection was closed during the greeting")

    # ---- the parties with higher numbers: they connect

    def _welcome(self, sock: ssl.SSLSocket) -> None:
        """Take a connection that has shown a pinned certificate, or say why not; in the acceptor's thread."""
        party = self._party_of(sock)
        if sock.selected_alpn_protocol() == REACH:
            answer_reach(sock)
            return
        if party is None or party <= self.meeting.me:
            sock.close()
            return
        with self._changed, contextlib.suppress(OSError):  # it may have gone again
            before = self.here.get(party)
            if before is None or _gone(before):
                sock.send(WELCOME)  # one byte: there is room for it
                self.here[party] = Connection(party, _tuned(sock))
                self._changed.notify()
                return
            _probe(before.sock)
            sock.send(TAKEN)
        sock.close()

    def _await_others(self) -> None:
        """Until all are there at the same time, or it is time to try again those that this party has to reach."""
        waited = time.monotonic() - self.began
        retry = time.monotonic() + (RETRY_SECONDS if waited < ATTEMPT_SECONDS else PATIENT_SECONDS)
        with self._changed:
            while missing := self._missing():
                self._say_who_is_missing(missing)
                left = self.deadline - time.monotonic()
                lower = missing[0] < self.meeting.me
                if left <= 0:
                    raise self._unreachable(missing[0]) if lower else self._absent(missing)
                if lower and time.monotonic() >= retry:
                    return
                pause = max(retry - time.monotonic(), 0.001) if lower else LOOK_SECONDS
                self._changed.wait(min(left, pause, LOOK_SECONDS))

    def _missing(self) -> list[int]:
        """The parties that are not there, or not any more."""
        with self._changed:
            for party in [p for p, peer in self.here.items() if _gone(peer)]:
                self.here.pop(party).sock.close()
            return [p for p in range(self.meeting.M) if p != self.meeting.me and p not in self.here]

    def _absent(self, missing: list[int]) -> PeerError:
        names = ", ".join(f"P{p}" for p in missing)
        hint = f" Refused meanwhile: {'; '.join(self.acceptor.refused)}." if self.acceptor.refused else ""
        return PeerError(
            f"{names} did not connect within {self.meeting.connect_timeout:g} s.{hint}",
            "every party to start within the connect time-out, with its pinned certificate",
            f"start {names}; check that the study has this party's host and port; compare `certs show` at both ends",
            culprit=missing[0],
        )


def _gone(peer: Connection) -> bool:
    """Whether the other end has closed the connection without a word, or the system has given it up."""
    poll = select.poll()
    poll.register(peer.sock, HUNG_UP)
    if not poll.poll(0):
        return False
    peer.read()
    return peer.farewell is None


def _probe(sock: ssl.SSLSocket) -> None:
    """Find out within some seconds whether there is still anybody at the other end."""
    for name, value in (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _tuned(sock: ssl.SSLSocket) -> ssl.SSLSocket:
    """Small frames go at once; an idle connection to a host that vanished is noticed in about half a minute."""
    options = [(socket.IPPROTO_TCP, "TCP_NODELAY", 1), (socket.SOL_SOCKET, "SO_KEEPALIVE", 1)]
    options += [(socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15), (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5)]
    options += [(socket.IPPROTO_TCP, "TCP_KEEPCNT", 3)]
    for level, name, value in options:
        if hasattr(socket, name):
            with contextlib.suppress(OSError):
                sock.setsockopt(level, getattr(socket, name), value)
    return sock
