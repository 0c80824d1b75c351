"""A party of `test_stock_processes` in a process of its own; it imports no more than it needs."""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from pdml_spdz.errors import PeerError, StockError
from pdml_spdz.offline.from_stock import claim
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.transport.base import DATA, Frame, Link, lost

PLAN = Plan(2, (1,))


class SocketLink(Link):
    """Two processes and a pair of sockets."""

    def __init__(self, me: int, fd: int) -> None:
        super().__init__(me, 2, timeout=20.0)
        self._file = socket.socket(fileno=fd).makefile("rwb")

    def _round(
        self, step: str, sequence: int, payloads: Mapping[int, memoryview], expect: list[int]
    ) -> dict[int, memoryview]:
        try:
            for data in payloads.values():
                self._file.write(struct.pack("<Q", len(data)) + data)
            self._file.flush()
            return {
                peer: self.check(Frame(DATA, step, sequence, self._read()), peer, step, sequence) for peer in expect
            }
        except OSError:
            raise lost(1 - self.me) from None

    def _read(self) -> memoryview:
        data = self._file.read(8)
        if len(data) < 8:
            raise ConnectionError
        return memoryview(self._file.read(*struct.unpack("<Q", data)))

    def abort(self, error: BaseException) -> None:
        pass

    def close(self) -> None:
        self._file.close()


def child(me: int, fd: int, root: str, run: str, count: int) -> None:
    """Claims again and again, and tells what it was given: from then on it counts as used."""
    link = SocketLink(me, fd)
    try:
        for i in range(count):
            material = claim(link, NumberStock.find(Path(root), Kind(2, 64, 64), me), PLAN, run.encode() + bytes([i]))
            print(json.dumps([material.triples(2).a, material.scalar().delta]), flush=True)
    except (PeerError, StockError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
