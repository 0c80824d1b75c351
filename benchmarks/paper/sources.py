"""All that the pages are made of: the rows of every grid as they are in the repository, and how much there is."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.experiments import cells, official, pcr, pooled, search, starts, uplift
from benchmarks.experiments.cells import Cell, Count, Row
from benchmarks.paper import table_1
from benchmarks.privacy.__main__ import RESULTS as PRIVACY
from benchmarks.privacy.__main__ import SAME, all_grids, gathered
from benchmarks.privacy.text import table

RESULTS = Path(__file__).parent / "results"
EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "results"
TITLES = {
    "table_1": "Table 1: starts on documents",
    "starts_ratings": "the same on ratings",
    "topics": "Fig. 2 (a): topics",
    "recommender": "Fig. 2 (b): recommender",
    "nmf": "Table 2: KSDP of PD-NMF",
    "pcr": "Fig. 3: PCR, all k",
    "lra": "Fig. 3: low rank, all k",
    "noise": "Fig. 2 (c), 3: with DP, k = 7",
    "svd": "Fig. 4: KSDP of PD-SVD",
}


@dataclass(frozen=True)
class Sources:
    """errata : by name; rows : of each grid, with "grid": its size; counts : of each grid; seconds : CPU of a cell"""

    errata: dict[str, Any]
    rows: dict[str, list[Row]]
    counts: dict[str, Count]
    seconds: dict[str, float] = field(default_factory=dict)


def whole() -> dict[str, list[Cell]]:
    """The paper's grids, whatever data is here."""
    everywhere = official.EVERYWHERE
    privacy = all_grids(everywhere, "full")
    return {
        "table_1": pooled.cells(everywhere),
        "starts_ratings": starts.cells(everywhere, full=True)["starts_ratings"],
        **uplift.cells(everywhere, full=True),
        "pcr": pcr.cells(everywhere, full=True),
        "hyperband": search.cells(everywhere, full=True),
        **{name: privacy[name] for name in ("nmf", "svd", "levels", "noise", "ratings")},
    }


def read() -> Sources:
    rows, counts = {}, {}
    for name, grid in whole().items():
        if name in SAME:
            rows[name] = gathered(name, grid, PRIVACY / "full")
        else:
            rows[name] = [row | {"grid": "full"} for row in cells.known(grid, EXPERIMENTS / "full" / f"{name}.csv")]
        counts[name] = cells.counted(grid, rows[name], SAME.get(name, ()))
    errata = json.loads((RESULTS / "errata.json").read_text(encoding="utf-8"))
    with (RESULTS / "seconds.csv").open(newline="", encoding="utf-8") as file:
        seconds = {line["grid"]: float(line["cpu_seconds"]) for line in csv.DictReader(file)}
    return Sources(errata, rows, counts, seconds)


def count_table(found: Sources) -> list[str]:
    """How much of every table and figure there is, and what the rest would take."""
    lines = []
    for name, title in TITLES.items():
        count = found.counts[name]
        missing = count.cells - count.full
        if name == "table_1":
            spent, rest = table_1.hours(found.rows[name])
        else:
            spent, rest = (found.seconds[name] * n / 3600.0 for n in (count.full, missing))
        figures = [str(n) for n in (count.cells, count.full, count.reduced, count.rest)]
        lines.append([title, *figures, f"{(spent + rest) / 2:.1f}", f"{rest / 2:.1f}" if missing else "-"])
    head = ["in the paper", "cells", "full size", "reduced", "not computed", "hours on 2 cores, whole", "the rest"]
    return table(head, lines)
