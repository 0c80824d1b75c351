"""What `pdml-spdz offline status` shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pdml_spdz.offline.ledger import Claim
from pdml_spdz.offline.mask_stock import FOLDER, MaskKind, MaskStock
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.stock import StockPart, look


@dataclass(frozen=True)
class Taken:
    """A claim on numbers. burnt : scalars that another party had used"""

    run: str
    time: str
    triples: tuple[int, int]
    scalars: tuple[int, ...]
    burnt: tuple[int, ...]


@dataclass(frozen=True)
class PartRow:
    """One party's part of one stock of the embedded engine.

    bytes : on the disk
    problem : why it cannot be used, or empty
    """

    stock: str
    party: int
    path: Path
    bytes: int
    problem: str = ""
    created: str = ""


@dataclass(frozen=True)
class Row(PartRow):
    """Of numbers.

    scalars_left : the sizes of those left
    """

    kind: Kind | None = None
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


@dataclass(frozen=True)
class MaskRow(PartRow):
    """Of a sealed fit's masks.

    left, fits : how many fits it is still good for, and was
    """

    kind: MaskKind | None = None
    left: int = 0
    fits: int = 0
    claims: tuple[Claim, ...] = ()


def mask_status(root: Path) -> list[MaskRow]:
    return [_mask_row(part) for part in look(MaskStock, root / FOLDER)]


def _mask_row(part: StockPart[MaskStock]) -> MaskRow:
    row = MaskRow(part.name, part.party, part.path, part.bytes, part.problem)
    if part.content is None or part.state is None:
        return row
    m = part.content.manifest
    left = len(m.items) - len(part.state.position.items)
    return replace(row, kind=m.kind, created=m.created, left=left, fits=len(m.items), claims=part.claims)
