"""Killed anywhere, at any party, as often as you like: no triple and no scalar is ever given out twice.

A party is killed by an exception at one of its steps: a write (after any number of its bytes), a sync, a rename, a
removal, a message to one peer. From then on it does nothing more: whatever it would do to clean up fails as well. What
was written and not yet synced may be there in part or not at all after a power failure: so the partial writes.
"""

from __future__ import annotations

import os
import queue
import random
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.errors import PdmlError, StockError
from pdml_spdz.offline import ledger
from pdml_spdz.offline import make as making
from pdml_spdz.offline.disk import DIGEST, NewFile
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.spend import StockMaterial, claim
from pdml_spdz.offline.status import status
from pdml_spdz.offline.stock import TRIPLES, File, Kind, directory, find, record_digest, scalar_name
from pdml_spdz.transport.base import DATA, Frame, Link
from pdml_spdz.transport.inprocess import InProcessLink
from tests.stocks import fake, fake_kind

STOCK = "0123456789abcdef"
PLAN = Plan(2, (1, 1))
OPERATIONS = ("write", "fsync", "ftruncate", "rename", "unlink", "mkdir", "rmdir", "open")
EVERYTHING = 1 << 30


class Killed(BaseException):
    """SIGKILL, for one thread."""


@dataclass(frozen=True)
class Kill:
    """At a step of `party`, given by its number or as the first of a name; of a write, `kept` bytes go through."""

    party: int
    step: int | str
    kept: int = 0
    blackout: bool = False  # all parties end there, and what was not synced is lost


@dataclass
class World:
    """What the parties did: steps by party, with the bytes of a write; what of each file would survive a blackout."""

    parties: int
    kill: Kill | None
    steps: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    synced: dict[str, int] = field(default_factory=dict)

    def black_out(self) -> None:
        for path, size in self.synced.items():
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
            if getattr(_here, "world", None) is None:
                return real[name](*args, **options)
            kept = step(name, len(args[1]) if name == "write" else 0)
            if name in ("write", "fsync"):
                path, size = str(Path(f"/proc/self/fd/{args[0]}").readlink()), os.fstat(args[0]).st_size
                if path.endswith(ledger.FILE):
                    _here.world.synced[path] = size if name == "fsync" else _here.world.synced.get(path, size)
            if kept is not None:
                real["write"](args[0], args[1][:kept])
                raise Killed
            return None if name == "fsync" else real[name](*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(os, name, shim(name))
        yield


@pytest.fixture(autouse=True)
def _operating_system() -> Iterator[None]:
    with shimmed():
        yield


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where there is such a place: thousands of small files."""
    base = Path("/dev/shm")
    path = (base if base.is_dir() else Path("/tmp")) / f"pdml-stock-{os.getpid()}-{random.getrandbits(32):x}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


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


class Usage:
    """Everything that was ever given out, at whichever party."""

    def __init__(self, root: Path, M: int) -> None:
        self.root, self.M = root, M
        self.triples: set[int] = set()
        self.scalars: set[int] = set()

    def claim(self, kill: Kill | None = None) -> World:
        """One claim at all parties; with no kill it must come off."""
        kind = fake_kind(self.M)
        world, results = run(self.M, lambda link: claim(link, find(self.root, kind, link.me), PLAN, b"run"), kill)
        given = {m: _given(result) for m, result in results.items() if isinstance(result, StockMaterial)}
        errors = [result for result in results.values() if isinstance(result, BaseException)]
        assert all(isinstance(error, PdmlError) for error in errors), errors
        if kill is None:
            assert len(given) == self.M, errors
        assert len({str(part) for part in given.values()}) <= 1
        for triples, scalars in list(given.values())[:1]:
            assert not self.triples & set(triples)
            assert not self.scalars & set(scalars)
            self.triples |= set(triples)
            self.scalars |= set(scalars)
        return world

    def crash_then_claim(self, *kills: Kill) -> None:
        for kill in kills:
            self.claim(kill)
        self.claim()


def _given(material: StockMaterial) -> tuple[list[int], list[int]]:
    """By what is in the files, not by what the ledger says."""
    scalars = [material.scalar() for _ in PLAN.vectors]
    return material.triples(PLAN.triples).a, [scalar.delta for scalar in scalars]


def fresh(root: Path, M: int, claims: int) -> Usage:
    """A stock for so many claims, in the place of the last."""
    shutil.rmtree(root / f"stock-{STOCK}", ignore_errors=True)
    fake(root, M, Plan(claims * PLAN.triples, (1,) * (claims * len(PLAN.vectors))), STOCK)
    return Usage(root, M)


def steps_of_a_claim(root: Path, M: int) -> dict[int, list[tuple[str, int]]]:
    usage = fresh(root, M, 2)
    usage.claim()
    return usage.claim().steps  # the second: the first finds nothing to tidy up


@pytest.mark.parametrize("blackout", [False, True])
@pytest.mark.parametrize("M", [2, 3])
def test_a_kill_at_any_step_of_a_claim(root: Path, M: int, blackout: bool) -> None:
    steps = steps_of_a_claim(root, M)
    names = [name for name, _ in steps[0]]
    assert {"write", "fsync", "ftruncate", "unlink", "send stock:offer", "send stock:claimed"} <= set(names)
    # Before the claim is on the disk nothing is said, and before all have said so nothing is removed.
    assert names.index("write") < names.index("fsync") < names.index("send stock:claimed")
    kills = [
        Kill(m, i, kept, blackout)
        for m in range(M)
        for i, (name, _) in enumerate(steps[m])
        for kept in ((0, EVERYTHING) if name == "write" else (0,))
    ]
    assert len(kills) >= 30
    for number, kill in enumerate(kills):
        if number % 8 == 0:  # a long ledger takes time to read
            usage = fresh(root, M, 17)
            usage.claim()
        usage.crash_then_claim(kill)


@pytest.mark.parametrize(("M", "m"), [(2, 0), (2, 1), (3, 1)])
def test_a_kill_after_any_byte_of_the_ledgers_line(root: Path, M: int, m: int) -> None:
    (size,) = [size for name, size in steps_of_a_claim(root, M)[m] if name == "write"]
    assert size > 100
    for kept in range(size + 1):
        if kept % 10 == 0:
            usage = fresh(root, M, 20)
        before = directory(root, STOCK, m).joinpath(ledger.FILE).stat().st_size
        usage.claim(Kill(m, "write", kept))
        assert directory(root, STOCK, m).joinpath(ledger.FILE).stat().st_size == before + min(kept, size)
        usage.claim()


def test_two_kills_in_a_row_at_any_steps(root: Path) -> None:
    steps = steps_of_a_claim(root, 2)
    pairs = [
        (Kill(0, i, EVERYTHING), Kill(second, j, (i * j) % 160))
        for second in (0, 1)
        for i in range(len(steps[0]))
        for j in range((i + second) % 2, len(steps[second]), 2)
    ]
    assert len(pairs) > 150
    for number, pair in enumerate(pairs):
        if number % 8 == 0:
            usage = fresh(root, 2, 24)
        usage.crash_then_claim(*pair)


@pytest.mark.parametrize("seed", range(4))
def test_kills_and_old_copies_in_any_order(root: Path, seed: int) -> None:
    """A party may even go back to an older copy of all its files, as long as one party does not."""
    choice = random.Random(seed)
    M = 2 + seed % 2
    steps = steps_of_a_claim(root, M)
    usage = fresh(root, M, 80)
    keeper, copies = choice.randrange(M), root / "copies"
    copies.mkdir()
    for _ in range(60):
        m = choice.randrange(M)
        own, copy = directory(root, STOCK, m), copies / str(m)
        match choice.randrange(4):
            case 0:
                usage.claim()
            case 1:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(own, copy)
            case 2 if m != keeper and copy.exists():
                shutil.rmtree(own)
                shutil.copytree(copy, own)
            case _:
                usage.claim(Kill(m, choice.randrange(len(steps[m])), choice.randrange(200)))
    usage.claim()


# ---- scrubbing


def tree(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file below `root`: its bytes, mode and time of change."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(p): (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in found}


def left_of_claims(root: Path, M: int) -> int:
    """Bytes on the disk that a ledger says are claimed."""
    total = 0
    for stock in (find(root, fake_kind(M), m)[0] for m in range(M)):
        used = stock.state().position
        total += sum(stock.scalar_path(i).stat().st_size for i in used.scalars if stock.scalar_path(i).exists())
        records = (stock.path / TRIPLES).read_bytes()
        size = stock.manifest.kind.triple_size
        total += sum(any(records[i * size + DIGEST : (i + 1) * size]) for i in range(used.triple))
    return total


def in_vain(root: Path, M: int) -> None:
    """A run that finds too little left, and so claims nothing."""

    def party(link: Link) -> None:
        StockMaterial(link, find(root, fake_kind(M), link.me), b"next").check(PLAN)

    assert all(isinstance(error, StockError) and error.common for error in run(M, party)[1].values())


def make_another(root: Path, M: int) -> None:
    run(M, lambda link: making.make(link, root, PLAN, fake_kind(M), b"s"))
    for part in root.glob("stock-*"):
        if part.name != f"stock-{STOCK}":
            shutil.rmtree(part)


@pytest.mark.parametrize("command", [in_vain, make_another])
def test_what_a_killed_run_has_claimed_is_scrubbed_by_the_next_command(
    root: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Path, int], None]
) -> None:
    """The whole stock is claimed, so that no later claim will ever look at it."""
    monkeypatch.setattr(making, "_write_material", fake_material)
    for name in ("send stock:claimed", "receive stock:claimed", "unlink"):
        usage = fresh(root, 2, 1)
        usage.claim(Kill(0, name))
        assert left_of_claims(root, 2) > 0
        before = tree(root)
        status(root)
        assert tree(root) == before  # looking at it changes nothing
        command(root, 2)
        assert left_of_claims(root, 2) == 0


# ---- making


def fake_material(link: Link, new: Path, plan: Plan, kind: Kind, *_: object) -> dict[str, File]:
    """In the place of `_write_material`: the same files, by the same means, with nothing in them."""
    link.all_to_all("material", b"")
    files = {}
    for name, size in ((TRIPLES, 0), (scalar_name(0), kind.scalar_size(1)), (scalar_name(1), kind.scalar_size(1))):
        with NewFile(new / name) as file:
            if name == TRIPLES:
                contents = [bytes([i + 1]) * 24 for i in range(plan.triples)]
                checks = [record_digest(content) for content in contents]
                records = b"".join(check + content for check, content in zip(checks, contents, strict=True))
                file.write(records, digested=b"".join(checks))
            else:
                file.write(bytes(size))
        files[name] = File(file.bytes, file.digest)
    return files


@pytest.mark.parametrize("M", [2, 3])
def test_a_kill_at_any_step_of_making(root: Path, M: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_write_material", fake_material)
    kind, plan = fake_kind(M), PLAN

    def make(link: Link) -> object:
        return making.make(link, root, plan, kind, b"s")

    def use(link: Link) -> object:
        return claim(link, find(root, kind, link.me), plan, b"run")

    steps = run(M, make)[0].steps
    shutil.rmtree(next(root.glob("stock-*")))
    kills = [
        Kill(m, i, kept)
        for m in range(M)
        for i, (_, size) in enumerate(steps[m])
        for kept in ({0, size // 2, size - 1, size} if size else {0})
    ]
    assert len(kills) > 60
    for kill in kills:
        run(M, make, kill)
        rows = status(root)
        assert [row.problem for row in rows] == [""] * len(rows)
        _, results = run(M, use)
        if len(rows) == M:  # killed after all was done
            assert all(isinstance(result, StockMaterial) for result in results.values())
        else:
            assert all(isinstance(result, StockError) and result.common for result in results.values())
        for left in root.glob("stock-*/party-*"):
            shutil.rmtree(left)
        run(M, make)
        assert all(isinstance(result, StockMaterial) for result in run(M, use)[1].values())
        assert not list(root.glob("stock-*/.*"))  # what the killed one left is gone
        for left in root.glob("stock-*"):
            shutil.rmtree(left)
