"""Damaged stocks and full disks: told before anything is used, and nothing half made stays."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pdml_spdz.errors import PeerAborted, StockError, StorageError
from pdml_spdz.offline import ledger
from pdml_spdz.offline.from_stock import claim
from pdml_spdz.offline.make import make
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.new_stock import FREE_ROOM
from pdml_spdz.offline.numbers import TRIPLES, Kind, NumberStock, scalar_name
from pdml_spdz.offline.status import status
from pdml_spdz.offline.stock import MANIFEST, directory
from tests.stocks import ROOT, RUN, claim_fake, failures, fake, fake_kind, parts


def edit_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def cut(path: Path, by: int = 1) -> None:
    os.truncate(path, path.stat().st_size - by)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "scalar cut": (lambda p: cut(p / scalar_name(1)), "scalar-00001.bin has 55 bytes"),
    "scalar edited": (lambda p: flip(p / scalar_name(1), 9), "scalar-00001.bin does not have the digest"),
    "scalar missing": (
        lambda p: (p / scalar_name(1)).unlink(),
        "scalar-00001.bin is missing, and the ledger has no claim",
    ),
    "triples cut": (lambda p: cut(p / TRIPLES), "triples.bin has 1599 bytes"),
    "triple edited": (lambda p: flip(p / TRIPLES, 40 + 20), "triple 1 is damaged"),
    "triple's digest edited": (lambda p: flip(p / TRIPLES, 40 * 30), "triples.bin does not have the digest"),
    "triple zeroed": (lambda p: zero(p / TRIPLES, 16, 40), "triple 0 was used before, which the ledger does not say"),
    "triples missing": (lambda p: (p / TRIPLES).unlink(), "triples.bin is missing"),
    "of 0.1, before ten different places": (lambda p: edit_json(p / MANIFEST, format=5), "it has format 5"),
    "before one ledger for all": (lambda p: edit_json(p / MANIFEST, format=6), "it has format 6"),
    "other format": (lambda p: edit_json(p / MANIFEST, format=9), "it has format 9"),
    "other count": (lambda p: edit_json(p / MANIFEST, records=41), "the files in it are not those of its counts"),
    "other party": (lambda p: edit_json(p / MANIFEST, party=0), "it is stock 0123456789abcdef of party 0"),
    "other id": (lambda p: edit_json(p / MANIFEST, stock="ff"), "it is stock ff of party 1"),
    "manifest cut": (lambda p: cut(p / MANIFEST, 9), "manifest.json cannot be used"),
    "manifest missing": (lambda p: (p / MANIFEST).unlink(), "manifest.json cannot be used"),
    "no ledger": (lambda p: (p / ledger.FILE).unlink(), "ledger.jsonl cannot be read"),
    "empty ledger": (lambda p: (p / ledger.FILE).write_bytes(b""), "line 1 of .*: it is missing"),
    "torn heading": (lambda p: cut(p / ledger.FILE), "line 1 of .*: it is missing"),
    "edited ledger": (lambda p: flip(p / ledger.FILE, 12), "line 1 of .*: its check does not match"),
}


def zero(path: Path, first: int, last: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[first:last] = bytes(last - first)
    path.write_bytes(raw)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_stock_is_told_before_anything_is_used(tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    fake(tmp_path, 2)
    damage(directory(tmp_path, "0123456789abcdef", 1))
    hurt, other = reversed(
        failures(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    )
    assert isinstance(hurt, StockError)
    assert not hurt.common
    with pytest.raises(StockError, match=message):
        raise hurt
    assert hurt.wanted
    assert "make a new stock" in hurt.do
    assert isinstance(other, PeerAborted)
    assert "its offline stock is missing" in str(other)
    rows = {row.party: row for row in status(tmp_path)}
    assert rows[0].problem == ""
    assert bool(rows[1].problem) == ("edited" not in name.replace("edited ledger", "") and name != "triple zeroed")


def test_a_scalar_damaged_at_one_party_is_skipped_next_time(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    flip(directory(tmp_path, "0123456789abcdef", 1) / scalar_name(1), 9)
    failures(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN))
    assert parts(claim_fake(tmp_path, 2, Plan(4, (3,))))[2] == (3,)


def test_another_partys_directory_is_refused(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    for error in failures(
        2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), 1 - link.me), Plan(4, ()), RUN)
    ):
        assert isinstance(error, StockError | PeerAborted)
    moved = directory(tmp_path, "0123456789abcdef", 2)
    directory(tmp_path, "0123456789abcdef", 1).rename(moved)
    with pytest.raises(StockError, match="it is stock 0123456789abcdef of party 1"):
        NumberStock.find(tmp_path, fake_kind(2), 2)


# ---- a full disk


def full(monkeypatch: pytest.MonkeyPatch, after: int, *, name: str = "write") -> None:
    """From the call number `after` on, os.<name> finds the disk full; before that a write goes through in part."""
    real, left = getattr(os, name), [after]

    def fails(fd: int, *data: bytes) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, *(part[: max(1, len(part) // 2)] for part in data))

    monkeypatch.setattr(os, name, fails)


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("after", [0, 1, 2, 7])
def test_a_full_disk_while_making_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    full(monkeypatch, after, name=name)
    errors = failures(2, lambda link: make(link, tmp_path, Plan(1, (2,)), Kind(2, 64, 64), b"s"))
    monkeypatch.undo()
    storage = [error for error in errors if isinstance(error, StorageError)]
    assert storage
    assert all("No space left" in str(error) and error.do == FREE_ROOM for error in storage)
    valid = [row for row in status(tmp_path) if not row.problem]
    assert valid == []
    assert not list(tmp_path.glob("stock-*/.*"))


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_full_disk_while_claiming_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    fake(tmp_path, 2)
    full(monkeypatch, after, name=name)
    errors = failures(
        2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), Plan(4, (3,)), RUN)
    )
    monkeypatch.undo()
    assert any(isinstance(error, StorageError) and "free some room there" in error.do for error in errors)
    claim_fake(tmp_path, 2, Plan(4, (3,)))


def test_no_room_is_told_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    for error in failures(2, lambda link: make(link, tmp_path, Plan(1, (2,)), Kind(2, 64, 64), b"s")):
        assert "has room for 9 bytes" in str(error) or isinstance(error, PeerAborted)
    assert status(tmp_path) == []


def test_a_file_that_may_not_grow_is_a_storage_error(tmp_path: Path) -> None:
    """The operating system's own refusal, in a process that may write no file above 1 kB."""
    code = f"""
import resource, pathlib
from tests.stocks import *
from pdml_spdz.offline.make import make
from pdml_spdz.ot import group
group.base_times(group.random_scalar())  # loads its library, which unpacks itself
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
root = pathlib.Path({str(tmp_path)!r})
for error in failures(2, lambda link: make(link, root, Plan(0, (99,)), Kind(2, 64, 64), b"s")):
    print(type(error).__name__, error.found)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "StorageError" in run.stdout
    assert "File too large" in run.stdout
    assert status(tmp_path) == []
    assert not list(tmp_path.glob("stock-*"))
