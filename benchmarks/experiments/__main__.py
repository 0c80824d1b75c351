"""The paper's experiments: run those that there is data for, and make tables, figures and a page of them.

Cells that a run has computed are kept as CSV lines in --out, those of the paper's grid in the repository; the same
command goes on from there. Table 1 is made by `python -m benchmarks.paper`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.experiments import cells, official, page, pcr, search, starts, uplift
from benchmarks.experiments.cells import Cell, Row

RESULTS = Path(__file__).parent / "results"
NAMES = ("pcr", "lra", "topics", "recommender", "by_parties", "hyperband", "starts", "starts_ratings")


def collected(
    grids: dict[str, list[Cell]], out: Path, jobs: int, *, run: bool
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of all grids, computed or as they are; and how much of each there is."""
    results: dict[str, list[Row]] = {}
    counts = []
    for name, grid in grids.items():
        file = out / f"{name}.csv"
        rows = cells.run(grid, file, jobs) if run else cells.known(grid, file)
        done = len({tuple(row[n] for n in grid[0].settings) for row in rows})
        counts.append(f"{name}: {done} of {len(grid)} cells")
        results |= {name: rows} if rows else {}
    return results, counts


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    home = Path(os.environ.get("PDML_DATA", "data"))
    parser.add_argument("--data", type=Path, default=home, help="where the data sets are [PDML_DATA or data/]")
    parser.add_argument("--out", type=Path, default=RESULTS, help="of CSV files [benchmarks/experiments/results]")
    parser.add_argument("--page", type=Path, default=Path("runs/experiments"), help="of the page [runs/experiments]")
    parser.add_argument(
        "--full", action="store_true", help="the paper's grid, which takes hours, instead of a small one"
    )
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes [all cores]")
    parser.add_argument("--no-run", action="store_true", help="only the page, of what has been computed")
    parser.add_argument("--docs", action="store_true", help="also write docs/experiments.md and its figures")
    given = parser.parse_args(arguments)
    absent = official.missing(given.data)
    for text in absent:
        print(text, file=sys.stderr)
    grids = {
        "pcr": pcr.cells(given.data, full=given.full),
        **uplift.cells(given.data, full=given.full),
        "hyperband": search.cells(given.data, full=given.full),
        **starts.cells(given.data, full=given.full),
    }
    grids = {name: grids[name] for name in given.only if grids.get(name)}
    if not grids:
        sys.exit(f"nothing to run: no data set that is wanted is in {given.data}; pass --data DIR or set PDML_DATA")
    size = "full" if given.full else "small"
    results, counts = collected(grids, given.out / size, given.jobs, run=not given.no_run)
    if not results:
        sys.exit(f"nothing has been computed yet in {given.out / size}; run without --no-run")
    found = page.Results(results, page.described(given.data), absent, given.full, counts)
    place = given.page / size
    print(page.write(found, place / "README.md", place))
    if given.docs:
        docs = Path(__file__).parents[2] / "docs"
        print(page.write(found, docs / "experiments.md", docs / "experiments"))


if __name__ == "__main__":
    main()
