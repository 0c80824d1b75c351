"""The tables of docs/mp-spdz.md that have one NormedSecSum on MP-SPDZ, from the rows that are kept.

python -m benchmarks.performance.mp_spdz_page     # writes them into the page
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.performance.mp_spdz import KEPT
from pdml_spdz.bench.results import Cell, Measurement, load

PAGE = Path(__file__).parents[2] / "docs" / "mp-spdz.md"
COLUMNS = ("rounds", "online MB", "offline MB")
ROWS = [(name, "projection") for name in ("semi", "hemi", "mascot")] + [("semi", "paper")]
PARTIES, DIMS = (2, 3, 4, 5), (100, 1000)


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


def placed(page: str, kept: Measurement) -> str:
    """The page with its tables as they are now: each is found by its head."""
    lines = page.splitlines()
    for d in DIMS:
        begin = lines.index(head(d))
        end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("|"))
        lines[begin:end] = table(kept, d)
    return "\n".join(lines) + "\n"


def main() -> None:
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), load(KEPT)), encoding="utf-8")


if __name__ == "__main__":
    main()
