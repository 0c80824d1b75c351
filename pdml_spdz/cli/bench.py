"""pdml-spdz bench: what things cost on this machine. Lists as options, a bar with the time left, tables, and what was
wanted and found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pdml_spdz.bench import fits, normed_sum, parts
from pdml_spdz.bench.results import Measurement, Step, load
from pdml_spdz.bench.tables import Grid, compare, grids, number, unit_of
from pdml_spdz.cli import sections
from pdml_spdz.cli.options import Option, options
from pdml_spdz.cli.show import Screen

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
    shown = ",".join(str(v) for v in default) or None
    return click.option(name, type=kind or Numbers(), default=shown, show_default=True, help=text)


def console() -> Console:
    """Wide where nobody's terminal sets the width: tables in files are not folded at 80 columns."""
    found = Screen()
    return found if found.is_terminal else Screen(width=200)


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
    if normed_sum.STOPPED in result.notes:
        raise click.Abort
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


_positive = click.IntRange(1)


@sections.group()
def bench() -> None:
    """What things cost on this machine, with where every number comes from.

    \b
    Examples:
      pdml-spdz bench normed-sum --parties 2,3 --dims 100,1000 --engine embedded --json table.json
      pdml-spdz bench svd --parties 3 --dim 1000 --rows 3000
      pdml-spdz bench compare before.json after.json

    `make bench` in a checkout measures everything, beside other frameworks and over slow networks, and draws it.
    """


def _measuring(run: Callable[..., Measurement]) -> Callable[..., None]:
    """A command with --repeats and --json, of a function that is told whom to tell how far it is."""
    name = run.__name__.strip("_").replace("_", "-")

    @functools.wraps(run)
    def command(json_file: Path | None, **given: Any) -> None:
        def told(step: Step) -> Measurement:
            return run(step, **given)

        measured(console(), name, told, json_file)

    repeats = click.option("--repeats", type=_positive, default=5, show_default=True)
    text = "Write the result here, and FILE.csv."
    json_file = click.option("--json", "json_file", type=click.Path(path_type=Path), help=text)
    return repeats(json_file(command))


@bench.command("normed-sum")
@list_option("--parties", (2, 3, 4, 5), "Numbers of parties.")
@list_option("--dims", (100, 1000, 10000), "Lengths of vectors; 10^4 is understood.")
@list_option(
    "--engine", normed_sum.ENGINES, "Engines; one that is missing says how to get it.", Words(normed_sum.ENGINES)
)
@list_option("--protocol", normed_sum.PROTOCOLS, "Protocols of MP-SPDZ.", Words())
@list_option("--program", ("projection", "paper"), "Ways to compute it on MP-SPDZ.", Words(("projection", "paper")))
@list_option("--where", ("cold", "fit"), "Alone, or one of k columns of a fit.", Words(("cold", "fit")))
@list_option("--bits", (31,), "Fraction bits of the output.")
@click.option("--rank", "-k", type=_positive, default=7, show_default=True, help="Columns in a fit.")
@click.option("--limit", type=float, default=30.0, show_default=True, metavar="S", help="Leave out longer cells.")
@click.option("--repeats", type=_positive, default=5, show_default=True)
@click.option("--force", is_flag=True, help="Measure again what the file has.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path),
    default=Path("runs/normed-sum.json"),
    show_default=True,
    help="Keep every cell here as it comes, and FILE.csv; go on from what it has.",
)
def normed_sum_(file: Path, force: bool, **given: Any) -> None:
    """The paper's table: one NormedSecSum, by parties, length and engine, beside the paper's own figures.

    Every cell is kept as it comes: the same command goes on after Ctrl-C, or measures what failed once more.

    \b
    Example:
      pdml-spdz bench normed-sum --parties 3 --dims 100,1000 --engine embedded --json table.json
    """
    names = {"engine": "engines", "protocol": "protocols", "program": "programs", "rank": "k"}
    settings = {names.get(n, n): v for n, v in given.items() if v is not None}
    measure_table(console(), normed_sum.TableRequest(**settings), file, force=force)


def measure_table(
    screen: Console,
    request: normed_sum.TableRequest,
    file: Path,
    peers: Sequence[normed_sum.Framework] = (),
    *,
    force: bool = False,
) -> Measurement:
    """The paper's table, kept in `file` cell by cell; what that has already is not measured again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    known = normed_sum.kept(file, request) if file.is_file() else []
    if force:
        known = [cell for cell in known if cell.identity not in normed_sum.asked(request, peers)]
    seconds = normed_sum.to_do(request, known, peers)
    text = f"{len(seconds)} cells to measure, about {sum(seconds) / 60:,.1f} min on two cores; each is kept in {file}"
    screen.print(text, highlight=False, markup=False)

    def run(step: Step) -> Measurement:
        return normed_sum.measure(request, step, peers, known, lambda result: result.save(file))

    return measured(screen, "normed-sum", run, file)


def _fit_options(*engines: str) -> Callable[[Any], Any]:
    size = functools.partial(click.option, show_default=True)
    others = {"parties": "parties", "rows": "rows", "dim": "features", "rank": "columns or topics"}
    return options(
        [
            size("--parties", "-M", type=click.IntRange(2, 30), default=3),
            size("--rows", "-n", type=click.IntRange(2), default=3000, help="Number of rows of all parties."),
            size("--dim", "-d", type=_positive, default=1000),
            size("--rank", "-k", type=_positive, default=7),
            size("--iterations", type=click.IntRange(2), default=10),
            list_option("--engine", engines, "Engines.", Words(engines)),
            *(
                click.option(
                    f"--grow-{name}", type=Numbers(), help=f"Also with these numbers of {what}, all else the same."
                )
                for name, what in others.items()
            ),
            _measuring,
        ]
    )


def _fit(algorithm: str, step: Step, given: dict[str, Any]) -> Measurement:
    size = fits.FitSize(given["rows"], given["dim"], given["rank"], given["parties"])
    names = {"n": "rows", "d": "dim", "k": "rank", "M": "parties"}
    growth = tuple((n, given[f"grow_{word}"]) for n, word in names.items() if given[f"grow_{word}"])
    request = fits.FitRequest(algorithm, given["engine"], size, growth, given["iterations"], given["repeats"])
    return fits.measure(request, step)


@bench.command()
@_fit_options("plain", "secsum", "embedded")
def svd(step: Step, **given: Any) -> Measurement:
    """PD-SVD: time of an iteration by kind, bytes, memory; growth; beside plain and beside sending all rows.

    \b
    Example:
      pdml-spdz bench svd --dim 1000 --grow-dim 250,500,2000 --grow-parties 2,4
    """
    return _fit("svd", step, given)


@bench.command()
@_fit_options("plain", "secsum")
def nmf(step: Step, **given: Any) -> Measurement:
    """PD-NMF: the same; and bytes for each topic, of which the paper says 0.32 MB (d = 10^4, M = 5).

    \b
    Example:
      pdml-spdz bench nmf --parties 5 --dim 10000 --rows 2000
    """
    return _fit("nmf", step, given)


@bench.command("sec-sum")
@list_option("--parties", (2, 3, 5), "Numbers of parties.")
@list_option("--dims", (1000, 10000, 100000), "Lengths of vectors.")
@_measuring
def sec_sum(step: Step, parties: tuple[int, ...], dims: tuple[int, ...], repeats: int) -> Measurement:
    """SecSum against sending the vectors as they are: time, and bytes on the wire.

    \b
    Example:
      pdml-spdz bench sec-sum --parties 3 --dims 10^4 --repeats 100
    """
    return parts.sec_sum(parties, dims, repeats, step)


@bench.command()
@list_option("--parties", (2, 3), "Numbers of parties.")
@list_option("--dims", (1000, 10000, 100000), "Numbers to be multiplied.")
@click.option("--bits", type=int, default=31, show_default=True, help="Fraction bits of the output.")
@_measuring
def offline(step: Step, parties: tuple[int, ...], dims: tuple[int, ...], bits: int, repeats: int) -> Measurement:
    """The offline phase of the embedded engine: base OTs, triples, VOLE.

    \b
    Example:
      pdml-spdz bench offline --parties 3 --dims 10^4,10^5
    """
    return parts.offline(parties, dims, bits, repeats, step)


@bench.command()
@list_option("--rows", (1000, 10000), "Rows of a party.")
@list_option("--dims", (1000, 10000), "Features.")
@click.option("--rank", "-k", type=_positive, default=7, show_default=True)
@_measuring
def local(step: Step, rows: tuple[int, ...], dims: tuple[int, ...], rank: int, repeats: int) -> Measurement:
    """What a party computes by itself: covariance, S V, QR, a sweep of topics; dense and sparse rows.

    \b
    Example:
      pdml-spdz bench local --rows 10^4 --dims 1000 --rank 20
    """
    return parts.local([(n, d) for n in rows for d in dims], rank, repeats, step)


@bench.command("compare")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--all", "everything", is_flag=True, help="Also what is the same within noise.")
def compare_(before: Path, after: Path, everything: bool) -> None:
    """Ratios of two results of one benchmark, AFTER over BEFORE; those within the noise of either are left out.

    \b
    Example:
      pdml-spdz bench compare before.json after.json
    """
    out = console()
    a, b = load(before), load(after)
    changes, notes = compare(a, b)
    rows = []
    for c in changes:
        if everything or c.verdict != "same":
            ends = [number(v, unit_of(c.value)) for v in (c.a, c.b)]
            bounds = f"{c.ratio.median:.3g} ({c.ratio.low:.3g} .. {c.ratio.high:.3g})"
            rows.append([c.cell, c.value, *ends, bounds, c.verdict])
    commits = [r.origin.get("commit") or "an installed package" for r in (a, b)]
    header = ["cell", "value", commits[0], commits[1], "ratio (at least .. at most)", ""]
    out.print(table(Grid(f"{a.benchmark}: {commits[1]} over {commits[0]}", header, rows)))
    same = sum(c.verdict == "same" for c in changes)
    out.print(f"{same} of {len(changes)} values are the same within the quartiles of both runs", highlight=False)
    for note in notes:
        out.print(f"[yellow]note:[/yellow] {escape(note)}", highlight=False)
