"""Everything that `pdml-spdz bench` measures and more, one after the other; at the end what was promised and what was
found, and a page with figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.performance import end_to_end, page, precision, scenarios, solvers
from benchmarks.performance.network import NETWORKS
from benchmarks.performance.peers import PEERS, versions
from pdml_spdz.bench import fits, normed_sum, parts
from pdml_spdz.bench.fits import FitSize
from pdml_spdz.bench.results import Measurement, Step
from pdml_spdz.cli.bench import Words, console, measured, show_checks


class Part(NamedTuple):
    """A benchmark: `name` is that of its files."""

    name: str
    question: str
    run: Callable[[Step], Measurement]


SVD = fits.FitRequest(
    size=FitSize(3000, 1000, 7, 3), growth=(("n", (300, 30_000)), ("d", (250, 500, 2000)), ("M", (2, 4, 5))), repeats=3
)
NMF = fits.FitRequest("nmf", ("plain", "secsum"), FitSize(2000, 10_000, 7, 5), iterations=5, repeats=1)
TABLE = normed_sum.TableRequest(protocols=("semi",), repeats=5, limit=90.0)
# Not evenly spread on a logarithmic scale: there even a parabola comes near a straight line (R^2 = 0.995).
LENGTHS = (100_000, 250_000, 500_000, 1_000_000)
GROWTH = normed_sum.TableRequest((2,), LENGTHS, ("embedded",), where=("cold",), repeats=1, limit=120.0)
ALGEBRA = ((1000, 1000), (10_000, 1000), (1000, 10_000))


def suite(
    *, full: bool, chosen: Sequence[str] = tuple(scenarios.SCENARIOS), networks: Sequence[str] = tuple(NETWORKS)
) -> list[Part]:
    """In the order in which they run, in two sizes: a quarter of an hour, and whole."""
    table, svd, nmf = TABLE, SVD, NMF
    dims: tuple[int, ...] = (10, 100)
    if full:
        table = replace(TABLE, repeats=7, limit=600.0, outside=TABLE.parties, protocols=normed_sum.PROTOCOLS)
        svd = replace(SVD, growth=(*SVD.growth, ("k", (1, 14, 28))), repeats=5)
        nmf = replace(NMF, growth=(("n", (500, 8000)), ("d", (1000, 3000)), ("k", (3, 14)), ("M", (2, 3))), repeats=5)
        dims = (10, 30, 100, 300)
    some, lines = [scenarios.SCENARIOS[s] for s in chosen], [NETWORKS[n] for n in networks]
    repeats = 20 if full else 9
    offline = (2, 3), (1000, 10_000, *LENGTHS), 31, 5 if full else 2
    return [
        Part("normed-sum", "what does one NormedSecSum cost?", lambda step: normed_sum.measure(table, step, PEERS)),
        Part("growth", "how does that grow with d?", lambda step: normed_sum.measure(GROWTH, step)),
        Part("end-to-end", "how long do whole commands take?", end_to_end.measure),
        Part("solvers", "how much does krylov save beside power?", solvers.measure),
        Part("scenarios", "and over real networks?", lambda step: scenarios.measure(some, lines, step)),
        Part("svd", "where does the time of a PD-SVD go?", lambda step: fits.measure(svd, step)),
        Part("nmf", "and that of a PD-NMF?", lambda step: fits.measure(nmf, step)),
        Part(
            "sec-sum",
            "does SecSum cost more than sending the vectors?",
            lambda step: parts.sec_sum((2, 3, 5), (10_000, *LENGTHS), repeats, step),
        ),
        Part("offline", "what does the offline phase cost?", lambda step: parts.offline(*offline, step)),
        Part("local", "what does a party compute by itself?", lambda step: parts.local(ALGEBRA, 7, repeats, step)),
        Part(
            "precision", "what do 10, 20 and 31 bits cost in accuracy?", lambda step: precision.measure(dims, step=step)
        ),
    ]


QUESTIONS = {part.name: part.question for part in suite(full=False)}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("benchmarks/results"), show_default=True)
@click.option("--full", is_flag=True, help="All sizes, protocols and networks, more repetitions: hours.")
@click.option("--only", type=Words(tuple(QUESTIONS)), default=",".join(QUESTIONS), help="Some of them.")
@click.option("--scenario", "chosen", type=Words(tuple(scenarios.SCENARIOS)), default=",".join(scenarios.SCENARIOS))
@click.option("--network", "networks", type=Words(tuple(NETWORKS)), default=",".join(NETWORKS), help="Of scenarios.")
@click.option("--page", "page_file", type=click.Path(path_type=Path), help="Write a page from all results in --out.")
@click.option("--no-run", is_flag=True, help="Measure nothing: only the page.")
def main(
    out: Path,
    full: bool,
    only: tuple[str, ...],
    chosen: tuple[str, ...],
    networks: tuple[str, ...],
    page_file: Path | None,
    no_run: bool,
) -> None:
    """Measure everything, one after the other; at the end what was promised and what was found.

    \b
    Examples:
      python -m benchmarks.performance --only normed-sum,end-to-end
      python -m benchmarks.performance --only scenarios --scenario pcr --network loopback,20ms
      python -m benchmarks.performance --no-run --page docs/performance.md
    """
    screen, results = console(), []
    for part in () if no_run else suite(full=full, chosen=chosen, networks=networks):
        if part.name in only:
            screen.rule(f"{part.name}: {part.question}")
            found = measured(screen, part.name, part.run, out / f"{part.name}.json")
            found.origin["versions"] |= versions()
            found.save(out / f"{part.name}.json")
            results.append(found)
    screen.rule("wanted and found")
    show_checks(screen, results)
    for file in page.write(out, page_file or out / "README.md", QUESTIONS):
        screen.print(f"wrote {file}", highlight=False, markup=False)


if __name__ == "__main__":
    main()
