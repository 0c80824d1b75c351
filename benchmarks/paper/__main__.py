"""python -m benchmarks.paper [--data DIR]: errata and Table 1 computed, docs/paper.md and docs/claims.md made of them.

Figures are kept in the repository; what is there is not computed again (--again NAME ... does), and a run that was
stopped goes on. The other grids: `python -m benchmarks.experiments --full`, `python -m benchmarks.privacy --full`.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from benchmarks.experiments import cells, pooled
from benchmarks.paper import page, sources, workflow
from benchmarks.paper.errata import ERRATA
from benchmarks.paper.sources import EXPERIMENTS, RESULTS
from benchmarks.paper.theorems import THEOREMS

DOCS = Path(__file__).parent.parent.parent / "docs"
FIGURES = ERRATA | THEOREMS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PDML_DATA", "data")))
    parser.add_argument("--again", nargs="*", default=[], help="figures to compute again")
    parser.add_argument("--table-1", action="store_true", help="compute what is missing of Table 1: hours")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    compute(given.data, given.again)
    if given.table_1:
        cells.run(pooled.cells(given.data), EXPERIMENTS / "full" / "table_1.csv", given.jobs)
    found = sources.read()
    pages = {"paper.md": page.paper(found), "claims.md": page.claims_page(found), "workflow.svg": workflow.svg()}
    for name, text in pages.items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(DOCS / name)


def compute(data: Path, again: list[str]) -> None:
    """All figures that are not in the file yet."""
    file = RESULTS / "errata.json"
    figures = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name, kind in FIGURES.items():
        if name not in figures or name in again:
            figures[name] = kind.compute(*([data] if kind.needs_data else []))
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
