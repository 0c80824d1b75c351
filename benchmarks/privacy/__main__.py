"""python -m benchmarks.privacy [--data DIR] [--full] [--only NAME]: goes on where it stopped."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.experiments import cells
from benchmarks.privacy import measure, noise, page, recorded


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("PDML_DATA", "data")), help="[PDML_DATA or data/]"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/privacy"))
    parser.add_argument("--page", type=Path, help="where the page goes [OUT/small/README.md]")
    parser.add_argument("--full", action="store_true", help="the paper's grid instead of a small one")
    parser.add_argument("--only", nargs="*", help="nmf, svd, noise, attacks")
    parser.add_argument("--so-far", action="store_true", help="compute nothing: a page of what is there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    grids = measure.cells(given.data, full=given.full)
    grids |= {"noise": noise.cells(given.data, full=given.full), "attacks": recorded.cells(given.data)}
    grids = {name: grid for name, grid in grids.items() if grid and (not given.only or name in given.only)}
    if not grids:
        sys.exit(f"nothing to run: no data set is in {given.data}; pass --data DIR or set PDML_DATA")
    out = given.out / ("full" if given.full else "small")
    results, missing = {}, []
    for name, grid in grids.items():
        file = out / f"{name}.csv"
        if not given.so_far:
            # Each recorded run is M processes already.
            cells.run(grid, file, 1 if name == "attacks" else given.jobs)
        rows = cells.read(file)
        have = {tuple(row[n] for n in grid[0].settings) for row in rows}
        missing += [f"{name}: {', '.join(cell.key)}" for cell in grid if cell.key not in have]
        results[name] = [row for row in rows if tuple(row[n] for n in grid[0].settings) in {c.key for c in grid}]
    where = given.page or out / "README.md"
    where.parent.mkdir(parents=True, exist_ok=True)
    print(page.write(results, where, missing, full=given.full))


if __name__ == "__main__":
    main()
