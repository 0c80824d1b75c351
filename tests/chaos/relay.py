"""A line between two parties on which things go wrong."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from dataclasses import dataclass

HARMLESS = ("none", "delay", "throttle")
FAULTS = (*HARMLESS, "cut", "reset", "truncate", "duplicate", "flip", "insert", "stall")
LINGER_NONE = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # close sends a reset


@dataclass(frozen=True)
class Fault:
    """What happens to the first connection, in one direction, when `after` bytes have gone by."""

    kind: str
    after: int = 0
    upwards: bool = True  # from the party that connected
    seed: int = 0

    @classmethod
    def draw(cls, chance: random.Random, bytes_sent: int) -> Fault:
        """Somewhere in a conversation of so many bytes, a greeting of TLS as likely as the rest."""
        after = chance.randrange(3000) if chance.random() < 0.3 else chance.randrange(bytes_sent + 1)
        return cls(chance.choice(FAULTS[1:]), after, chance.random() < 0.5, chance.randrange(2**32))


class Relay:
    """Listens on a port of its own and hands on to `target`. Every connection but the first is left alone."""

    def __init__(self, target: tuple[str, int], fault: Fault) -> None:
        self.target, self.fault = target, fault
        self.seen = 0  # connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.target, 5.0)
            except OSError:
                near.close()  # the party has not started: whoever connected tries again
                continue
            far.settimeout(None)
            self._sockets += [near, far]
            fault, self.seen = self.fault if self.seen == 0 else Fault("none"), self.seen + 1
            for source, sink, upwards in ((near, far, True), (far, near, False)):
                own = fault if fault.upwards == upwards or fault.kind in HARMLESS else Fault("none")
                threading.Thread(target=self._carry, args=(source, sink, own), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, fault: Fault) -> None:
        chance, passed, done = random.Random(fault.seed), 0, fault.kind == "none"
        pause, rate = chance.uniform(0.001, 0.03), chance.uniform(20e3, 500e3)
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                if fault.kind == "delay":
                    time.sleep(pause)
                elif fault.kind == "throttle":
                    time.sleep(len(data) / rate)
                elif not done and passed + len(data) > fault.after:
                    done, at = True, fault.after - passed
                    if fault.kind == "stall":
                        return  # both ends stay open, and nothing goes on
                    sink.sendall(_damaged(fault.kind, data, at, chance))
                    if fault.kind in ("cut", "reset"):
                        break
                    continue
                passed += len(data)
                sink.sendall(data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                if fault.kind == "reset" and done:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
                    sock.close()
                else:
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                sock.close()


def _damaged(kind: str, data: bytes, at: int, chance: random.Random) -> bytes:
    head, tail = data[:at], data[at:]
    if kind in ("cut", "reset"):
        return head
    if kind == "truncate":
        return head + tail[chance.randint(1, max(1, len(tail))) :]
    if kind == "duplicate":
        return data + data
    if kind == "insert":
        return head + chance.randbytes(chance.randint(1, 100)) + tail
    return head + bytes([tail[0] ^ 1 << chance.randrange(8)]) + tail[1:]
