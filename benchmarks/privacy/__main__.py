"""python -m benchmarks.privacy [--data DIR] [--full] [--only NAME]: goes on where it stopped."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.experiments import cells
from benchmarks.experiments.cells import Cell, Row
from benchmarks.privacy import measure, noise, only_topics, page, ratings, recorded, sealed_runs, shows
from benchmarks.privacy.claims import OTHER_DRAW

RESULTS = Path(__file__).parent / "results"
COUNTED = ("nmf", "svd", "levels", "sealed", "noise", "ratings")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy", description=__doc__)
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("PDML_DATA", "data")), help="[PDML_DATA or data/]"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept [benchmarks/privacy/results]")
    parser.add_argument("--page", type=Path, help="where the page goes [OUT/small/README.md]")
    parser.add_argument(
        "--full", action="store_true", help="the paper's grid; small cells stand in for those not there"
    )
    parser.add_argument("--reduced", action="store_true", help="the paper's grid with fewer records and samples")
    parser.add_argument("--only", nargs="*", help="nmf, svd, levels, sealed, shows, only_topics, noise, ..")
    parser.add_argument("--so-far", action="store_true", help="compute nothing: a page of what is there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    size = "full" if given.full else "reduced" if given.reduced else "small"
    grids = {n: grid for n, grid in all_grids(given.data, size).items() if not given.only or n in given.only}
    if not grids:
        sys.exit(f"nothing to run: no data set is in {given.data}; pass --data DIR or set PDML_DATA")
    out = given.out / size
    for name, grid in grids.items() if not given.so_far else ():
        # Each recorded run is M processes already, or threads.
        cells.run(grid, out / f"{name}.csv", 1 if name in ("attacks", "sealed-runs") else given.jobs)
    results = {name: gathered(name, grid, out) for name, grid in grids.items()}
    results |= {OTHER_DRAW: cells.read(given.out / "other_draw.csv")} if given.full else {}
    missing = [text for name, grid in grids.items() for text in absent(name, grid, results[name])]
    where = given.page or out / "README.md"
    where.parent.mkdir(parents=True, exist_ok=True)
    counts = [counted(name, grids[name], results[name]) for name in COUNTED if given.full and name in grids]
    print(page.write(results, where, missing, counts, full=given.full))


def all_grids(directory: Path, size: str) -> dict[str, list[Cell]]:
    """Those that there is data for."""
    grids = measure.cells(directory, size=size)
    grids |= {"shows": shows.cells(directory), "noise": noise.cells(directory, full=size != "small")}
    grids |= {"sealed-runs": sealed_runs.cells(directory), "only_topics": only_topics.cells(directory)}
    grids |= {"ratings": ratings.cells(directory), "attacks": recorded.cells(directory)}
    return {name: grid for name, grid in grids.items() if grid}


def gathered(name: str, grid: list[Cell], out: Path) -> list[Row]:
    """The rows of a grid that are there; for cells of the paper's size that are not, smaller ones."""
    file = out / f"{name}.csv"
    results = [row | {"grid": out.name} for row in cells.known(grid, file)]
    for smaller in ("reduced", "small") if out.name == "full" else ():
        rows = cells.read(out.parent / smaller / file.name)
        results = mixed(name, results, [row | {"grid": smaller} for row in rows])
    return results


# What names a cell whatever its size; of the baselines a whole curve.
SAME = {
    "nmf": ("data", "k", "party_share", "start"),
    "svd": ("data", "party_share"),
    "levels": ("data", "party_share"),
    "sealed": ("data", "party_share"),
    "sealed-runs": ("data", "size", "seed"),
    "shows": ("data", "solver"),
    "only_topics": ("data", "k", "party_share"),
    "noise": ("experiment", "data"),
    "ratings": ("data", "k", "party_share"),
    "attacks": ("case", "engine", "algorithm"),
}


def mixed(name: str, paper: list[Row], small: list[Row]) -> list[Row]:
    """The paper's cells, and small ones where there is none of the paper's size yet."""
    have = {tuple(row[n] for n in SAME[name]) for row in paper}
    return paper + [row for row in small if tuple(row[n] for n in SAME[name]) not in have]


def counted(name: str, grid: list[Cell], rows: list[Row]) -> str:
    """How many cells of the grid are of the paper's size, reduced, or not there."""
    count = cells.counted(grid, rows, SAME[name])
    return (
        f"{name.upper()}: of {count.cells} cells {count.full} are of the paper's size, {count.reduced} reduced, "
        f"{count.rest} not computed."
    )


def absent(name: str, grid: list[Cell], rows: list[Row]) -> list[str]:
    """Cells of the grid that were not run, or only in the small one; those that differ by party size in one line."""
    names = list(grid[0].settings)
    have = {tuple(row[n] for n in names) for row in rows}
    smaller = {tuple(row[n] for n in SAME[name]): row["grid"] for row in rows if row["grid"] != "full"}
    found: dict[str, list[str]] = {}
    for cell in grid:
        if cell.key not in have:
            instead = smaller.get(tuple(str(cell.settings[n]) for n in SAME[name]))
            rest = ", ".join(f"{n} {v}" for n, v in cell.settings.items() if v != "" and n != "party_share")
            size = f"{100 * cell.settings['party_share']:g} %" if "party_share" in cell.settings else "all"
            found.setdefault(f"{name}: {rest}", []).append(f"{size} ({instead} above)" if instead else size)
    return [f"{text}: {', '.join(sizes)}" for text, sizes in found.items()]


if __name__ == "__main__":
    main()
