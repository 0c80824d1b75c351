"""The ledger of a stock: what was claimed, when, for which run. One JSON line per claim, appended and never changed.

The first line names the stock. Every line ends with a check over itself and the line before, so that a line that was
edited or taken out from the middle is noticed. A last line without its newline was torn off in the middle of its
write: the claim was not yet synced, nothing of it was ever used, and the next append takes its place (if it is whole
but for the newline, it counts as a claim all the same). Everything else that a ledger cannot be is an error, never
an empty ledger.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pdml_spdz.errors import StockError, StorageError
from pdml_spdz.system.files import parse_json, sync, write_all, write_file, writing

FILE = "ledger.jsonl"
FORMAT = 2


@dataclass(frozen=True)
class Heading:
    """The first line: whose ledger it is, and how much there is to claim."""

    stock: str
    party: int
    records: int
    items: int
    format: int = FORMAT


@dataclass(frozen=True)
class Position:
    """What is used up: every record before number `record`, and these items."""

    record: int = 0
    items: frozenset[int] = frozenset()

    def join(self, other: Position) -> Position:
        """Used at either of two parties is used at both."""
        return Position(max(self.record, other.record), self.items | other.items)


@dataclass(frozen=True)
class Claim:
    """One line: records[0] up to before records[1], and whole items; earlier records are used up as well.

    burnt : items that another party's ledger has as used and this one had not (a crash between the two)
    """

    run: str
    time: str
    records: tuple[int, int]
    items: tuple[int, ...]
    burnt: tuple[int, ...] = ()

    @property
    def spent(self) -> tuple[int, ...]:
        """Items that nobody may use after it."""
        return self.items + self.burnt

    def after(self, before: Position, heading: Heading) -> Position:
        """The position after this claim; ValueError if there can be no such claim."""
        first, last = self.records
        if not before.record <= first <= last <= heading.records:
            raise ValueError(f"records {first} to {last}, of {heading.records}, after {before.record} were used")
        if len(set(self.spent)) < len(self.spent) or before.items & set(self.spent):
            raise ValueError("an item is claimed twice")
        if not all(0 <= i < heading.items for i in self.spent):
            raise ValueError(f"an item that is not among the stock's {heading.items}")
        return Position(last, before.items | set(self.spent))


@dataclass(frozen=True)
class LedgerState:
    """What a ledger says. end : its bytes that count; check : of the last line; whole : that line has its newline"""

    position: Position
    claims: tuple[Claim, ...]
    end: int
    check: str
    whole: bool

    @property
    def before_last(self) -> int:
        """The first record that the last claim used up."""
        return self.claims[-2].records[1] if len(self.claims) > 1 else 0


def create(path: Path, heading: Heading) -> None:
    write_file(path, _line(asdict(heading), "")[0])


def read(path: Path, heading: Heading) -> LedgerState:
    """The state as it is on the disk, without the lock: for showing it and for a first choice."""
    try:
        return parse(path.read_bytes(), heading, path)
    except OSError as error:
        raise _unreadable(path, error) from None


def parse(raw: bytes, heading: Heading, path: Path) -> LedgerState:
    """The state from the bytes of a ledger, or StockError."""
    *lines, tail = raw.split(b"\n")
    position, claims, check, end = Position(), [], "", 0
    for number, line in enumerate(lines, 1):
        try:
            fields, check = _fields(line, check)
            if number == 1:
                if fields != asdict(heading):
                    raise ValueError("another stock or party than the manifest's")
            else:
                claims.append(_claim(fields))
                position = claims[-1].after(position, heading)
        except (ValueError, TypeError, KeyError) as error:
            raise _impossible(path, number, error) from None
        end += len(line) + 1
    if not lines:
        raise _impossible(path, 1, ValueError("it is missing"))
    with suppress(ValueError, TypeError, KeyError):
        fields, tail_check = _fields(tail, check)
        last = _claim(fields)
        return LedgerState(last.after(position, heading), (*claims, last), end + len(tail), tail_check, whole=False)
    return LedgerState(position, tuple(claims), end, check, whole=True)


class Ledger:
    """A ledger that this process alone may add to, until `close`."""

    def __init__(self, path: Path, fd: int, heading: Heading) -> None:
        self.path, self._fd, self._heading = path, fd, heading
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(0)
            self.state = parse(file.read(), heading, path)

    @classmethod
    def lock(cls, path: Path, heading: Heading) -> Ledger | None:
        """None if another process has it. It never waits: two runs could wait for each other's locks for ever."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(path, error) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, fd, heading)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            found = f"{path} cannot be locked or read ({error.strerror or error})."
            raise StorageError(found, "a file system with locks (flock)", "keep the stock on a local disk") from None
        except BaseException:
            os.close(fd)
            raise

    def append(self, claim: Claim) -> None:
        """Write a claim and return when it is on the disk. If that fails there is no claim, and nothing may be used."""
        position = claim.after(self.state.position, self._heading)
        line, check = _line(asdict(claim), self.state.check)
        data = line if self.state.whole else b"\n" + line
        do = "free some room there; nothing of the stock was used, what this run had claimed is burnt"
        with writing(self.path, do):
            os.ftruncate(self._fd, self.state.end)
            try:
                write_all(self._fd, data)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._fd, self.state.end)
                raise
            os.fsync(self._fd)
            sync(self.path.parent)
            kept = os.path.samestat(os.fstat(self._fd), self.path.stat())
        if not kept:
            raise _impossible(self.path, len(self.state.claims) + 2, ValueError("the file was replaced meanwhile"))
        self.state = LedgerState(position, (*self.state.claims, claim), self.state.end + len(data), check, whole=True)

    def close(self) -> None:
        """Releases the lock, as the end of the process does."""
        os.close(self._fd)


def _line(fields: dict[str, Any], before: str) -> tuple[bytes, str]:
    check = hashlib.blake2b(f"{before} {json.dumps(fields)}".encode(), digest_size=8).hexdigest()
    return json.dumps(fields | {"check": check}).encode() + b"\n", check


def _fields(line: bytes, before: str) -> tuple[dict[str, Any], str]:
    fields = parse_json(line)
    if not isinstance(fields, dict):
        raise TypeError("it is no JSON object")
    found = fields.pop("check")
    if _line(fields, before)[1] != found:
        raise ValueError("its check does not match: it was edited, or a line before it is missing")
    return fields, found


def _claim(fields: dict[str, Any]) -> Claim:
    first, last = _integers(fields["records"])
    items, burnt = _integers(fields["items"]), _integers(fields["burnt"])
    return Claim(str(fields["run"]), str(fields["time"]), (first, last), items, burnt)


def _integers(values: Iterable[Any]) -> tuple[int, ...]:
    integers = tuple(values)
    if not all(type(i) is int for i in integers):
        raise TypeError("a number is no integer")
    return integers


def _unreadable(path: Path, error: OSError) -> StockError:
    return StockError(
        f"{path} cannot be read ({error.strerror or error}).",
        "the ledger that was made with the stock",
        f"without it nobody knows what was used: remove {path.parent} at every party and make a new stock",
    )


def _impossible(path: Path, number: int, error: Exception) -> StockError:
    return StockError(
        f"line {number} of {path} is not what this stock's ledger can have there: {error}.",
        "the ledger as the claims left it",
        f"do not edit or restore a ledger: remove {path.parent} at every party and make a new stock",
    )
