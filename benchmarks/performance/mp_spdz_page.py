"""The tables of docs/mp-spdz.md: what one NormedSecSum takes, and what is missing of that; what whole fits take by
protocol. From the rows that are kept.

python -m benchmarks.performance.mp_spdz_page     # writes them into the page

Those of whole fits are the CSV files of `benchmarks.bench_protocols`, whose name says how they were made.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from benchmarks.performance.mp_spdz import KEPT
from pdml_spdz.bench.results import Cell, Measurement, load

PAGE = Path(__file__).parents[2] / "docs" / "mp-spdz.md"
COLUMNS = ("rounds", "online MB", "offline MB")
ROWS = [(name, "projection") for name in ("semi", "hemi", "mascot")] + [("semi", "paper")]
PARTIES, DIMS = (2, 3, 4, 5), (100, 1000)
SMALL = KEPT.with_name("protocols-rank-2-power-5.csv")  # --rank 2 --power 5 --repeats 1
KRYLOV = KEPT.with_name("protocols-krylov.csv")  # --rank 2,7 --protocol semi,hemi --repeats 1
WHICH = "| PD-SVD of the digits by krylov, M = 3 (`make svd` has rank 7) | semi | hemi |"


def head(d: int) -> str:
    return (
        f"| d = {d:,} | M | cold: rounds | online MB | offline MB | in a fit, a column: rounds | online MB "
        "| offline MB | CPU, cold | CPU, a column |"
    )


def table(kept: Measurement, d: int) -> Iterator[str]:
    """The lines; a cell that was not measured is empty."""
    yield head(d)
    yield f"|{' --- |' * 10}"
    for protocol, program in ROWS:
        for M in PARTIES:
            asked: dict[str, str | int] = {"protocol": protocol, "program": program, "M": M, "d": d, "bits": 31}
            cells = [_measured(kept.find(where=where, **asked)) for where in ("cold", "fit")]
            counts = [_count(cell, name) for cell in cells for name in COLUMNS]
            title = f"{protocol}, the paper's program" if program == "paper" else protocol
            if any(cells):
                yield f"| {' | '.join([title, str(M), *counts, *map(_seconds, cells)])} |"


def _measured(cell: Cell | None) -> Cell | None:
    return None if cell is None or cell.scaled_from else cell


def _count(cell: Cell | None, name: str) -> str:
    if cell is None:
        return ""
    value = cell.values[name].median
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(cell: Cell | None) -> str:
    if cell is None:
        return ""
    value = cell.values["cpu s"].median
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


MISSING = "Cells of the whole grid that were not measured: "


def missing(kept: Measurement) -> str:
    """A line that names every cell without a measurement of its own."""
    found = [cell for cell in kept.cells if cell.scaled_from or cell.missing]
    if not found:
        return f"{MISSING}none."

    def what(cell: Cell) -> tuple[str, str, int]:
        program = "the paper's program" if cell.key["program"] == "paper" else str(cell.key["protocol"])
        return program, str(cell.key["where"]), int(cell.key["d"])

    texts = []
    for (program, where, d), cells in groupby(sorted(found, key=lambda c: (*what(c), int(c.key["M"]))), what):
        parties = [f"{c.key['M']}{f' (scaled from {c.scaled_from:,})' if c.scaled_from else ''}" for c in cells]
        texts.append(f"{program}, {where}, at d = {d:,} for M = {', '.join(parties)}")
    return f"{MISSING}{'; '.join(texts)}."


def fits(file: Path) -> dict[tuple[str, str], dict[str, str]]:
    """By protocol and rank."""
    with file.open(newline="", encoding="utf-8") as source:
        return {(row["protocol"], row["rank"]): row for row in csv.DictReader(source)}


def with_small_fit(line: str, found: dict[tuple[str, str], dict[str, str]]) -> str:
    """A line of the table of protocols, whose last cell is what a small fit takes."""
    *cells, _ = line.strip("| ").split(" | ")
    row = found.get((cells[0].strip("`"), "2"))
    if row is None or row["error"]:
        return f"| {' | '.join(cells)} | not measured |"
    MB = float(row["online MB"]) + float(row["offline MB"])
    return f"| {' | '.join(cells)} | {MB:,.0f} MB, {float(row['cpu s']):.1f} s, {float(row['seconds']):.0f} s |"


def which(found: dict[tuple[str, str], dict[str, str]]) -> Iterator[str]:
    """What semi and hemi take, the first for little material, the second for much."""
    yield WHICH
    yield "| --- | --- | --- |"
    for rank in ("2", "7"):
        shown = [
            f"{float(found[name, rank]['offline MB']):.1f} / {float(found[name, rank]['online MB']):.1f}"
            for name in ("semi", "hemi")
        ]
        yield f"| rank {rank}: megabytes that a party sends, offline / online | {' | '.join(shown)} |"
    seconds = [f"{float(found[name, '7']['cpu s']):.2f}" for name in ("semi", "hemi")]
    yield f"| rank 7: processor seconds of a party's virtual machine | {' | '.join(seconds)} |"


def placed(page: str, kept: Measurement) -> str:
    """The page with its tables as they are now, each found by its head, and the line of what is missing."""
    lines = [missing(kept) if line.startswith(MISSING) else line for line in page.splitlines()]
    for d in DIMS:
        _put(lines, head(d), list(table(kept, d)))
    _put(lines, WHICH, list(which(fits(KRYLOV))))
    small, begin = fits(SMALL), next(i for i, line in enumerate(lines) if line.startswith("| protocol | parties |"))
    for i in range(begin + 2, _end(lines, begin)):
        lines[i] = with_small_fit(lines[i], small)
    return "\n".join(lines) + "\n"


def _put(lines: list[str], title: str, new: list[str]) -> None:
    begin = lines.index(title)
    lines[begin : _end(lines, begin)] = new


def _end(lines: list[str], begin: int) -> int:
    return next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))


def main() -> None:
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), load(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main()
