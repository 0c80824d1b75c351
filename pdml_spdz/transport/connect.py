"""Build the mesh: every party listens, the one with the higher number connects, both show their pinned certificate.

Parties may start in any order within the connect time-out. A connection that shows no pinned certificate is dropped
and the party goes on listening, so that a stranger who finds the port cannot end a run.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pdml_spdz.errors import CertificateError, PdmlError, PeerError
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.clock import Clock
from pdml_spdz.transport.tls import TlsLink

WELCOME, TAKEN = b"\x01", b"\x02"
HANDSHAKE_SECONDS = 10.0
RETRY_SECONDS = 0.1


@dataclass(frozen=True)
class Meeting:
    """What a party needs to meet the others: addresses by party number, its identity, its patience."""

    me: int
    addresses: Sequence[tuple[str, int]]
    identity: Identity
    connect_timeout: float
    round_timeout: float
    notice: Callable[[str], None] = field(default=lambda text: None)

    @property
    def M(self) -> int:
        return len(self.addresses)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on host:port (port 0: any free one)."""
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        raise PeerError(
            f"cannot listen on {host}:{port} ({error.strerror or error}).",
            "a free port on an address of this machine",
            "end the other program, choose another port in the study, or pass --listen HOST:PORT",
        ) from None
    return listener


def connect(meeting: Meeting, listener: socket.socket, clock: Clock | None = None) -> Link:
    """The mesh, when every party is there; PeerError or CertificateError naming whoever is not."""
    return _Mesh(meeting, listener, clock or Clock()).build()


class _Mesh:
    def __init__(self, meeting: Meeting, listener: socket.socket, clock: Clock) -> None:
        self.meeting, self.listener, self.clock = meeting, listener, clock
        self.deadline = time.monotonic() + meeting.connect_timeout
        self.parties = {c.fingerprint: p for p, c in meeting.identity.certificates.items()}
        self.sockets: dict[int, ssl.SSLSocket] = {}
        self.refused: list[str] = []
        self._arrived: queue.SimpleQueue[tuple[int, ssl.SSLSocket]] = queue.SimpleQueue()
        self._taken: set[int] = set()
        self._lock = threading.Lock()
        self._server, self._client = (self._context(p) for p in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))

    def build(self) -> Link:
        meeting = self.meeting
        stop = threading.Event()
        acceptor = threading.Thread(target=self._accept, args=(stop,), daemon=True)
        acceptor.start()
        try:
            with self.clock("wait"):
                for party in range(meeting.me):
                    self.sockets[party] = self._dial(party)
                while len(self.sockets) < meeting.M - 1:
                    self._await_next()
        except BaseException as error:
            # Those who are here already are told why nothing will come of it.
            with self._link() as link:
                link.abort(error)
            raise
        finally:
            stop.set()
            acceptor.join()
            self.listener.close()
        return self._link()

    def _link(self) -> TlsLink:
        return TlsLink(
            self.meeting.me, self.meeting.M, self.sockets, timeout=self.meeting.round_timeout, clock=self.clock
        )

    def _context(self, protocol: int) -> ssl.SSLContext:
        identity = self.meeting.identity
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # identity is the pinned certificate, not a name in the DNS
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(identity.cert_path, identity.key_path)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(
                f"{identity.key_path} does not belong to {identity.cert_path} ({error}).",
                "the key and the certificate that were made together",
                f"`pdml-spdz certs make --id {identity.me} --force`, then send P{identity.me}.pem to the others",
            ) from None
        for party, certificate in identity.certificates.items():
            if party != identity.me:
                context.load_verify_locations(certificate.path)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # nobody resumes a session; unread tickets would turn close into reset
        return context

    def _party_of(self, sock: ssl.SSLSocket) -> int | None:
        der = sock.getpeercert(binary_form=True)
        return self.parties.get(hashlib.sha256(der).hexdigest()) if der else None

    # ---- the parties with lower numbers: we connect

    def _dial(self, party: int) -> ssl.SSLSocket:
        host, port = self.meeting.addresses[party]
        reason = "no attempt was made in time"
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                raw = socket.create_connection((host, port), timeout=left)
            except OSError as error:
                reason = str(error.strerror or error)
                time.sleep(min(RETRY_SECONDS, max(left, 0)))
                continue
            try:
                raw.settimeout(max(self.deadline - time.monotonic(), 0.1))
                return self._greet(party, raw)
            except PdmlError:
                raw.close()
                raise
            except (ConnectionError, TimeoutError, ssl.SSLError) as error:
                raw.close()  # it went away again, or is no party: perhaps the party is about to start
                reason = str(error)
                time.sleep(RETRY_SECONDS)
        raise PeerError(
            f"P{party} at {host}:{port} could not be reached within {self.meeting.connect_timeout:g} s ({reason}).",
            "every party to start within the connect time-out",
            f"start P{party}, check host, port and firewall, or raise `timeouts.connect` in the study",
            culprit=party,
        )

    def _greet(self, party: int, raw: socket.socket) -> ssl.SSLSocket:
        try:
            sock = self._client.wrap_socket(raw)
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
        except ssl.SSLEOFError:
            raise
        except ssl.SSLError as error:
            raise CertificateError(
                f"P{party} does not accept this party's certificate ({error.reason}).",
                f"P{self.meeting.me}.pem pinned at P{party}",
                f"send P{self.meeting.me}.pem to P{party}, who runs `pdml-spdz certs add P{self.meeting.me}.pem`",
                culprit=party,
            ) from None
        if answer == TAKEN:
            raise PeerError(
                f"P{party} already has a connection from P{self.meeting.me}.",
                "one process for each party",
                f"end the other process that runs with --id {self.meeting.me}",
            )
        if answer != WELCOME:
            raise ConnectionResetError("the connection was closed during the greeting")
        return _tuned(sock)

    # ---- the parties with higher numbers: they connect

    def _accept(self, stop: threading.Event) -> None:
        self.listener.settimeout(0.1)
        while not stop.is_set():
            try:
                raw, address = self.listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._welcome, args=(raw, address[0]), daemon=True).start()

    def _welcome(self, raw: socket.socket, host: str) -> None:
        try:
            raw.settimeout(HANDSHAKE_SECONDS)
            sock = self._server.wrap_socket(raw, server_side=True)
            party = self._party_of(sock)
            with self._lock:
                fresh = party is not None and party > self.meeting.me and party not in self._taken
                if fresh and party is not None:
                    self._taken.add(party)
            sock.sendall(WELCOME if fresh else TAKEN)
            if fresh and party is not None:
                self._arrived.put((party, _tuned(sock)))
            else:
                sock.close()
        except (OSError, PdmlError) as error:
            raw.close()
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            self.refused.append(f"{host}: {reason}")
            self.meeting.notice(f"refused a connection from {host}: {reason}")

    def _await_next(self) -> None:
        try:
            party, sock = self._arrived.get(timeout=max(self.deadline - time.monotonic(), 0.001))
        except queue.Empty:
            missing = [p for p in range(self.meeting.me + 1, self.meeting.M) if p not in self.sockets]
            names = ", ".join(f"P{p}" for p in missing)
            hint = f" Refused meanwhile: {'; '.join(self.refused[-3:])}." if self.refused else ""
            raise PeerError(
                f"{names} did not connect within {self.meeting.connect_timeout:g} s.{hint}",
                "every party to start within the connect time-out, with its pinned certificate",
                f"start {names}; check that the study has this party's host and port; "
                "compare `certs show` at both ends",
                culprit=missing[0],
            ) from None
        self.sockets[party] = sock


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
