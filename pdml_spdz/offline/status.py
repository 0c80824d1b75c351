"""What `pdml-spdz offline status` shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pdml_spdz.errors import StockError
from pdml_spdz.offline.ledger import State
from pdml_spdz.offline.numbers import Kind, Numbers
from pdml_spdz.offline.stock import Stock, parts

S = TypeVar("S", bound=Stock[Any, Any, Any])


@dataclass(frozen=True)
class Part(Generic[S]):
    """One party's part of one stock. bytes : on the disk; found : None if it cannot be used; problem : then, why"""

    stock: str
    party: int
    path: Path
    bytes: int
    found: tuple[S, State] | None
    problem: str = ""


def look(content: Callable[[Path], S], root: Path) -> list[Part[S]]:
    """Every stock in `root`, whichever party's. Nothing is locked, made or removed."""
    found = []
    for path in parts(root, "*"):
        if not (party := path.name.removeprefix("party-")).isdigit():
            continue
        whole, problem = None, ""
        try:
            stock = content(path)
            whole = stock, stock.state()
        except StockError as error:
            problem = str(error)
        name = path.parent.name.removeprefix("stock-")
        found.append(Part(name, int(party), path, _bytes(path), whole, problem))
    return found


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
    return [_row(part) for part in look(Numbers, root)]


def _row(part: Part[Numbers]) -> Row:
    if part.found is None:
        return Row(part.stock, part.party, part.path, part.bytes, part.problem)
    m, state = part.found[0].manifest, part.found[1]
    return Row(
        part.stock,
        part.party,
        part.path,
        part.bytes,
        kind=m.kind,
        created=m.created,
        triples_left=m.records - state.position.record,
        triples=m.records,
        scalars_left=tuple(n for i, n in enumerate(m.items) if i not in state.position.items),
        scalars=len(m.items),
        claims=tuple(Taken(c.run, c.time, c.records, c.items, c.burnt) for c in state.claims),
    )


def _bytes(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with suppress(OSError):  # claimed at this moment
            total += file.stat().st_size if file.is_file() else 0
    return total
