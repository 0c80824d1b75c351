"""What does NormedSecSum cost on MP-SPDZ: by projection, by the paper's program, and with one virtual machine a column?

    python -m benchmarks.bench_mp_spdz [--parties M] [--dim D] [--protocol NAME] [--columns C] [--bits F]

1. one NormedSecSum of d numbers, to equal output bits: normed_sum (cold), scaled_sum (a column of a fit with k = 1 and
   C iterations), normed_sum_paper; online time and rounds with a stock, offline time and megabytes
2. a column in a stream against a column on a virtual machine of its own: online time, starting and ending included

Offline time is that of the protocol's offline program, which makes the stock. It does not say what it sent; so each
program runs once more without a stock, and what it sends more than with one counts as its offline phase.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.parties import quartiles, run_processes, save
from pdml_spdz import certs
from pdml_spdz.engines.mp_spdz import offline
from pdml_spdz.engines.mp_spdz.compiler import Counts, compile_program
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.home import Installation, require
from pdml_spdz.engines.mp_spdz.paper import PaperColumns
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import Protocol, protocol
from pdml_spdz.engines.projection import FixedScale, PerColumn
from pdml_spdz.errors import PdmlError
from pdml_spdz.precision import Precision
from pdml_spdz.programs import Program, render
from pdml_spdz.transport.base import Link

COLD, FIT, PAPER = "normed_sum", "scaled_sum", "normed_sum_paper"
BOUND = 4.0
PROBE = 4  # the length at which the paper's program is tried first
ONLINE, OFFLINE, STREAM = 100, 100, 10  # wanted, at least


class Job(NamedTuple):
    """A program to be measured: for so many columns of d numbers, one after the other."""

    name: str
    d: int
    columns: int = 1


@dataclass(frozen=True)
class Cell:
    """What one run of a program cost.

    seconds : online, by MP-SPDZ's clock; wall : online, with starting and ending the virtual machine; megabytes : sent
    by a party, on average; error : of u, in units of its last bit; scaled_from : the length that was measured, 0 if it
    is d itself
    """

    program: str
    d: int
    columns: int
    seconds: float
    wall: float
    rounds: float
    online_megabytes: float
    offline_seconds: float
    offline_megabytes: float
    error: float
    scaled_from: int = 0

    def per_column(self) -> Cell:
        shares = {name: getattr(self, name) / self.columns for name in COSTS}
        return replace(self, columns=1, **shares)


COSTS = ("seconds", "wall", "rounds", "online_megabytes", "offline_seconds", "offline_megabytes")


@dataclass(frozen=True)
class Setting:
    """All parties' certificates, stocks and logs are below `directory`: on one machine, and for a moment."""

    precision: Precision
    protocol: Protocol
    home: Installation
    directory: Path
    timeout: float

    def make_certificates(self) -> None:
        M = self.precision.M
        made = [certs.make(self.directory / f"P{m}", m, days=1) for m in range(M)]
        for m in range(M):
            for other in made:
                certs.add(self.directory / f"P{m}", other.path)

    def place(self, link: Link) -> Place:
        own, M = self.directory / f"P{link.me}", link.M
        identity = certs.load_identity(own, link.me, dict.fromkeys(range(M), ""))
        where = ["127.0.0.1"] * M, [0] * M
        return Place(link, identity, self.home, self.protocol, *where, own / "stocks", own / "logs", self.timeout)

    def program(self, job: Job) -> Program:
        return render(
            job.name, self.precision, job.d, 1, job.columns, own_masks=job.name != PAPER and self.protocol.own_masks
        )

    def counts(self, job: Job) -> Counts:
        """Compiles, too: what follows finds it in the cache."""
        return compile_program(self.program(job), self.precision, self.protocol, self.home).counts


def normed_sum(runner: MpSpdzRunner, program: Program) -> FixedScale | PaperColumns | PerColumn:
    if program.name == FIT:
        return FixedScale(runner, program)
    return PaperColumns(runner, program, 1) if program.name == PAPER else PerColumn(runner, program, 1)


def use(link: Link, runner: MpSpdzRunner, program: Program, job: Job) -> tuple[float, float]:
    """Seconds from before the virtual machine starts until after it ends, for all columns; the error of the last.

    S = 2 I is enough, so that u = g: nothing costs more or less for other numbers.
    """
    g = np.random.default_rng(0).standard_normal((job.d, 1))
    g /= np.linalg.norm(g)
    runner.compiled(program)
    normed = normed_sum(runner, program)
    link.all_to_all("barrier", b"")
    began = time.perf_counter()
    try:
        for _ in range(job.columns):
            u = normed(2.0 / link.M * g, g).U
        runner.finish()
    finally:
        runner.close()
    return time.perf_counter() - began, float(np.max(np.abs(u - g)) * 2.0**runner.precision.f_out)


def measured(link: Link, setting: Setting, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """The costs of all jobs at one party.

    1. a stock for each; 2. then each from its stock, by turns and within seconds; 3. each kind once on demand
    """
    place, p = setting.place(link), setting.precision

    def make(job: Job) -> float:
        compiled = place.compile(setting.program(job), p)
        link.all_to_all("barrier", b"")
        began = time.perf_counter()
        offline.make(place, compiled)
        seconds = time.perf_counter() - began
        if link.me == 0:
            print(f"  {seconds:7.1f} s: a stock for {job.name}, d = {job.d:,}", flush=True)
        return seconds

    def run(job: Job, offline: str) -> dict[str, Any]:
        runner = MpSpdzRunner(place, p, BOUND, offline, b"bench")
        wall, error = use(link, runner, setting.program(job), job)
        usage = runner.usage[0]
        costs = {"seconds": usage.seconds, "wall": wall, "rounds": usage.rounds, "online_megabytes": usage.megabytes}
        return costs | {"error": error}

    offline_seconds = [make(job) for job in jobs]
    online = [run(job, "stock") for job in jobs]
    together = {job: run(job, "on-demand")["online_megabytes"] for job in dict.fromkeys(jobs)}
    return [
        costs | {"offline_seconds": seconds, "offline_megabytes": together[job] - costs["online_megabytes"]}
        for job, costs, seconds in zip(jobs, online, offline_seconds, strict=True)
    ]


def measure(setting: Setting, *jobs: Job) -> list[Cell]:
    """A cell for each job, from M processes: bytes on average, everything else as party 0 sees it."""
    for job in jobs:
        setting.counts(job)

    def party(link: Link) -> list[dict[str, Any]] | str:
        try:
            return measured(link, setting, jobs)
        except (PdmlError, OSError) as error:  # the process that waits for this one must hear of it
            return f"P{link.me}: {error}"

    results = run_processes(setting.precision.M, party)
    if failed := [text for text in results if isinstance(text, str)]:
        raise SystemExit("\n".join(failed))
    cells = []
    for i, job in enumerate(jobs):
        average = {k: statistics.fmean(r[i][k] for r in results) for k in ("online_megabytes", "offline_megabytes")}
        cells.append(Cell(*job, **(results[0][i] | average)))
    return cells


def paper_job(setting: Setting, d: int, limit: float) -> Job:
    """The paper's program at d, or at the largest length whose offline phase would not take longer than `limit`.

    A small length is measured to know; triples and bits, and so the time, grow linearly with the length.
    """

    def tuples(n: int) -> int:
        counts = setting.counts(Job(PAPER, n))
        return counts.triples + counts.bits

    few = min(d, PROBE)
    if few == d:
        return Job(PAPER, d)
    (probe,) = measure(setting, Job(PAPER, few))
    slope = (tuples(d) - tuples(few)) / (d - few)
    longest = few + int((limit * tuples(few) / probe.offline_seconds - tuples(few)) / slope)
    return Job(PAPER, max(few, min(d, longest)))


def scaled(setting: Setting, cell: Cell, d: int) -> Cell:
    """The paper's cell for d numbers, from a shorter one.

    The compiler's counts are linear in d: offline and bytes go with triples and bits, online time with rounds. The
    error is the one that was measured.
    """
    if cell.d == d:
        return cell
    measured, wanted = setting.counts(Job(PAPER, cell.d)), setting.counts(Job(PAPER, d))
    more = (wanted.triples + wanted.bits) / (measured.triples + measured.bits)
    longer = wanted.rounds / measured.rounds
    return replace(
        cell,
        d=d,
        seconds=cell.seconds * longer,
        wall=cell.wall + cell.seconds * (longer - 1),
        rounds=cell.rounds * longer,
        online_megabytes=cell.online_megabytes * more,
        offline_seconds=cell.offline_seconds * more,
        offline_megabytes=cell.offline_megabytes * more,
        scaled_from=cell.d,
    )


def middle(cells: Sequence[Cell]) -> Cell:
    """Medians of repetitions."""
    names = [*COSTS, "error"]
    return replace(cells[0], **{name: statistics.median(getattr(c, name) for c in cells) for name in names})


def print_costs(rows: dict[str, Cell]) -> None:
    print(f"\n{'':30}{'online':>12}{'with start':>13}{'rounds':>10}{'offline':>11}{'offline MB':>13}{'error/ulp':>11}")
    for label, cell in rows.items():
        about = "~" if cell.scaled_from else ""
        texts = [f"{1e3 * cell.seconds:,.1f} ms", f"{1e3 * cell.wall:,.1f} ms", f"{cell.rounds:,.0f}"]
        texts += [f"{cell.offline_seconds:,.2f} s", f"{cell.offline_megabytes:,.2f}"]
        widths = (12, 13, 10, 11, 13)
        costs = "".join(f"{about + text:>{width}}" for text, width in zip(texts, widths, strict=True))
        print(f"{label:30}{costs}{cell.error:11.1f}")
        if cell.scaled_from:
            print(f"  ~ scaled from d = {cell.scaled_from}, by the compiler's counts")


def ratios(paper: Cell, other: Cell) -> dict[str, float]:
    return {name: getattr(paper, name) / getattr(other, name) for name in COSTS}


def print_ratios(found: dict[str, dict[str, float]], about: str) -> None:
    print(f"\n{'paper / projection':30}{'online':>12}{'with start':>13}{'rounds':>10}{'offline':>11}{'offline MB':>13}")
    names = {"seconds": 12, "wall": 13, "rounds": 10, "offline_seconds": 11, "offline_megabytes": 13}
    for label, row in found.items():
        print(f"{label:30}" + "".join(f"{f'{about}{row[name]:,.1f}':>{width}}" for name, width in names.items()))
    print(f"{'wanted, at least':30}{ONLINE:12}{OFFLINE:47}")


def print_stream(colds: Sequence[Cell], columns: Sequence[Cell]) -> float:
    medians = []
    for label, cells in (("\na column on a machine of its own", colds), ("a column in a stream", columns)):
        walls = [1e3 * c.wall for c in cells]
        low, median, high = quartiles(walls) if len(walls) > 1 else walls * 3
        medians.append(median)
        print(f"{label:33} {median:9.1f} ms ({low:.1f} .. {high:.1f}); online, with start")
    ratio = medians[0] / medians[1]
    print(f"own machine / stream: {ratio:.1f} (wanted: at least {STREAM})")
    return ratio


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option: Callable[..., Any] = parser.add_argument
    option("--parties", type=int, default=3, metavar="M")
    option("--dim", type=int, default=100, metavar="D", help="numbers in a vector")
    option("--protocol", default="semi", help="of MP-SPDZ, one that has an offline program")
    option("--columns", type=int, default=50, metavar="C", help="in the stream")
    option("--bits", type=int, default=31, metavar="F", help="fraction bits of the output, of both programs")
    option("--repeats", type=int, default=5, help="of everything but the paper's program; medians count")
    option("--limit", type=float, default=300.0, metavar="S", help="for the paper's offline phase; beyond: scaled")
    return parser.parse_args()


def main() -> None:
    a = arguments()
    with tempfile.TemporaryDirectory() as directory:
        timeout = 60.0 + 10 * a.limit
        setting = Setting(Precision(a.parties, a.bits), protocol(a.protocol), require(), Path(directory), timeout)
        setting.make_certificates()
        longest = paper_job(setting, a.dim, a.limit)
        pair = [Job(FIT, a.dim, a.columns), Job(COLD, a.dim)]
        before, after = pair * (a.repeats // 2), pair * (a.repeats - a.repeats // 2)
        cells = measure(setting, *before, longest, *after)
        fits, colds, papers = ([c for c in cells if c.program == name] for name in (FIT, COLD, PAPER))
        paper = scaled(setting, papers[0], a.dim)
    columns = [fit.per_column() for fit in fits]
    cold, column = middle(colds), middle(columns)
    print(f"\nM = {a.parties}, d = {a.dim:,}, {a.protocol}, {a.bits} bits, loopback, TLS; party 0; MB sent by a party")
    print_costs({"projection, cold": cold, f"projection, 1 of {a.columns} in a fit": column, "paper": paper})
    found = {"cold": ratios(paper, cold), "a column in a fit": ratios(paper, column)}
    print_ratios(found, "~" if paper.scaled_from else "")
    stream = print_stream(colds, columns)
    content = {"arguments": vars(a), "mp_spdz": setting.home.version(), "stream": stream, "ratios": found}
    save("mp_spdz", content | {"measured": [asdict(c) for c in cells], "paper": asdict(paper)})


if __name__ == "__main__":
    main()
