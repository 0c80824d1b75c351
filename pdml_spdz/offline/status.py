"""What `pdml-spdz offline status` shows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pdml_spdz.errors import StockError
from pdml_spdz.offline.ledger import Claim
from pdml_spdz.offline.stock import Kind, Stock


@dataclass(frozen=True)
class Row:
    """One party's part of one stock.

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
    claims: tuple[Claim, ...] = ()


def status(root: Path) -> list[Row]:
    """Every stock in `root`, whichever party's: what it is, what is left, which runs claimed the rest."""
    paths = sorted(path for path in root.glob("stock-*/party-*") if path.name.removeprefix("party-").isdigit())
    return [_row(path) for path in paths]


def _row(path: Path) -> Row:
    stock, party = path.parent.name.removeprefix("stock-"), int(path.name.removeprefix("party-"))
    try:
        found = Stock(path)
        m, state = found.manifest, found.state()
    except StockError as error:
        return Row(stock, party, path, _bytes(path), problem=str(error))
    return Row(
        stock,
        party,
        path,
        _bytes(path),
        kind=m.kind,
        created=m.created,
        triples_left=m.triples - state.position.triple,
        triples=m.triples,
        scalars_left=tuple(n for i, n in enumerate(m.vectors) if i not in state.position.scalars),
        scalars=len(m.vectors),
        claims=state.claims,
    )


def _bytes(path: Path) -> int:
    total = 0
    for file in path.glob("*"):
        with suppress(OSError):  # claimed at this moment
            total += file.stat().st_size
    return total
