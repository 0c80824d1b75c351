"""python -m benchmarks.paper [--data DIR] [--write]: errata computed, Table 1 computed, docs/paper.md made of them.

Figures are kept in benchmarks/paper/results; what is there is not computed again (--again NAME ... does).
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.experiments import cells, starts
from benchmarks.paper import page, workflow
from benchmarks.paper.errata import ERRATA

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent.parent / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PDML_DATA", "data")))
    parser.add_argument("--again", nargs="*", default=[], help="errata to compute again")
    parser.add_argument("--table-1", action="store_true", help="compute what is missing of Table 1, a small size")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    figures = errata(given.data, given.again)
    file = RESULTS / "starts.csv"
    if given.table_1:
        cells.run(table_1_cells(given.data), file, given.jobs)
    text = page.text(figures, cells.read(file))
    (DOCS / "paper.md").write_text(text, encoding="utf-8")
    (DOCS / "workflow.svg").write_text(workflow.svg(), encoding="utf-8")
    print(DOCS / "paper.md")


def errata(data: Path, again: list[str]) -> dict[str, Any]:
    """All figures, those computed before from the file."""
    file = RESULTS / "errata.json"
    figures = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    for name, kind in ERRATA.items():
        if name not in figures or name in again:
            figures[name] = kind.compute(*([data] if kind.needs_data else []))
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return figures


def table_1_cells(data: Path) -> list[cells.Cell]:
    """Of the small grid three parties with a tenth of the documents each."""
    return [cell for cell in starts.cells(data, full=False).get("starts", []) if cell.settings["M"] == 3]


if __name__ == "__main__":
    main()
