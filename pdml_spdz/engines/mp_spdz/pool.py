"""Stocks of MP-SPDZ's offline material: bound to one compiled program, good for one execution.

    <stocks>/mp-spdz/ledger.jsonl                  every claim, one line each, synced before the material is touched
    <stocks>/mp-spdz/stock-<id>/party-<m>/         manifest.json and Player-Data/, as MP-SPDZ wrote it

MP-SPDZ reads its files from the start in every run and does not remember what it used when a run fails: the same
material would then hide two different numbers, whose difference is no secret any more. So a stock is used at most
once, whatever happens: a claim is written to the ledger, and the stock is moved into the run's own directory, before a
virtual machine starts; and that directory is deleted afterwards, however the run ended: by the run, or by the next one.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.errors import StockError
from pdml_spdz.offline.disk import keeping, sync_directory, write_all, write_file
from pdml_spdz.offline.make import alone
from pdml_spdz.ot.prg import digest
from pdml_spdz.system.files import parse_json
from pdml_spdz.transport.base import Link

FOLDER, LEDGER, MANIFEST, DATA = "mp-spdz", "ledger.jsonl", "manifest.json", directory.DATA
CLAIMED = ".claimed"
ORPHAN = timedelta(hours=1)
MOST = 1 << 20  # bytes of a peer's list of stocks
MAKE = "make one with `pdml-spdz offline make --engine mp-spdz`, or pass --offline on-demand"


@dataclass(frozen=True)
class Manifest:
    """What a stock is for. bytecode : digest of the compiled program; counts : as the compiler says"""

    id: str
    party: int
    parties: int
    protocol: str
    program: str
    bytecode: str
    domain: str
    counts: dict[str, Any]
    created: str
    bytes: int


@dataclass(frozen=True)
class _Claim:
    """old : whoever was to claim the other parties' parts would have done so by now"""

    stock: str
    party: int | None
    old: bool


@dataclass(frozen=True)
class Pool:
    """Party me's stocks below the directory `root`."""

    root: Path
    me: int

    @property
    def folder(self) -> Path:
        return self.root / FOLDER

    def stocks(self) -> list[Manifest]:
        """Those that no run has claimed; what interrupted runs left of claimed ones is deleted."""
        if not self.folder.is_dir():
            return []
        self.tidy()
        with keeping(self.root, "check who may write there"), self._ledger():
            return self.look()

    def tidy(self) -> None:
        """Delete what interrupted runs left of claimed stocks."""
        directory.sweep(self.folder)
        with keeping(self.root, "check who may write there"), self._ledger():
            claims = list(self._claims())
            for path in self._parts():
                claimed = [claim for claim in claims if claim.stock == _stock(path)]
                # Another party of this machine may be in the middle of a claim that this one is about to make as well.
                if any(claim.party in (self.me, None) or claim.old for claim in claimed):
                    _remove(path)

    def look(self) -> list[Manifest]:
        """Those that no run has claimed. Nothing is locked, made or removed: for people, or with the ledger locked."""
        claimed, found = {claim.stock for claim in self._claims()}, []
        for path in self._parts():
            if _stock(path) in claimed:
                continue
            try:
                found.append(Manifest(**parse_json((path / MANIFEST).read_text())))
            except (OSError, ValueError, TypeError):
                if path.is_dir():  # else it was claimed at this moment
                    unread = f"{path} has no manifest that can be read."
                    raise StockError(unread, "a whole stock", "delete it") from None
        return found

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob(f"stock-*/party-{self.me}"))

    @contextmanager
    def _ledger(self) -> Iterator[int]:
        """The ledger's descriptor: whoever has it is the only one who looks at stocks or claims them."""
        fd = os.open(self.folder / LEDGER, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    def _claims(self) -> Iterator[_Claim]:
        """Every claim; a line that was torn off counts too, for any party."""
        path = self.folder / LEDGER
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            stock = line[len('{"stock": "') :][:16]
            try:
                content = parse_json(line)
                age = datetime.now(UTC) - datetime.fromisoformat(content["at"])
                yield _Claim(stock, int(content["party"]), old=age > ORPHAN)
            except (ValueError, KeyError, TypeError):
                yield _Claim(stock, None, old=True)

    def path(self, stock: str) -> Path:
        return self.folder / f"stock-{stock}" / f"party-{self.me}"

    def agree(self, link: Link, protocol: str, bytecode: str) -> str:
        """The id of a stock for this program that every party has and none has claimed.

        1. each party sends the ids of its fitting stocks; 2. the first that all have is taken

        Reveals: which stocks there are. Cost: one round.
        """
        fitting = [s.id for s in self.stocks() if (s.parties, s.protocol, s.bytecode) == (link.M, protocol, bytecode)]
        common = set(fitting)
        for said in link.all_to_all("pool:stocks", " ".join(fitting).encode(), MOST).values():
            common &= set(bytes(said).decode("ascii", "replace").split())
        if not common:
            error = StockError("there is no unused stock for this program that all parties have.", do=MAKE)
            error.common = True
            raise error
        return min(common)

    def claim(self, link: Link, stock: str, run: bytes, into: Path) -> None:
        """Burn the stock and move its material to `into`, on the same disk.

        1. each party writes the claim to its ledger and moves the stock away, both synced
        2. each says so; no virtual machine starts before all have

        Reveals: nothing. Cost: one round.
        """
        claimed = into / CLAIMED
        with keeping(self.root, "free some room"), self._ledger() as ledger:
            gone = StockError(f"stock {stock} is gone: another run has claimed it.", "a stock", MAKE)
            if any(claim.stock == stock and claim.party in (self.me, None) for claim in self._claims()):
                raise gone
            self._append(ledger, stock, run)
            try:
                self.path(stock).rename(claimed)
            except FileNotFoundError:
                raise gone from None
            sync_directory(self.path(stock).parent)
        try:
            for peer, said in link.all_to_all("pool:claimed", stock.encode()).items():
                if bytes(said) != stock.encode():
                    raise StockError(f"P{peer} claimed another stock than this party.", culprit=peer)
            with keeping(self.root, "free some room"):
                for part in (claimed / DATA).iterdir():
                    part.rename(into / part.name)
        finally:
            shutil.rmtree(claimed, ignore_errors=True)
            _remove(self.path(stock))

    def _append(self, fd: int, stock: str, run: bytes) -> None:
        line = {"stock": stock, "party": self.me, "run": run.hex(), "at": datetime.now(UTC).isoformat("T", "seconds")}
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"  # a line that a crash cut off keeps a line to itself
        write_all(fd, ("\n" * torn + json.dumps(line) + "\n").encode())
        os.fsync(fd)
        sync_directory(self.folder)

    @contextmanager
    def adding(self, link: Link, compiled: Compiled, protocol: str) -> Iterator[tuple[str, Path]]:
        """(id, a new directory for Player-Data) that become a stock when the block ends well at every party."""
        nonces = {link.me: secrets.token_bytes(16)}
        outgoing = dict.fromkeys(link.peers, nonces[link.me])
        nonces |= {l: bytes(n) for l, n in link.exchange_all("pool:new", outgoing, 16).items()}
        stock = digest(b"pdml-mp-stock", *(nonces[l] for l in range(link.M)), size=8).hex()
        new = self.path(stock).with_name(f".party-{self.me}.new")
        with keeping(self.root, "free some room, or choose another --stock directory"), alone(self.folder, self.me):
            self.tidy()
            new.mkdir(parents=True, mode=0o700)
            try:
                (new / DATA).mkdir(mode=0o700)
                yield stock, new / DATA
                size = sum(_sync(path) for path in sorted(new.rglob("*")))
                created = datetime.now(UTC).isoformat("T", "seconds")
                manifest = Manifest(
                    stock,
                    self.me,
                    link.M,
                    protocol,
                    compiled.name,
                    compiled.digest,
                    compiled.domain,
                    asdict(compiled.counts),
                    created,
                    size,
                )
                write_file(new / MANIFEST, json.dumps(asdict(manifest), indent=2).encode())
                sync_directory(new)
                link.all_to_all("pool:made", stock.encode())
                new.rename(self.path(stock))
                sync_directory(new.parent)
            finally:
                _remove(new)


def list_stocks(root: Path) -> list[Manifest]:
    """Every unclaimed stock below `root`, whichever party's, for people to look at; nothing is changed."""
    parties = {int(p.name.removeprefix("party-")) for p in (root / FOLDER).glob("stock-*/party-[0-9]*")}
    return sorted((s for m in sorted(parties) for s in Pool(root, m).look()), key=lambda s: (s.created, s.id, s.party))


def _stock(part: Path) -> str:
    return part.parent.name.removeprefix("stock-")


def _sync(path: Path) -> int:
    """Have it on the disk before a manifest says that it is there; returns its size."""
    if path.is_dir():
        sync_directory(path)
        return 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):  # another party's part may be in it
        path.parent.rmdir()
