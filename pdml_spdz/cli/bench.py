"""pdml-spdz bench: what things cost on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pdml_spdz.bench import compare as comparison
from pdml_spdz.bench import fits, normed_sum, page, parts, precision, scenarios
from pdml_spdz.bench.network import NETWORKS
from pdml_spdz.bench.plot import require
from pdml_spdz.bench.results import load
from pdml_spdz.bench.suite import suite
from pdml_spdz.bench.tables import Grid, number, unit_of
from pdml_spdz.cli.bench_show import Numbers, Words, console, list_option, measured, show_checks, table
from pdml_spdz.cli.options import Option, options
from pdml_spdz.cli.words import echo
from pdml_spdz.programs.precision import OUT_BITS

RESULTS = Path("benchmarks/results")


_OUTPUT: list[Option] = [
    click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the result here, and FILE.csv."),
    click.option("--plot", "figure", type=click.Path(path_type=Path), help="Draw it here: FILE.png and FILE.svg."),
]
_repeats: Option = click.option("--repeats", type=click.IntRange(1), default=5, show_default=True)


@click.group()
def bench() -> None:
    """What things cost on this machine, with where every number comes from.

    \b
    Examples:
      pdml-spdz bench normed-sum --parties 2,3 --dims 100,1000 --engine embedded --json table.json
      pdml-spdz bench svd --parties 3 --dim 1000 --rows 3000
      pdml-spdz bench compare before.json after.json
      pdml-spdz bench all --out benchmarks/results         everything: a quarter of an hour
    """


@bench.command("normed-sum")
@list_option("--parties", (2, 3, 4, 5), "Numbers of parties.")
@list_option("--dims", (100, 1000, 10000), "Lengths of vectors; 10^4 is understood.")
@list_option(
    "--engine", normed_sum.ENGINES, "Engines; those that are missing say how to get them.", Words(normed_sum.ENGINES)
)
@list_option("--protocol", ("semi",), "Protocols of MP-SPDZ.", Words())
@list_option("--program", ("projection", "paper"), "Ways to compute it on MP-SPDZ.", Words(("projection", "paper")))
@list_option("--where", ("cold", "fit"), "Alone, or one of k columns of a fit.", Words(("cold", "fit")))
@list_option("--bits", (31,), "Fraction bits of the output.")
@list_option("--outside", (3,), "Numbers of parties for which engines other than embedded are measured.")
@click.option("--rank", "-k", type=click.IntRange(1), default=7, show_default=True, help="Columns in a fit.")
@_repeats
@click.option("--limit", type=float, default=30.0, show_default=True, metavar="S", help="Longer cells are scaled.")
@options(_OUTPUT)
def normed_sum_(json_file: Path | None, figure: Path | None, **given: Any) -> None:
    """The paper's table: one NormedSecSum, by parties, length and engine, beside the paper's own figures.

    \b
    Example:
      pdml-spdz bench normed-sum --parties 3 --dims 100,1000 --engine embedded,mpyc --json table.json --plot table
    """
    names = {"engine": "engines", "protocol": "protocols", "program": "programs", "rank": "k"}
    request = normed_sum.Request(**{names.get(n, n): v for n, v in given.items()})
    measured(console(), "normed-sum", lambda step: normed_sum.measure(request, step), json_file, figure)


def _fit_options(algorithm: str) -> Callable[[Any], Any]:
    engines = ("plain", "secsum", "embedded") if algorithm == "svd" else ("plain", "secsum")
    return options(
        [
            click.option("--parties", "-M", type=click.IntRange(2, 30), default=3, show_default=True),
            click.option(
                "--rows",
                "-n",
                type=click.IntRange(2),
                default=3000,
                show_default=True,
                help="Number of rows of all parties.",
            ),
            click.option("--dim", "-d", type=click.IntRange(1), default=1000, show_default=True),
            click.option("--rank", "-k", type=click.IntRange(1), default=7, show_default=True),
            click.option("--iterations", type=click.IntRange(2), default=10, show_default=True),
            list_option("--engine", engines, "Engines.", Words(engines)),
            click.option(
                "--grow-parties", type=Numbers(), help="Also with these numbers of parties, all else the same."
            ),
            click.option("--grow-rows", type=Numbers(), help="Also with these numbers of rows."),
            click.option("--grow-dim", type=Numbers(), help="Also with these numbers of features."),
            click.option("--grow-rank", type=Numbers(), help="Also with these numbers of columns or topics."),
            _repeats,
            *_OUTPUT,
        ]
    )


def _fit(algorithm: str, given: dict[str, Any]) -> None:
    size = fits.Size(given["rows"], given["dim"], given["rank"], given["parties"])
    names = {"n": "rows", "d": "dim", "k": "rank", "M": "parties"}
    growth = tuple((n, given[f"grow_{word}"]) for n, word in names.items() if given[f"grow_{word}"])
    request = fits.Request(algorithm, given["engine"], size, growth, given["iterations"], given["repeats"])
    measured(console(), algorithm, lambda step: fits.measure(request, step), given["json_file"], given["figure"])


@bench.command()
@_fit_options("svd")
def svd(**given: Any) -> None:
    """PD-SVD: time of an iteration by kind, bytes, memory; growth; beside plain and beside sending all rows.

    \b
    Example:
      pdml-spdz bench svd --dim 1000 --grow-dim 250,500,2000 --grow-parties 2,4
    """
    _fit("svd", given)


@bench.command()
@_fit_options("nmf")
def nmf(**given: Any) -> None:
    """PD-NMF: the same; and bytes for each topic, of which the paper says 0.32 MB (d = 10^4, M = 5).

    \b
    Example:
      pdml-spdz bench nmf --parties 5 --dim 10000 --rows 2000
    """
    _fit("nmf", given)


@bench.command("sec-sum")
@list_option("--parties", (2, 3, 5), "Numbers of parties.")
@list_option("--dims", (1000, 10000, 100000), "Lengths of vectors.")
@_repeats
@options(_OUTPUT)
def sec_sum(
    parties: tuple[int, ...], dims: tuple[int, ...], repeats: int, json_file: Path | None, figure: Path | None
) -> None:
    """SecSum against sending the vectors as they are: time, and bytes on the wire.

    \b
    Example:
      pdml-spdz bench sec-sum --parties 3 --dims 10^4 --repeats 100
    """
    measured(console(), "sec-sum", lambda step: parts.sec_sum(parties, dims, repeats, step), json_file, figure)


@bench.command()
@list_option("--parties", (2, 3), "Numbers of parties.")
@list_option("--dims", (1000, 10000, 100000), "Numbers to be multiplied.")
@click.option("--bits", type=int, default=31, show_default=True, help="Fraction bits of the output.")
@_repeats
@options(_OUTPUT)
def offline(
    parties: tuple[int, ...],
    dims: tuple[int, ...],
    bits: int,
    repeats: int,
    json_file: Path | None,
    figure: Path | None,
) -> None:
    """The offline phase of the embedded engine: base OTs, triples, VOLE.

    \b
    Example:
      pdml-spdz bench offline --parties 3 --dims 10^4,10^5
    """
    measured(console(), "offline", lambda step: parts.offline(parties, dims, bits, repeats, step), json_file, figure)


@bench.command()
@list_option("--rows", (1000, 10000), "Rows of a party.")
@list_option("--dims", (1000, 10000), "Features.")
@click.option("--rank", "-k", type=click.IntRange(1), default=7, show_default=True)
@_repeats
@options(_OUTPUT)
def local(
    rows: tuple[int, ...], dims: tuple[int, ...], rank: int, repeats: int, json_file: Path | None, figure: Path | None
) -> None:
    """What a party computes by itself: covariance, S V, QR, a sweep of topics; dense and sparse rows.

    \b
    Example:
      pdml-spdz bench local --rows 10^4 --dims 1000 --rank 20
    """
    sizes = [(n, d) for n in rows for d in dims]
    measured(console(), "local", lambda step: parts.local(sizes, rank, repeats, step), json_file, figure)


@bench.command("scenarios")
@list_option("--scenario", tuple(scenarios.SCENARIOS), "Scenarios of the paper.", Words(tuple(scenarios.SCENARIOS)))
@list_option("--network", tuple(NETWORKS), "Latency and bandwidth between the parties.", Words(tuple(NETWORKS)))
@options(_OUTPUT)
def scenarios_(
    scenario: tuple[str, ...], network: tuple[str, ...], json_file: Path | None, figure: Path | None
) -> None:
    """The paper's PCR and LRA: forecast for several networks, each forecast checked by a real run.

    \b
    Example:
      pdml-spdz bench scenarios --scenario pcr --network loopback,20ms
    """
    chosen, lines = [scenarios.SCENARIOS[s] for s in scenario], [NETWORKS[n] for n in network]
    measured(console(), "scenarios", lambda step: scenarios.measure(chosen, lines, step), json_file, figure)


@bench.command("precision")
@list_option("--dims", (10, 30, 100), "Lengths of vectors.")
@list_option("--bits", OUT_BITS, "Fraction bits.")
@list_option("--conditions", (10, 100, 1000), "Condition numbers of the rows: largest over k-th singular value.")
@options(_OUTPUT)
def precision_(
    dims: tuple[int, ...],
    bits: tuple[int, ...],
    conditions: tuple[int, ...],
    json_file: Path | None,
    figure: Path | None,
) -> None:
    """How far 10, 20 and 31 bits are from exact arithmetic, ours and the paper's.

    \b
    Example:
      pdml-spdz bench precision --dims 100 --plot precision
    """
    measured(console(), "precision", lambda step: precision.measure(dims, conditions, bits, step), json_file, figure)


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
    changes, notes = comparison.compare(a, b)
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


@bench.command("page")
@click.argument("directory", type=click.Path(path_type=Path), default=RESULTS)
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/performance.md"), show_default=True)
def page_(directory: Path, out: Path) -> None:
    """Write the tables and figures of the results in DIRECTORY as one page.

    \b
    Example:
      pdml-spdz bench page benchmarks/results --out docs/performance.md
    """
    for file in page.write(directory, out):
        echo(f"wrote {file}")


@bench.command("all")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, show_default=True, help="For the results.")
@click.option("--full", is_flag=True, help="All sizes, protocols and networks, more repetitions: hours.")
@click.option("--only", type=Words(tuple(p.name for p in suite(full=False))), help="Some of them.")
@click.option("--page", "page_file", type=click.Path(path_type=Path), help="Write a page from the results.")
def all_(out: Path, full: bool, only: tuple[str, ...] | None, page_file: Path | None) -> None:
    """Everything, one after the other; at the end what was promised and what was found.

    \b
    Examples:
      pdml-spdz bench all --only normed-sum,end-to-end
      pdml-spdz bench all --page docs/performance.md
    """
    screen, results = console(), []
    require()  # that figures can be drawn, before and not after a quarter of an hour
    for part in suite(full=full):
        if only is None or part.name in only:
            screen.rule(f"{part.name}: {part.question}")
            results.append(measured(screen, part.name, part.run, out / f"{part.name}.json", out / part.name))
    screen.rule("wanted and found")
    show_checks(screen, results)
    if page_file is not None:
        page.write(out, page_file)
        screen.print(f"wrote {page_file}", highlight=False, markup=False)
