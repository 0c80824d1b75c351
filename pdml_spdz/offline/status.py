"""What `pdml-spdz offline status` shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from pdml_spdz.errors import StockError
from pdml_spdz.offline.ledger import Claim, State
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.stock import Stock, parts

S = TypeVar("S", bound=Stock[Any, Any, Any])


@dataclass(frozen=True)
class StockPart(Generic[S]):
    """One party's part of one stock. bytes : on the disk; content, state : None if it cannot be used; problem : why"""

    name: str
    party: int
    path: Path
    bytes: int
    content: S | None = None
    state: State | None = None
    problem: str = ""

    @property
    def claims(self) -> tuple[Claim, ...]:
        return self.state.claims if self.state else ()


def look(content: Callable[[Path], S], root: Path) -> list[StockPart[S]]:
    """Every stock in `root`, whichever party's. Nothing is locked, made or removed."""
    return [_look(content, path) for path in parts(root, "*") if path.name.removeprefix("party-").isdigit()]


def _look(content: Callable[[Path], S], path: Path) -> StockPart[S]:
    name, party = path.parent.name.removeprefix("stock-"), int(path.name.removeprefix("party-"))
    part = StockPart[S](name, party, path, _bytes(path))
    try:
        found = content(path)
        return replace(part, content=found, state=found.state())
    except StockError as error:
        return replace(part, problem=str(error))


@dataclass(frozen=True)
class Taken:
    """A claim on numbers. burnt : scalars that another party had used"""

    run: str
    time: str
    triples: tuple[int, int]
    scalars: tuple[int, ...]
    burnt: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One party's part of one stock of the embedded engine.

    scalars_left : the sizes of those left; bytes : on the disk; problem : why it cannot be used, or empty
    """

    stock: str
    party: int
    path: Path
    bytes: int
    problem: str = ""
    kind: Kind | None = None
    created: str = ""
    triples_left: int = 0
    triples: int = 0
    scalars_left: tuple[int, ...] = ()
    scalars: int = 0
    claims: tuple[Taken, ...] = ()


def status(root: Path) -> list[Row]:
    """Every stock of the embedded engine in `root`: what it is, what is left, which runs claimed the rest."""
    return [_row(part) for part in look(NumberStock, root)]


def _row(part: StockPart[NumberStock]) -> Row:
    row = Row(part.name, part.party, part.path, part.bytes, part.problem)
    if part.content is None or part.state is None:
        return row
    m, used = part.content.manifest, part.state.position
    return replace(
        row,
        kind=m.kind,
        created=m.created,
        triples_left=m.records - used.record,
        triples=m.records,
        scalars_left=tuple(n for i, n in enumerate(m.items) if i not in used.items),
        scalars=len(m.items),
        claims=tuple(Taken(c.run, c.time, c.records, c.items, c.burnt) for c in part.claims),
    )


def _bytes(path: Path) -> int:
    total = 0
    for where, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # claimed at this moment
                total += Path(where, name).stat().st_size
    return total
