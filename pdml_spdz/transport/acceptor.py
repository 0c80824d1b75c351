"""Who knocks at a party's port: strangers, floods, and the parties that it waits for.

One thread does all handshakes, a piece at a time: no number of connections makes more threads, and none of them keeps
the others waiting. There is room for so many at once; when it is full, one that has not sent a byte yet gives way, or
any: a party's own handshake is short, and it tries again at once, while a stranger who wants to keep it out
has to win every time.
"""

from __future__ import annotations

import contextlib
import resource
import secrets
import selectors
import socket
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from pdml_spdz.errors import PeerError

HANDSHAKE_SECONDS = 10.0
FULL_SECONDS = 0.1  # when the system has no room for another connection
NOTICE_SECONDS = 10.0  # a flood is not repeated line by line
PER_ADDRESS, IN_ALL = 32, 512  # handshakes at a time; more if there are many parties


class _Pending:
    """A connection that has not shown yet whose it is."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock, self.fd, self.host = sock, sock.fileno(), host
        self.deadline = time.monotonic() + HANDSHAKE_SECONDS
        self.tls: ssl.SSLSocket | None = None  # from its first byte on


class Acceptor:
    """Takes connections until it is stopped; `authenticated` are handed on, in the acceptor's thread.

    authenticated : what to do with a connection that has shown a certificate of whoever `context` trusts
    notice : told of strangers, now and then
    """

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext,
        M: int,
        authenticated: Callable[[ssl.SSLSocket], None],
        notice: Callable[[str], None],
    ) -> None:
        self._listener, self._context, self._authenticated, self._notice = listener, context, authenticated, notice
        self._per_address = max(4 * M, PER_ADDRESS)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Files are needed for other things, too.
        self._in_all = max(self._per_address, min(IN_ALL, files // 4) if files > 0 else IN_ALL)
        self._pending: set[_Pending] = set()
        self._selector = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self._woken, self._waker = socket.socketpair()  # else the thread, and so the run, would sleep on
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.refused: deque[str] = deque(maxlen=3)
        self._noticed, self._unnoticed = 0.0, 0

    def __enter__(self) -> Acceptor:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ, self._woken)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise PeerError(
                f"this machine starts no more threads ({error}).", "one that takes connections", "end other programs"
            ) from None
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._waker.send(b"!")
        self._thread.join()
        for pending in list(self._pending):
            self._drop(pending)
        self._selector.close()
        for sock in (self._listener, self._woken, self._waker):
            sock.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.1):
                if key.data is None:
                    self._accept()
                elif key.data in self._pending:  # not given way meanwhile
                    self._advance(key.data)
            now = time.monotonic()
            for pending in [p for p in self._pending if p.deadline < now]:
                self._refuse(pending, f"no handshake within {HANDSHAKE_SECONDS:g} s")

    def _accept(self) -> None:
        try:
            raw, address = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):
            return  # it has gone again
        except OSError:  # no room for another file, or no memory: some of those who wait give way
            for _ in range(1 + len(self._pending) // 4):
                self._give_way(list(self._pending))
            time.sleep(FULL_SECONDS)
            return
        raw.setblocking(False)
        pending = _Pending(raw, str(address[0]))
        hosts = Counter(p.host for p in self._pending)
        if hosts[pending.host] >= self._per_address:
            self._give_way([p for p in self._pending if p.host == pending.host])
        elif len(self._pending) >= self._in_all:
            busiest = hosts.most_common(1)[0][0]
            self._give_way([p for p in self._pending if p.host == busiest])
        self._pending.add(pending)
        self._selector.register(pending.fd, selectors.EVENT_READ, pending)

    def _give_way(self, among: list[_Pending]) -> None:
        silent = [p for p in among if p.tls is None]
        if among:
            self._refuse(secrets.choice(silent or among), "too many connections at once")

    def _advance(self, pending: _Pending) -> None:
        """Another piece of a handshake; the party's, when it is complete."""
        try:
            if pending.tls is None:
                pending.tls = self._context.wrap_socket(pending.sock, server_side=True, do_handshake_on_connect=False)
                pending.sock = pending.tls
            pending.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(pending.fd, selectors.EVENT_READ, pending)
        except ssl.SSLWantWriteError:
            self._selector.modify(pending.fd, selectors.EVENT_WRITE, pending)
        except (OSError, ValueError) as error:
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            self._refuse(pending, reason)
        else:
            self._selector.unregister(pending.fd)
            self._pending.remove(pending)
            self._authenticated(pending.tls)

    def _refuse(self, pending: _Pending, reason: str) -> None:
        self._drop(pending)
        self.note_refused(f"{pending.host}: {reason}")

    def note_refused(self, text: str) -> None:
        self.refused.append(text)
        now = time.monotonic()
        if now - self._noticed < NOTICE_SECONDS and self._noticed:
            self._unnoticed += 1
            return
        others = f" ({self._unnoticed} others since the last line)" if self._unnoticed else ""
        self._noticed, self._unnoticed = now, 0
        with contextlib.suppress(OSError):  # whoever started this thread writes there, too, and finds out
            self._notice(f"refused a connection from {text}{others}")

    def _drop(self, pending: _Pending) -> None:
        self._selector.unregister(pending.fd)
        self._pending.remove(pending)
        pending.sock.close()
