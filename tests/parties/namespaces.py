"""M hosts on one machine: network namespaces on a bridge, where the system allows them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.parties.helpers import command

CLONE_NEWNET = 0x40000000


def enter(name: str) -> None:
    """This process, from now on, on the network of that host."""
    with Path(f"/run/netns/{name}").open() as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def on_host(name: str, arguments: list[str], cwd: Path, *streams: Path) -> None:
    """A command of `pdml-spdz` on that host."""
    enter(name)
    command(arguments, cwd, *streams)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def hosts(M: int) -> Iterator[list[tuple[str | None, str]]]:
    """(name of a namespace, address) of M hosts that see each other and nobody else; without namespaces, this host."""
    tag = f"pdml{os.getpid() % 100_000}"
    names = [f"{tag}-{i}" for i in range(M)]
    try:
        _ip("link", "add", tag, "type", "bridge")
        _ip("link", "set", tag, "up")
        for i, name in enumerate(names):
            _ip("netns", "add", name)
            _ip("link", "add", f"{tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"{tag}v{i}", "master", tag, "up")
            _ip("-n", name, "addr", "add", f"10.231.77.{i + 1}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        found: list[tuple[str | None, str]] = [(name, f"10.231.77.{i + 1}") for i, name in enumerate(names)]
    except (OSError, subprocess.CalledProcessError):
        found = [(None, "127.0.0.1")] * M
    try:
        yield found
    finally:
        for words in [*(["netns", "del", name] for name in names), ["link", "del", tag]]:
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                _ip(*words)
