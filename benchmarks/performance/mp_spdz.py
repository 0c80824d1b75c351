"""The rows of MP-SPDZ in the table of timings, measured a piece at a time and kept in the repository.

    python -m benchmarks.performance.mp_spdz semi:2 hemi:3 mascot:2 paper:4 [--dims 100,1000] [--paper-dims 100]

A piece is a protocol (or the paper's program, on semi) and a number of parties: minutes each on an idle machine. What
is measured again takes the place of what was there; docs/performance.md has these rows where its own measurement has
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from pdml_spdz.bench import normed_sum
from pdml_spdz.bench.normed_sum import PROTOCOLS, TableRequest
from pdml_spdz.bench.results import Cell, Measurement, load
from pdml_spdz.cli.bench import Numbers, Words, console, measured

KEPT = Path(__file__).parent / "results" / "mp-spdz.json"
PAPER = "paper"


def request_of(
    piece: str, dims: tuple[int, ...], where: tuple[str, ...], limit: float, paper_dims: tuple[int, ...], repeats: int
) -> TableRequest:
    name, _, parties = piece.partition(":")
    if name not in (*PROTOCOLS, PAPER) or not parties.isdecimal():
        raise click.BadParameter(f"{piece!r} is not a piece such as semi:2 or paper:3")
    program, protocol = (PAPER, "semi") if name == PAPER else ("projection", name)
    return TableRequest(
        (int(parties),),
        dims,
        ("mp-spdz",),
        (protocol,),
        (program,),
        where,
        repeats=repeats,
        limit=limit,
        paper_dims=paper_dims,
    )


def with_rows(result: Measurement, more: Measurement) -> Measurement:
    """`result`, and the cells of `more` that it has not measured itself; the notes of both."""
    own = [cell for cell in result.cells if not cell.missing]
    known = {cell.identity for cell in own}
    further = [cell for cell in more.cells if cell.identity not in known]
    known |= {cell.identity for cell in further}
    absent = [cell for cell in result.cells if cell.identity not in known]
    notes = list(dict.fromkeys([*result.notes, *more.notes]))
    return replace(result, cells=_sorted([*own, *absent, *further]), notes=notes)


def with_kept(result: Measurement) -> Measurement:
    """A table of timings with the rows that are kept, and what was promised of all of them."""
    if not KEPT.is_file():
        return result
    kept = load(KEPT)
    whole = with_rows(result, kept)
    text = f"mp-spdz: MP-SPDZ {kept.origin['mp_spdz']}, measured a piece at a time, {kept.origin['time'][:10]}."
    return replace(whole, checks=normed_sum.checks(whole, int(result.settings["k"])), notes=[*whole.notes, text])


def _sorted(cells: Sequence[Cell]) -> list[Cell]:
    """By the number of parties; and, of the rows of MP-SPDZ, in the order of their protocols, then by length."""
    order = {name: i for i, name in enumerate(PROTOCOLS)}

    def place(c: Cell) -> tuple[int, int, int]:
        protocol = order.get(str(c.key["protocol"]), -1)
        return int(c.key["M"]), protocol, int(c.key["d"]) if protocol >= 0 else 0

    return sorted(cells, key=place)


@click.command()
@click.argument("pieces", nargs=-1, required=True)
@click.option("--dims", type=Numbers(), default="100,1000,10000", show_default=True)
@click.option("--where", type=Words(("cold", "fit")), default="cold,fit", show_default=True)
@click.option(
    "--limit",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds of a cell; longer ones are scaled (inf: none is).",
)
@click.option("--paper-dims", type=Numbers(), default="100", show_default=True, help="Measured, however long it takes.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=KEPT)
def main(
    pieces: tuple[str, ...],
    dims: tuple[int, ...],
    where: tuple[str, ...],
    limit: float,
    paper_dims: tuple[int, ...],
    repeats: int,
    out: Path,
) -> None:
    """Measure PIECES, and keep them."""
    for request in [request_of(piece, dims, where, limit, paper_dims, repeats) for piece in pieces]:
        found = measured(console(), "mp-spdz", partial(normed_sum.measure, request), None)
        whole = with_rows(found, load(out)) if out.is_file() else found
        replace(whole, checks=[], settings={}).save(out)  # every piece had its own


if __name__ == "__main__":
    main()
