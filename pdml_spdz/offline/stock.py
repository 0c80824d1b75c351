"""A stock on the disk: one party's part of material that all parties made together, and what is left of it.

<root>/stock-<id>/party-<m>/manifest.json   what it is: readable by a person
                            ledger.jsonl    what was claimed (`ledger`)
                            ...             its content: records, used in their order, and items, each used whole

What records and items are is the affair of each kind of content: `numbers` of the embedded engine, and the
preprocessing of MP-SPDZ. Everything else is the same for both: `new_stock` makes a stock, `claim` claims from it.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pdml_spdz.errors import StockError
from pdml_spdz.offline import ledger as ledgers
from pdml_spdz.offline.ledger import Claim, Heading, Ledger, LedgerState, Position
from pdml_spdz.system.files import parse_json

FORMAT = 7  # 7: one manifest and one ledger for both kinds of content
MANIFEST = "manifest.json"
MAKE = "make one with `pdml-spdz offline make` at all parties, or run with `--offline on-demand`"


@dataclass(frozen=True)
class Description:
    """What a stock and a run must have in common. Anything else is a matter of how much is there."""

    M: int

    def serves(self, wanted: Any) -> bool:
        """Whether a stock of this description will do for a run that wants `wanted`."""
        return bool(self == wanted)


D = TypeVar("D", bound=Description)
P = TypeVar("P")  # the plan: how much a run wants
T = TypeVar("T")  # what a run is given


@dataclass(frozen=True)
class File:
    bytes: int
    digest: str = ""


@dataclass(frozen=True)
class Manifest(Generic[D]):
    """
    records : how many
    items : the size of each
    """

    stock: str
    party: int
    kind: D
    records: int
    items: tuple[int, ...]
    created: str
    files: dict[str, File]

    @cached_property
    def heading(self) -> Heading:
        return Heading(self.stock, self.party, self.records, len(self.items))

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self), "bytes": self.bytes}, indent=1) + "\n"


@dataclass(frozen=True)
class Choice:
    """A part of a stock for a plan: a range of records, and items in the plan's order."""

    records: tuple[int, int]
    items: tuple[int, ...]


class Stock(ABC, Generic[D, P, T]):
    """One party's part of a stock."""

    description: ClassVar[type[Any]]

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            content = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
            version = content.get("format", "0, of before all stocks had one")
            if version == FORMAT:
                self.manifest = self._manifest(content)
                self.check_manifest()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.error(f"its {MANIFEST} cannot be used ({error!r})") from None
        if version != FORMAT:
            raise self.error(f"it has format {version}", f"format {FORMAT}, which this version makes and reads")
        m = self.manifest
        if (path.parent.name, path.name) != (f"stock-{m.stock}", f"party-{m.party}"):
            raise self.error(f"it is stock {m.stock} of party {m.party}", "the directory that it was made in")

    def _manifest(self, content: dict[str, Any]) -> Manifest[D]:
        kind, items = self.description(**content["kind"]), tuple(int(n) for n in content["items"])
        files = {str(name): File(int(f["bytes"]), str(f["digest"])) for name, f in content["files"].items()}
        stock, party, records = str(content["stock"]), int(content["party"]), int(content["records"])
        return Manifest(stock, party, kind, records, items, str(content["created"]), files)

    @classmethod
    def find(cls, root: Path, kind: D, me: int) -> list[Self]:
        """Party me's stocks in `root` that serve a run of this kind.

        A damaged one is an error, not skipped: it would be taken for one that was never made. (So it is when the
        ledger is read, before a claim.)
        """
        return [stock for stock in map(cls, parts(root, me)) if stock.manifest.kind.serves(kind)]

    @cached_property
    def id(self) -> str:
        return self.manifest.stock

    @property
    def ledger_path(self) -> Path:
        return self.path / ledgers.FILE

    def state(self) -> LedgerState:
        """What the ledger says now; StockError if it is damaged or a file that should still be there is not."""
        state = ledgers.read(self.ledger_path, self.manifest.heading)
        while True:
            try:
                self.check(state.position)
            except StockError:
                later = ledgers.read(self.ledger_path, self.manifest.heading)
                if later == state:
                    raise
                state = later  # claimed meanwhile by another run
            else:
                return state

    @contextmanager
    def locked(self) -> Iterator[Ledger | None]:
        """The ledger, for this run alone; None if another run has it."""
        ledger = Ledger.lock(self.ledger_path, self.manifest.heading)
        try:
            yield ledger
        finally:
            if ledger:
                ledger.close()

    @classmethod
    def tidy(cls, root: Path, me: int) -> None:
        """Take off the disk what killed runs have claimed of party me's stocks in `root` and left there, whatever these
        were made for, and also where too little is left to claim again. A damaged one is an error to whoever uses it.
        """
        for path in parts(root, me):
            with suppress(StockError):
                cls(path).scrub_left()

    def scrub_left(self) -> LedgerState:
        """Every claim begins by scrubbing the one before it, so only the last can have left something. A stock that
        another run has locked is that run's to scrub.
        """
        state = self.state()
        if state.claims:
            with self.locked() as ledger:
                if ledger:
                    self.scrub_last(ledger)
        return state

    def scrub_last(self, ledger: Ledger) -> None:
        state = ledger.state
        if state.claims:
            self.scrub(state.before_last, state.position.record, state.claims[-1].spent)

    def error(self, found: str, wanted: str = "the files as `pdml-spdz offline make` wrote them") -> StockError:
        do = f"remove {self.path} (the other parties' parts are of no use without it) and make a new stock"
        return StockError(f"{self.path}: {found}.", wanted, do)

    # ---- what each kind of content knows

    @abstractmethod
    def check_manifest(self) -> None:
        """ValueError if the files of the manifest are not those of its counts."""

    @abstractmethod
    def check(self, used: Position) -> None:
        """StockError if something is not there that is not used: its names and sizes; `read` looks into it."""

    @abstractmethod
    def choose(self, used: Position, plan: P) -> Choice | None:
        """What a plan takes if `used` is used up; None if there is not enough."""

    @abstractmethod
    def lacks(self, used: Position, plan: P) -> str:
        """What is missing for a plan, in words; empty if it fits."""

    @abstractmethod
    def read(self, choice: Choice) -> T:
        """What a run is about to claim, checked. StockError if it is damaged."""

    @abstractmethod
    def scrub(self, first: int, last: int, items: tuple[int, ...]) -> None:
        """Take what was used off the disk, as far as the disk allows: records `first` to before `last`, whole items.

        May be called again. Nothing depends on it: the ledger is what forbids reuse. What a file system has copied
        elsewhere stays there.
        """


def directory(root: Path, stock: str, party: int) -> Path:
    return root / f"stock-{stock}" / f"party-{party}"


def parts(root: Path, me: int | str) -> list[Path]:
    """Where party me's stocks are; "*" for every party's."""
    return sorted(root.glob(f"stock-*/party-{me}"))


S = TypeVar("S", bound=Stock[Any, Any, Any])


@dataclass(frozen=True)
class StockPart(Generic[S]):
    """One party's part of one stock. bytes : on the disk; content, state : None if it cannot be used; problem : why"""

    name: str
    party: int
    path: Path
    bytes: int
    content: S | None = None
    state: LedgerState | None = None
    problem: str = ""

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.state.claims if self.state else ()


def look(content: Callable[[Path], S], root: Path) -> list[StockPart[S]]:
    """Every stock in `root`, whichever party's. Nothing is locked, made or removed."""
    return [_look(content, path) for path in parts(root, "*") if path.name.removeprefix("party-").isdigit()]


def _look(content: Callable[[Path], S], path: Path) -> StockPart[S]:
    name, party = path.parent.name.removeprefix("stock-"), int(path.name.removeprefix("party-"))
    part = StockPart[S](name, party, path, sum(file_sizes(path).values()))
    try:
        found = content(path)
        return replace(part, content=found, state=found.state())
    except StockError as error:
        return replace(part, problem=str(error))


def file_sizes(path: Path) -> dict[str, int]:
    """By name below `path`. What another run claims and moves away at this moment is not there, and no error."""
    sizes = {}
    for where, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                file = Path(where, name)
                sizes[file.relative_to(path).as_posix()] = file.stat().st_size
    return sizes
