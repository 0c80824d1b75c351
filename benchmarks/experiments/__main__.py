"""The paper's experiments: run those that there is data for, and make tables, figures and a page of them.

Cells that a run has computed are kept as CSV lines in --out; the same command goes on from there.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.experiments import cells, official, page, pcr, search, starts, uplift
from benchmarks.experiments.cells import Cell, Row

NAMES = ("pcr", "lra", "topics", "recommender", "hyperband", "starts", "starts_ratings")


def collected(
    grids: dict[str, list[Cell]], out: Path, jobs: int, *, run: bool
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows of all grids, computed or as they are; and what is left of each."""
    results: dict[str, list[Row]] = {}
    left = []
    for name, grid in grids.items():
        file = out / f"{name}.csv"
        rows = cells.run(grid, file, jobs) if run else cells.known(grid, file)
        done = len({tuple(row[n] for n in grid[0].settings) for row in rows})
        left += [f"{len(grid) - done} of {len(grid)} cells of {name}"] * (done < len(grid))
        results |= {name: rows} if rows else {}
    return results, left


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    home = Path(os.environ.get("PDML_DATA", "data"))
    parser.add_argument("--data", type=Path, default=home, help="where the data sets are [PDML_DATA or data/]")
    parser.add_argument("--out", type=Path, default=Path("runs/experiments"), help="[runs/experiments]")
    parser.add_argument(
        "--full", action="store_true", help="the paper's grid, which takes days, instead of a small one"
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
    out = given.out / ("full" if given.full else "small")
    results, left = collected(grids, out, given.jobs, run=not given.no_run)
    if not results:
        sys.exit(f"nothing has been computed yet in {out}; run without --no-run")
    found = page.Results(results, page.described(given.data), absent + left, given.full)
    print(page.write(found, out / "README.md", out))
    if given.docs:
        docs = Path(__file__).parents[2] / "docs"
        print(page.write(found, docs / "experiments.md", docs / "experiments"))


if __name__ == "__main__":
    main()
