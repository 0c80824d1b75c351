"""Benchmarks for people: lists as options, a bar with the time left, tables, and what was wanted and found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pdml_spdz.bench.results import Measurement, Step
from pdml_spdz.bench.tables import Grid, grids
from pdml_spdz.cli.options import Option

if TYPE_CHECKING:
    _Param = click.ParamType[Any]
else:  # older releases of click know no type arguments
    _Param = click.ParamType


class Numbers(_Param):
    """A list such as 100,1000,10^4."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(_number(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 100,1000,10^4", param, ctx)
        if min(found) < 1:
            self.fail(f"{value!r} has a number below 1", param, ctx)
        return found


def _number(text: str) -> int:
    base, power, exponent = text.partition("^")
    return int(int(base) ** int(exponent)) if power else int(base)


class Words(_Param):
    """A list of some of the choices."""

    name = "NAME,NAME,..."

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        found = value if isinstance(value, tuple) else tuple(str(value).split(","))
        for name in found:
            if self.choices and name not in self.choices:
                self.fail(f"{name!r} is none of {', '.join(self.choices)}", param, ctx)
        return found


def list_option(name: str, default: Any, text: str, kind: _Param | None = None) -> Option:
    shown = ",".join(str(v) for v in default)
    return click.option(name, type=kind or Numbers(), default=shown, show_default=True, help=text)


def console() -> Console:
    """Wide where nobody's terminal sets the width: tables in files are not folded at 80 columns."""
    found = Console()
    return found if found.is_terminal else Console(width=200)


def measured(console: Console, name: str, run: Callable[[Step], Measurement], json_file: Path | None) -> Measurement:
    """Run a benchmark under a progress bar, show and keep what it found."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[detail]}"))
    # Refreshed by hand: the parties are forked, and no other thread of this process may hold a lock then.
    clocks = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    with Progress(*columns, *clocks, console=console, auto_refresh=False) as progress:
        task = progress.add_task(name, total=None, detail="")

        def step(done: int, of: int, text: str) -> None:
            progress.update(task, completed=done, total=of, detail=text, refresh=True)

        result = run(step)
    for grid in grids(result):
        console.print(table(grid))
    for note in result.notes:
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)
    show_checks(console, [result])
    if json_file is not None:
        result.save(json_file)
        console.print(f"wrote {json_file}, {json_file.with_suffix('.csv')}", highlight=False, markup=False)
    return result


def table(grid: Grid) -> Table:
    shown = Table(title=escape(grid.title), title_justify="left", box=None, pad_edge=False)
    for i, name in enumerate(grid.header):
        shown.add_column(escape(name), justify="left" if i == 0 else "right", overflow="fold")
    for row in grid.rows:
        shown.add_row(*(escape(text) for text in row))
    return shown


def show_checks(console: Console, results: list[Measurement]) -> None:
    for check in (c for r in results for c in r.checks):
        colour = {"yes": "green", "NO": "red"}.get(check.verdict, "yellow")
        console.print(f"[{colour}]{check.verdict:6}[/{colour}] {escape(str(check))}", highlight=False)
