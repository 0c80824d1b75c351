"""All that the pages are made of: the rows of every grid as they are in the repository, and how much there is."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.experiments import cells, official, pcr, pooled, search, starts, uplift
from benchmarks.experiments.cells import Cell, Count, Row
from benchmarks.paper import table_1
from benchmarks.privacy.__main__ import RESULTS as PRIVACY
from benchmarks.privacy.__main__ import SAME, all_grids, gathered
from benchmarks.privacy.claims import OTHER_DRAW
from benchmarks.privacy.text import table

RESULTS = Path(__file__).parent / "results"
EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "results"
TITLES = {
    "table_1": "Table 1: starts on documents",
    "starts_ratings": "the same on ratings",
    "topics": "Fig. 4 (a): topics",
    "recommender": "Fig. 4 (b): recommender",
    "ratings": "the same, each side tuned, k = 7",
    "by_parties": "§5.1: topics, recommender by M, k = 7",
    "nmf": "Table 2: KSDP of PD-NMF",
    "nmf_starts": "§5.1: the same of mail from other starts",
    "pcr": "Fig. 5: PCR, all k",
    "lra": "Fig. 5: low rank, all k",
    "noise": "Fig. 4 (c), 5: with DP, k = 7",
    "svd": "Fig. 6: KSDP of PD-SVD",
}


@dataclass(frozen=True)
class Sources:
    """errata : by name; rows : of each grid, with "grid": its size; counts : of each grid; seconds : CPU of a cell

    grids : the cells of each
    """

    errata: dict[str, Any]
    rows: dict[str, list[Row]]
    counts: dict[str, Count]
    seconds: dict[str, float] = field(default_factory=dict)
    grids: dict[str, list[Cell]] = field(default_factory=dict)

    def count(self, name: str, wanted: Callable[[dict[str, Any]], bool]) -> Count:
        """Of those cells of a grid whose settings are wanted."""
        return _counted(name, [cell for cell in self.grids[name] if wanted(cell.settings)], self.rows[name])


def whole() -> dict[str, list[Cell]]:
    """The paper's grids, whatever data is here."""
    everywhere = official.EVERYWHERE
    privacy = all_grids(everywhere, "full")
    return {
        "table_1": pooled.cells(everywhere),
        "starts_ratings": starts.cells(everywhere, full=True)["starts_ratings"],
        **uplift.cells(everywhere, full=True),
        "pcr": [cell for cell in pcr.cells(everywhere, full=True) if cell.settings["data"] != "Blogs"],  # not its own
        "hyperband": search.cells(everywhere, full=True),
        "nmf": [cell for cell in privacy["nmf"] if cell.settings["start"] == "random"],  # from which the paper starts
        "nmf_starts": [cell for cell in privacy["nmf"] if cell.settings["start"] != "random"],
        **{name: privacy[name] for name in ("svd", "levels", "shows", "noise", "ratings")},
    }


FILES = {"nmf_starts": "nmf"}  # where cells are kept under another name


def _counted(name: str, grid: list[Cell], rows: list[Row]) -> Count:
    return cells.counted(grid, rows, SAME.get(FILES.get(name, name), ()))


def read() -> Sources:
    rows, counts, grids = {}, {}, whole()
    for name, grid in grids.items():
        kept = FILES.get(name, name)
        if kept in SAME:
            rows[name] = gathered(kept, grid, PRIVACY / "full")
        else:
            rows[name] = [row | {"grid": "full"} for row in cells.known(grid, EXPERIMENTS / "full" / f"{kept}.csv")]
        counts[name] = _counted(name, grid, rows[name])
    rows[OTHER_DRAW] = cells.read(PRIVACY / "other_draw.csv")
    errata = json.loads((RESULTS / "errata.json").read_text(encoding="utf-8"))
    with (RESULTS / "seconds.csv").open(newline="", encoding="utf-8") as file:
        seconds = {line["grid"]: float(line["cpu_seconds"]) for line in csv.DictReader(file)}
    return Sources(errata, rows, counts, seconds, grids)


def count_table(found: Sources) -> list[str]:
    """How much of every table and figure there is, and what the rest would take."""
    lines = []
    for name, title in TITLES.items():
        count = found.counts[name]
        missing = count.cells - count.full
        if name == "table_1":
            spent, rest = table_1.hours(found.rows[name])
        elif name == "starts_ratings" and found.rows[name]:
            spent, rest = _hours_of_ratings(found)
        else:
            spent, rest = (found.seconds[name] * n / 3600.0 for n in (count.full, missing))
        figures = [str(n) for n in (count.cells, count.full, count.reduced, count.rest)]
        lines.append([title, *figures, _duration((spent + rest) / 2), _duration(rest / 2) if missing else "-"])
    head = ["in the paper", "cells", "full size", "reduced", "not computed", "time on 2 cores, whole", "the rest"]
    return table(head, lines)


def _hours_of_ratings(found: Sources) -> tuple[float, float]:
    """CPU hours of the cells that are there, and of the rest: as many seconds for each unit as the largest ten took."""

    def units(settings: Row) -> float:
        return int(settings["M"]) * float(settings["party_share"]) * int(settings["k"])

    rows, grid = found.rows["starts_ratings"], found.grids["starts_ratings"]
    names = list(grid[0].settings)
    spent = {tuple(row[n] for n in names): (float(row["cpu_seconds"]), units(row)) for row in rows}
    largest = sorted(spent.values(), key=lambda cell: cell[1])[-10:]
    each = sum(seconds for seconds, _ in largest) / sum(size for _, size in largest)
    rest = sum(units(cell.settings) for cell in grid if cell.key not in spent)
    return sum(seconds for seconds, _ in spent.values()) / 3600.0, each * rest / 3600.0


def _duration(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{max(1.0, 60 * hours):.0f} min"
