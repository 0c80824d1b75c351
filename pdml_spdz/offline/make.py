"""Making a stock: all parties together, before any data exists."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pdml_spdz.errors import StockError, StorageError
from pdml_spdz.numerics import ring
from pdml_spdz.offline import ledger
from pdml_spdz.offline.claim import scrub_left
from pdml_spdz.offline.disk import NewFile, keeping, sync_directory, write_file
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.on_demand import GROUP, LEVELS, Supply, levels, piece_for, pieces
from pdml_spdz.offline.stock import (
    FORMAT,
    MANIFEST,
    TRIPLES,
    File,
    Kind,
    Manifest,
    Stock,
    directory,
    record_digest,
    scalar_name,
)
from pdml_spdz.ot import extension, silent, triples, vole
from pdml_spdz.ot.prg import digest
from pdml_spdz.transport.base import HEADER, Link

Progress = Callable[[int, int, int], None]  # triples and numbers made, of how many, bytes sent

NONCE = 16
FREE_ROOM = "free some room, or choose another --stock directory; no part of a stock was left behind"


def make(link: Link, root: Path, plan: Plan, kind: Kind, session: bytes, progress: Progress | None = None) -> Stock:
    """Make a stock with the triples and numbers of `plan`; this party's part goes to <root>/stock-<id>/party-<m>.

    1. each party sends a digest of what it is about to make, and a nonce; id = H(digest, all nonces)
    2. base OTs and their extension (`extension.set_up`)
    3. triples (`triples.make`); for each scalar fresh deltas (`vole.set_up`) and its numbers piece by piece
       (`Supply`), all written as they come, to a directory that no one takes for a stock
    4. each party writes an empty ledger and the manifest, syncs every file, and says so
    5. when all have said so, each party gives the directory its name

    session : a public value of this meeting, as for `extension.set_up`; progress : called after each block

    *Reveals:* nothing but the counts. *Cost:* `forecast`. *Ref:* as for the three makers.
    """
    if kind.M != link.M:
        raise StockError(f"a stock for {kind.M} parties was asked for, and {link.M} have met.", "as many as there are")
    with link.offline(), keeping(root, FREE_ROOM), alone(root, link.me):
        _scrub(root, link.me)
        _check_room(root, plan, kind)
        stock = _agree(link, plan, kind, session)
        with _unfinished(root, stock, link.me) as new:
            meter = _Meter(link, plan, progress)
            files = _write_material(link, new, plan, kind, digest(b"pdml-stock-ot", session, stock.encode()), meter)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            manifest = Manifest(stock, link.me, kind, plan.triples, plan.vectors, created, files)
            ledger.create(new / ledger.FILE, manifest.heading)
            write_file(new / MANIFEST, manifest.to_json().encode())
            sync_directory(new)
            link.all_to_all("stock:made", stock.encode())
    return Stock(directory(root, stock, link.me))


def _agree(link: Link, plan: Plan, kind: Kind, session: bytes) -> str:
    """Step 1: the id, 16 hexadecimal digits."""
    what = digest(b"pdml-stock", repr((FORMAT, kind, plan)).encode(), session)
    nonces = {link.me: secrets.token_bytes(NONCE)}
    for peer, said in link.all_to_all("stock:agree", what + nonces[link.me]).items():
        if bytes(said[: len(what)]) != what or len(said) != len(what) + NONCE:
            raise StockError(
                f"P{peer} is about to make another stock than this party ({kind}, {plan}).",
                "the same counts, rings and version at every party",
                "start `pdml-spdz offline make` with the same study and options at every party",
                culprit=peer,
            )
        nonces[peer] = bytes(said[len(what) :])
    return digest(b"pdml-stock-id", what, *(nonces[l] for l in range(link.M)), size=8).hex()


class _Meter:
    def __init__(self, link: Link, plan: Plan, progress: Progress | None) -> None:
        self._link, self._progress = link, progress
        self._done, self._total = 0, plan.triples + plan.numbers
        self.add(0)

    def add(self, n: int) -> None:
        self._done += n
        if self._progress:
            self._progress(self._done, self._total, sum(self._link.traffic.sent.values()))


def _write_material(link: Link, new: Path, plan: Plan, kind: Kind, session: bytes, meter: _Meter) -> dict[str, File]:
    """Steps 2 and 3."""
    ots = extension.set_up(link, session)
    files = {}
    with NewFile(new / TRIPLES) as file:
        for n in pieces(plan.triples, _batch(kind)):
            _write_triples(file, triples.make(link, ots, n, kind.scalar_bits))
            meter.add(n)
    files[TRIPLES] = File(file.bytes, file.digest)
    for first in range(0, len(plan.vectors), GROUP):
        sizes = plan.vectors[first : first + GROUP]
        for i, ends in enumerate(vole.set_up(link, ots, kind.vector_bits, count=len(sizes)), first):
            with NewFile(new / scalar_name(i)) as file:
                n = plan.vectors[i]
                supply = Supply(link, ots, ends, n, lpn=kind.vole == "lpn", whole=True)
                _write_scalar(file, supply, n, kind, meter)
            files[scalar_name(i)] = File(file.bytes, file.digest)
    return files


def _write_triples(file: NewFile, made: triples.Triples) -> None:
    contents = [ring.from_ints(numbers, made.bits).tobytes() for numbers in zip(made.a, made.b, made.c, strict=True)]
    checks = [record_digest(content) for content in contents]
    records = b"".join(check + content for check, content in zip(checks, contents, strict=True))
    file.write(records, digested=b"".join(checks))


def _write_scalar(file: NewFile, supply: Supply, n: int, kind: Kind, meter: _Meter) -> None:
    """The delta, then for every number u and what is left of the VOLEs (`Correlation`)."""
    file.write(ring.from_ints([supply.delta], kind.vector_bits).tobytes())
    for size in pieces(n, piece_for(kind.M)):
        made = supply.take(size)
        records = np.stack([made.pad, made.rest], axis=1)
        file.write(records.tobytes())
        meter.add(size)


def _batch(kind: Kind) -> int:
    """Triples at a time."""
    return max(32, triples.BATCH // (kind.M - 1))


@contextmanager
def alone(root: Path, me: int) -> Iterator[None]:
    """One `make` of a party in a directory at a time, so that what an interrupted one left can be told and removed."""
    root.mkdir(parents=True, exist_ok=True)
    fd = os.open(root / f".making-{me}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            do = "wait for it, or choose another --stock directory"
            raise StockError(f"party {me} is making a stock in {root} already.", "one at a time", do) from None
        for left in root.glob(f"stock-*/.party-{me}.new"):
            _remove(left)
        yield
    finally:
        os.close(fd)


@contextmanager
def _unfinished(root: Path, stock: str, me: int) -> Iterator[Path]:
    """A directory that becomes party me's part of the stock if the block ends well, and is removed if not."""
    final = directory(root, stock, me)
    new = final.with_name(f".{final.name}.new")
    try:
        final.parent.mkdir(mode=0o700, exist_ok=True)
        new.mkdir(mode=0o700)
        yield new
        new.rename(final)
        sync_directory(final.parent)
        sync_directory(root)
    except BaseException:
        with suppress(OSError):  # first of all it stops looking like a stock
            final.rename(new)
        _remove(new)
        raise


def _remove(new: Path) -> None:
    shutil.rmtree(new, ignore_errors=True)
    with suppress(OSError):  # another party's part may be in it
        new.parent.rmdir()


def _scrub(root: Path, me: int) -> None:
    """What killed runs have claimed of older stocks and left there; a damaged one is an error to whoever uses it."""
    for path in sorted(root.glob(f"stock-*/party-{me}")):
        with suppress(StockError):
            scrub_left([Stock(path)])


def _check_room(root: Path, plan: Plan, kind: Kind) -> None:
    wanted, free = forecast(plan, kind).disk, shutil.disk_usage(root).free
    if free < wanted:
        raise StorageError(f"{root} has room for {free:,} bytes.", f"{wanted:,} bytes for this stock", FREE_ROOM)


@dataclass(frozen=True)
class Forecast:
    """For one party. disk : bytes written; sent : bytes to all peers; seconds : on one core, with a fast network"""

    disk: int
    sent: int
    seconds: float


# Measured on one core (Xeon at 2.8 GHz) at 192 and 512 bits, seconds for each peer.
SET_UP, PER_TRIPLE, PER_SCALAR, PER_NUMBER, PER_LPN_NUMBER = 0.05, 5e-4, 2e-2, 2e-5, 6e-7


def forecast(plan: Plan, kind: Kind) -> Forecast:
    """What `make` will take: disk and traffic exactly (but for manifest, ledger and TLS), the time roughly."""
    peers = kind.M - 1
    disk = plan.triples * kind.triple_size + sum(kind.scalar_size(n) for n in plan.vectors)
    sent = _frames(2 * NONCE, 32, 32 * extension.SECURITY, 32 * extension.SECURITY, 16)
    for n in pieces(plan.triples, _batch(kind)):
        sent += _frames(extension.message_size(n * kind.scalar_bits), triples.message_size(n, kind.scalar_bits))
    digits = vole.Digits(kind.vector_bits, vole.KAPPA)
    for count in pieces(len(plan.vectors), GROUP):
        n = count * len(digits) * digits.kappa
        sent += _frames(extension.message_size(n), 32 * n)
    by_ot = by_lpn = 0
    for n in plan.vectors:
        top = levels(n, n) if kind.vole == "lpn" else 0
        counts = [*(lpn.secret for lpn in LEVELS[:top]), n]  # each made with the help of the one before
        sent += _frames(*(digits.message_size(size) for size in pieces(counts[0], piece_for(kind.M))))
        for lpn, count in zip(LEVELS, counts[1:], strict=False):
            sent += _frames(*silent.message_sizes(count, kind.vector_bits, lpn))
        by_ot, by_lpn = by_ot + counts[0], by_lpn + sum(counts[1:])
    wide = (kind.scalar_bits / 512) ** 2, (kind.vector_bits / 192) ** 2
    seconds = SET_UP + plan.triples * PER_TRIPLE * wide[0] + by_lpn * PER_LPN_NUMBER
    seconds += (len(plan.vectors) * PER_SCALAR + by_ot * PER_NUMBER) * wide[1]
    return Forecast(disk, peers * sent, peers * seconds)


def _frames(*sizes: int) -> int:
    return sum(HEADER.size + size for size in sizes)
