"""python -m benchmarks.experiments [--data DIR] [--full] [--only NAME]: run what there is data for."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.experiments import cells, datasets, page, starts, uplift


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experiments", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("PDML_DATA", "data")), help="[PDML_DATA or data/]"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/experiments"))
    parser.add_argument("--full", action="store_true", help="the paper's grid instead of a small one")
    parser.add_argument("--only", nargs="*", help="pcr, lra, topics, recommender, starts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    absent = datasets.missing(given.data)
    for text in absent:
        print(text, file=sys.stderr)
    grids = uplift.cells(given.data, full=given.full) | {"starts": starts.cells(given.data, full=given.full)}
    grids = {name: grid for name, grid in grids.items() if grid and (not given.only or name in given.only)}
    if not grids:
        sys.exit(f"nothing to run: no data set is in {given.data}; pass --data DIR or set PDML_DATA")
    out = given.out / ("full" if given.full else "small")
    results = {name: cells.run(grid, out / f"{name}.csv", given.jobs) for name, grid in grids.items()}
    print(page.write(results, absent, out, full=given.full))


if __name__ == "__main__":
    main()
