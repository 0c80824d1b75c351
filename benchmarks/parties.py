"""M processes with TLS links between them, for benchmarks of protocols; and what every result says of its origin."""

from __future__ import annotations

import contextlib
import json
import multiprocessing as mp
import os
import platform
import socket
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pdml_spdz import certs, memory
from pdml_spdz.report import versions
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connect import Meeting, connect
from pdml_spdz.transport.tls import TlsLink

RESULTS = Path(__file__).parent / "results"


def run_processes(M: int, party: Callable[[Link], Any]) -> list[Any]:
    """party(link) in M processes over loopback TLS; what each returned."""
    context = mp.get_context("fork")
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(M)]
    addresses = [("127.0.0.1", int(listener.getsockname()[1])) for listener in listeners]
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        for m in range(M):
            certs.make(home, m, days=1)
        pipes = [context.Pipe(duplex=False) for _ in range(M)]

        def body(m: int) -> None:
            memory.keep_freed()  # as the command does
            identity = certs.load_identity(home, m, dict.fromkeys(range(M), ""))
            with connect(Meeting(m, addresses, identity, 30.0, 300.0), listeners[m]) as link:
                pipes[m][1].send(party(link))

        children = [context.Process(target=body, args=(m,)) for m in range(M)]
        for child in children:
            child.start()
        results = [receive.recv() for receive, _ in pipes]
        for child in children:
            child.join()
    return results


def wire_bytes_received(link: Link) -> int:
    """What TCP delivered to this party so far, TLS records included (Linux: tcp_info.tcpi_bytes_received)."""
    assert isinstance(link, TlsLink)
    total = 0
    for peer in link._connections.values():
        info = peer.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        total += struct.unpack_from("<Q", info, 128)[0]
    return total


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def origin() -> dict[str, Any]:
    """Machine, commit and versions: a number without them is worth nothing later."""
    commit = ""
    with contextlib.suppress(OSError):
        command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    return {"commit": commit, "machine": machine, "versions": versions()}


def save(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content | origin(), indent=2) + "\n")
    print(f"\nwrote {path}")
