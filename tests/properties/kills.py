"""Parties that are killed at any step: a write (after any number of its bytes), a sync, a rename, a removal, a message.

A party is killed by an exception. From then on it does nothing more: whatever it would do to clean up fails as well.
What was written or renamed and not yet synced may be there in part or not at all after a power failure: so the partial
writes, and the blackout, which takes all of it away.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.errors import PdmlError
from pdml_spdz.transport.base import DATA, Frame, Link
from pdml_spdz.transport.inprocess import InProcessLink

OPERATIONS = ("write", "fsync", "ftruncate", "rename", "unlink", "mkdir", "rmdir", "open")
EVERYTHING = 1 << 30
# What a killed party has open the kernel closes.
MORTAL = [pytest.mark.usefixtures("mortal"), pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")]
# M and blackout. Three parties take three times as long; the tests of single bytes of a claim have them.
WAYS = [(2, True), (2, False), pytest.param(3, False, marks=pytest.mark.long)]


class Killed(BaseException):
    """SIGKILL, for one thread."""


@dataclass(frozen=True)
class Kill:
    """At a step of `party`, given by its number or as the first of a name; of a write, `kept` bytes go through."""

    party: int
    step: int | str
    kept: int = 0
    blackout: bool = False  # all parties end there, and what was not synced is lost


Steps = dict[int, list[tuple[str, int]]]  # by party: what it did, with the bytes of a write


def kills_of(steps: Steps, *, blackout: bool = False, parts: Callable[[int], set[int]]) -> list[Kill]:
    """At every step of the first and the last party; those between them do what the last does. parts : of a write of so
    many bytes, how many go through
    """
    return [
        Kill(m, i, kept, blackout)
        for m, done in ((m, steps[m]) for m in (0, max(steps)))
        for i, (name, size) in enumerate(done)
        for kept in sorted(parts(size) if name == "write" else {0})
    ]


@dataclass
class World:
    """What the parties did, and what of it would survive a blackout.

    synced : of each file that was written, how many bytes
    moved : renames that were not synced
    """

    parties: int
    kill: Kill | None
    steps: Steps = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    synced: dict[Path, int] = field(default_factory=dict)
    moved: list[tuple[Path, Path]] = field(default_factory=list)

    def wrote(self, path: Path, size: int) -> None:
        self.synced.setdefault(path, size)

    def sync(self, path: Path, size: int) -> None:
        if path in self.synced:
            self.synced[path] = size
        self.moved = [(old, new) for old, new in self.moved if new.parent != path]

    def move(self, old: Path, new: Path) -> None:
        self.moved.append((old, new))
        self._rename(old, new)

    def _rename(self, old: Path, new: Path) -> None:
        within = {path for path in tuple(self.synced) if path.is_relative_to(old)}
        self.synced |= {new / path.relative_to(old): self.synced.pop(path) for path in within}

    def black_out(self) -> None:
        for old, new in reversed(self.moved):
            if new.exists():
                old.parent.mkdir(parents=True, exist_ok=True)  # its removal was not synced either
                new.rename(old)
                self._rename(new, old)
        for path, size in tuple(self.synced.items()):
            with suppress(FileNotFoundError):
                os.truncate(path, size)


_here = threading.local()


def step(name: str, size: int = 0) -> int | None:
    """Before each step: how many bytes of a write go through before the kill, None for all of it and no kill."""
    world, party = _here.world, _here.party
    if party in world.dead:
        raise Killed
    done = world.steps.setdefault(party, [])
    done.append((name, size))
    if world.kill and world.kill.party == party and world.kill.step in (len(done) - 1, name):
        world.dead |= set(range(world.parties)) if world.kill.blackout else {party}
        if name != "write":
            raise Killed
        return min(world.kill.kept, size)
    return None


@contextmanager
def shimmed() -> Iterator[None]:
    """The operating system as the parties see it. Nothing is really synced: it would only take time."""
    real = {name: getattr(os, name) for name in OPERATIONS}

    def shim(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            world = getattr(_here, "world", None)
            if world is None:
                return real[name](*args, **options)
            kept = step(name, len(args[1]) if name == "write" else 0)
            if name in ("write", "fsync"):
                note = world.wrote if name == "write" else world.sync
                note(Path(f"/proc/self/fd/{args[0]}").readlink(), os.fstat(args[0]).st_size)
            if kept is not None:
                real["write"](args[0], args[1][:kept])
                raise Killed
            done = None if name == "fsync" else real[name](*args, **options)
            if name == "rename":
                world.move(*map(Path, args))
            return done

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, shim(name))
        yield


class MortalLink(InProcessLink):
    """A kill may come before each message of a round, and before the first answer is read."""

    def _round(
        self, name: str, sequence: int, payloads: Mapping[int, memoryview], expect: list[int]
    ) -> dict[int, memoryview]:
        for peer, data in payloads.items():
            step(f"send {name}")
            self._queues[self.me][peer].put(Frame(DATA, name, sequence, memoryview(bytes(data))))
        step(f"receive {name}")
        return {peer: self._receive(peer, name, sequence) for peer in expect}


def run(M: int, party: Callable[[Link], Any], kill: Kill | None = None) -> tuple[World, dict[int, Any]]:
    """Every party's result or error; none for a killed one."""
    world, results = World(M, kill), {}
    queues: Any = [[queue.SimpleQueue() for _ in range(M)] for _ in range(M)]

    def go(m: int) -> None:
        _here.world, _here.party = world, m
        link = MortalLink(m, queues, timeout=20.0)
        try:
            with suppress(Killed):
                try:
                    results[m] = party(link)
                except PdmlError as error:
                    link.abort(error)
                    results[m] = error
        finally:
            link.close()

    threads = [threading.Thread(target=go, args=(m,)) for m in range(M)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if kill and kill.blackout:
        world.black_out()
    return world, results
