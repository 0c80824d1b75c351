"""The rows of MP-SPDZ in the table of timings, measured a piece at a time and kept in the repository.

    pdml-spdz bench normed-sum --engine mp-spdz --protocol semi --parties 2 --repeats 3 --limit 300 \\
        --json benchmarks/performance/results/mp-spdz.json

A call measures what the file has not (--force: again); docs/performance.md has these rows where its own measurement has
none, or has scaled what is measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pdml_spdz.bench import normed_sum
from pdml_spdz.bench.normed_sum import PROTOCOLS
from pdml_spdz.bench.results import Cell, Measurement, load
from pdml_spdz.bench.tables import row_name

KEPT = Path(__file__).parent / "results" / "mp-spdz.json"
ENGINE, PAPER = "mp-spdz", "paper"
MISSING, SCALED, MEASURED = range(3)  # how well a cell is known


def with_rows(result: Measurement, more: Measurement) -> Measurement:
    """`result`, with the cells of `more` that are better known or that it has not; the notes of both."""
    longest: dict[frozenset[tuple[str, str | int]], int] = {}  # d that was measured, by row
    for cell in (*result.cells, *more.cells):
        if _known(cell)[0] == MEASURED:
            longest[_row(cell)] = max(longest.get(_row(cell), 0), int(cell.key["d"]))
    own, kept = ([_unless_outdone(cell, longest.get(_row(cell), 0)) for cell in m.cells] for m in (result, more))
    theirs = {cell.identity: cell for cell in kept}
    cells = [_better(cell, theirs.pop(cell.identity, cell)) for cell in own]
    notes = list(dict.fromkeys([*result.notes, *more.notes]))
    return replace(result, cells=_sorted([*cells, *theirs.values()]), notes=notes)


def _row(cell: Cell) -> frozenset[tuple[str, str | int]]:
    return frozenset((name, value) for name, value in cell.key.items() if name != "d")


def _unless_outdone(cell: Cell, longest: int) -> Cell:
    """What was scaled from less than has been measured by now would stand beside it and contradict it."""
    if 0 < cell.scaled_from < longest:
        return Cell(cell.key, missing=f"not run: scaled from {cell.scaled_from:,} only, where {longest:,} was measured")
    return cell


def _better(own: Cell, kept: Cell) -> Cell:
    """Measured before scaled, by as little as possible, before missing; one's own before another; why a cell is
    missing, the kept one says.
    """
    return own if _known(own) >= max(_known(kept), (SCALED, 0)) else kept


def _known(cell: Cell) -> tuple[int, int]:
    """How well; of what was scaled, from what d."""
    return (MISSING if cell.missing else SCALED if cell.scaled_from else MEASURED), cell.scaled_from


def with_kept(result: Measurement) -> Measurement:
    """A table of timings with the rows that are kept, and what was promised of all of them."""
    if not KEPT.is_file():
        return result
    kept = load(KEPT)
    whole = with_rows(result, kept)
    checks = normed_sum.checks(whole, int(result.settings["k"]))
    return replace(whole, checks=checks, notes=[*whole.notes, whence(whole, kept)])


def whence(whole: Measurement, kept: Measurement) -> str:
    """Which cells of a table are kept ones, and of which MP-SPDZ."""
    theirs = {id(cell) for cell in kept.cells}
    rows: dict[str, list[Cell]] = {}
    for cell in whole.cells:
        if cell.values and cell.key["engine"] == ENGINE:
            rows.setdefault(row_name(cell), []).append(cell)
    found = [_words(name, cells, [c for c in cells if id(c) in theirs]) for name, cells in rows.items()]
    return (
        f"{ENGINE}, kept: MP-SPDZ {kept.origin['mp_spdz']}, measured a piece at a time, the last one "
        f"{kept.origin['time'][:10]}. Of the rows above: {'; '.join(text for text in found if text) or 'none'}."
    )


def _words(name: str, cells: Sequence[Cell], kept: Sequence[Cell]) -> str:
    """The name of a row, and its cells if only some of them are kept; nothing if none is."""
    if len(kept) in (0, len(cells)):
        return name.removeprefix(f"{ENGINE}, ") if kept else ""
    dims = sorted({int(c.key["d"]) for c in kept})
    parties = {d: ", ".join(str(c.key["M"]) for c in kept if c.key["d"] == d) for d in dims}
    places = " and ".join(f"d = {d:,} with M = {M}" for d, M in parties.items())
    return f"{name.removeprefix(f'{ENGINE}, ')} at {places}"


def _sorted(cells: Sequence[Cell]) -> list[Cell]:
    """By the number of parties; and, of the rows of MP-SPDZ, in the order of their protocols, then by length, the
    paper's program last, wherever they come from.
    """
    order = {name: i for i, name in enumerate(PROTOCOLS)}

    def place(c: Cell) -> tuple[int, int, int, bool, str]:
        protocol = order.get(str(c.key["protocol"]), -1)
        if protocol < 0:
            return int(c.key["M"]), protocol, 0, False, ""
        return int(c.key["M"]), protocol, int(c.key["d"]), c.key["program"] == PAPER, str(c.key["where"])

    return sorted(cells, key=place)
