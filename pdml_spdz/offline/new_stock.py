"""Making a stock, whatever is in it: all parties together, and none has one unless all have."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdml_spdz.errors import StockError, StorageError
from pdml_spdz.offline import ledger
from pdml_spdz.offline.stock import FORMAT, MANIFEST, Description, File, Manifest, Stock, directory
from pdml_spdz.ot.prg import digest
from pdml_spdz.system.files import sync, write_file, writing
from pdml_spdz.transport.base import Link

NONCE = 16
FREE_ROOM = "free some room, or choose another --stock directory; no part of a stock was left behind"


@dataclass(frozen=True)
class Wanted:
    """What a new stock will be.

    records, items : as in its manifest
    room : bytes on the disk, if one knows
    session : a public value of this meeting
    """

    kind: Description
    records: int
    items: tuple[int, ...]
    room: int = 0
    session: bytes = b""

    @property
    def digest(self) -> bytes:
        what = json.dumps([FORMAT, asdict(self.kind), self.records, self.items])
        return digest(b"pdml-stock", what.encode(), self.session)


@dataclass(frozen=True)
class New:
    """A stock that is being made. files : of the manifest, for the block to fill in"""

    id: str
    path: Path
    files: dict[str, File] = field(default_factory=dict)


@contextmanager
def new_stock(link: Link, content: type[Stock[Any, Any, Any]], root: Path, wanted: Wanted) -> Iterator[New]:
    """A directory that becomes this party's part of a stock, <root>/stock-<id>/party-<m>, if the block ends well at
    every party, and is removed if not. No one takes it for a stock before.

    1. each party sends a digest of what it is about to make, and a nonce; id = H(digest, all nonces)
    2. the block writes the content
    3. each party writes an empty ledger and the manifest, syncs every file, and says so
    4. when all have said so, each party gives the directory its name

    *Reveals:* nothing but what is made. *Cost:* 2 rounds, and what the block takes. *Ref:* -
    """
    with link.offline(), writing(root, FREE_ROOM), alone(root, link.me):
        content.tidy(root, link.me)
        if (free := shutil.disk_usage(root).free) < wanted.room:
            raise StorageError(
                f"{root} has room for {free:,} bytes.", f"{wanted.room:,} bytes for this stock", FREE_ROOM
            )
        stock = _agree(link, wanted)
        final = directory(root, stock, link.me)
        new = New(stock, final.with_name(f".{final.name}.new"))
        try:
            final.parent.mkdir(mode=0o700, exist_ok=True)
            new.path.mkdir(mode=0o700)
            yield new
            _finish(new, link.me, wanted)
            link.all_to_all("stock:made", stock.encode())
            new.path.rename(final)
            sync(final.parent)
            sync(root)
        except BaseException:
            with suppress(OSError):  # first of all it stops looking like a stock
                final.rename(new.path)
            _remove(new.path)
            raise


def _agree(link: Link, wanted: Wanted) -> str:
    """Step 1: the id, 16 hexadecimal digits."""
    nonces = {link.me: secrets.token_bytes(NONCE)}
    for peer, said in link.all_to_all("stock:agree", wanted.digest + nonces[link.me]).items():
        if bytes(said[:-NONCE]) != wanted.digest:
            raise StockError(
                f"P{peer} is about to make another stock than this party ({wanted.kind}; {wanted.records} records, "
                f"{len(wanted.items)} items).",
                "the same counts, rings and version at every party",
                "start `pdml-spdz offline make` with the same study and options at every party",
                culprit=peer,
            )
        nonces[peer] = bytes(said[-NONCE:])
    return digest(b"pdml-stock-id", wanted.digest, *(nonces[l] for l in range(link.M)), size=8).hex()


def _finish(new: New, me: int, wanted: Wanted) -> None:
    """Step 3: everything in the directory is on the disk."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(new.id, me, wanted.kind, wanted.records, wanted.items, created, new.files)
    ledger.create(new.path / ledger.FILE, manifest.heading)
    write_file(new.path / MANIFEST, manifest.to_json().encode())
    for path in (*new.path.rglob("*"), new.path):
        sync(path)


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


def _remove(new: Path) -> None:
    shutil.rmtree(new, ignore_errors=True)
    with suppress(OSError):  # another party's part may be in it
        new.parent.rmdir()
