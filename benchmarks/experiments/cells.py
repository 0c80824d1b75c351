"""Cells of an experiment: computed once, kept as CSV lines, in parallel processes."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import track

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One setting of an experiment, and how to compute its rows. settings : what names it, in the order of columns"""

    settings: dict[str, Any]
    compute: Callable[..., list[Row]]
    arguments: tuple[Any, ...]

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(v) for v in self.settings.values())


@dataclass(frozen=True)
class Count:
    """Cells of a grid. full : at its size; reduced : smaller ones in the place of others; cells : all"""

    full: int
    reduced: int
    cells: int

    @property
    def rest(self) -> int:
        return self.cells - self.full - self.reduced

    @property
    def text(self) -> str:
        more = f", {self.reduced} reduced" if self.reduced else ""
        return f"{self.full} of {self.cells} cells{more}"


def counted(grid: Sequence[Cell], rows: Sequence[Row], same: Sequence[str] = ()) -> Count:
    """rows : each with the size of its grid, "grid"; same : what names a cell whatever its size"""
    names = list(grid[0].settings)
    full = {tuple(row[n] for n in names) for row in rows if row["grid"] == "full"}
    smaller = {tuple(row[n] for n in same) for row in rows if row["grid"] != "full"}
    left = [cell for cell in grid if cell.key not in full]
    reduced = sum(tuple(str(cell.settings[n]) for n in same) in smaller for cell in left)
    return Count(len(grid) - len(left), reduced, len(grid))


def run(cells: Sequence[Cell], file: Path, jobs: int) -> list[Row]:
    """The rows of all cells; those that `file` has already are not computed again."""
    names = list(cells[0].settings)
    _mend(file, names)
    done = read(file)
    if done and list(done[0])[: len(names)] != names:
        sys.exit(f"{file} has other columns ({', '.join(done[0])}); move it away, or pass another --out")
    have = {tuple(row[n] for n in names) for row in done}
    left = [cell for cell in cells if cell.key not in have]
    file.parent.mkdir(parents=True, exist_ok=True)
    if left:
        with ProcessPoolExecutor(jobs) as pool:
            futures = {pool.submit(_compute, cell): cell for cell in left}
            for future in track(as_completed(futures), f"{file.stem:12}", total=len(left)):
                _append(file, future.result())
    return known(cells, file)


def known(cells: Sequence[Cell], file: Path) -> list[Row]:
    """The rows of those cells that `file` has, in the order of the cells: in a file it is that of their computation."""
    names = list(cells[0].settings)
    order: dict[tuple[Any, ...], int] = {cell.key: i for i, cell in enumerate(cells)}

    def place(row: Row) -> int:
        return order.get(tuple(row.get(n) for n in names), -1)

    return sorted((row for row in read(file) if place(row) >= 0), key=place)


def _compute(cell: Cell) -> list[Row]:
    return [cell.settings | row for row in cell.compute(*cell.arguments)]


def _append(file: Path, rows: Iterable[Row]) -> None:
    rows = list(rows)
    new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        if new:
            writer.writeheader()
        writer.writerows(rows)
        target.flush()
        os.fsync(target.fileno())


def _mend(file: Path, names: list[str]) -> None:
    """A run that was stopped while it wrote leaves a torn line: the cell that it belongs to is forgotten."""
    if not file.exists() or file.read_bytes().endswith(b"\n"):
        return
    rows = read(file)
    kept = [row for row in rows if any(row[n] != rows[-1][n] for n in names)]
    file.unlink()
    if kept:
        _append(file, kept)


def read(file: Path) -> list[Row]:
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as source:
        return [dict(row) for row in csv.DictReader(source) if None not in row and None not in row.values()]
