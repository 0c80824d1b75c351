"""What NormedSecSum costs on MP-SPDZ: by projection (cold, and a column of a fit) and by the paper's own program.

Offline time is that of the protocol's offline program, which makes the stock. It does not say what it sent; so each
program runs once more without a stock, and what it sends more than with one counts as its offline phase.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdml_spdz.bench.links import run_processes
from pdml_spdz.bench.results import ERROR
from pdml_spdz.bench.stats import Spread, exact, spread
from pdml_spdz.engines.mp_spdz import offline
from pdml_spdz.engines.mp_spdz.compiler import Counts, compile_program
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.home import Installation, require
from pdml_spdz.engines.mp_spdz.paper import PaperColumns
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import Protocol, protocol
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.engines.openings.per_column import PerColumn
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link

COLD, FIT, PAPER = "normed_sum", "scaled_sum", "normed_sum_paper"
BOUND = 4.0
PROBE = 4  # the length at which the paper's program is tried first
COLUMNS = 50  # of a fit


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
    say: Callable[[str], None] = lambda text: None

    def make_certificates(self) -> None:
        M = self.precision.M
        made = [certs.make(self.directory / f"P{m}", m, days=1) for m in range(M)]
        for m in range(M):
            for other in made:
                certs.add(self.directory / f"P{m}", other.path)

    def place(self, link: Link) -> Place:
        own, M = self.directory / f"P{link.me}", link.M
        identity = certs.load_identity(own, link.me, {l: certs.pinned(own, l).fingerprint for l in range(M)})
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
            setting.say(f"{seconds:7.1f} s: a stock for {job.name}, d = {job.d:,}")
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

    results = run_processes(setting.precision.M, lambda link: measured(link, setting, jobs))
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


@contextmanager
def settings(
    M: int, bits: int, name: str, limit: float = 300.0, say: Callable[[str], None] = lambda text: None
) -> Iterator[Setting]:
    """A setting that lasts for the block, with certificates."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory:
        timeout = 60.0 + 10 * limit
        setting = Setting(Precision(M, bits), protocol(name), require(), Path(directory), timeout, say)
        setting.make_certificates()
        yield setting


def projection(M: int, d: int, bits: int, name: str, where: str, repeats: int) -> dict[str, Spread]:
    """NormedSecSum by projection: cold, or a column of a fit with k = 1."""
    job = Job(COLD, d) if where == "cold" else Job(FIT, d, COLUMNS)
    with settings(M, bits, name) as setting:
        cells = measure(setting, *[job] * repeats)
        return _values([c.per_column() for c in cells], setting.counts(job), job.columns)


def paper(M: int, dims: Sequence[int], bits: int, name: str, limit: float) -> dict[int, tuple[dict[str, Spread], int]]:
    """The paper's program for each d: values, and the length that was measured if that was another (else 0)."""
    with settings(M, bits, name, limit) as setting:
        longest = paper_job(setting, max(dims), limit).d
        lengths = sorted({d for d in dims if d < longest} | {longest})
        measured = {cell.d: cell for cell in measure(setting, *[Job(PAPER, n) for n in lengths])}
        cells = [measured.get(d) or scaled(setting, measured[longest], d) for d in dims]
        return {c.d: (_values([c], setting.counts(Job(PAPER, c.d)), 1), c.scaled_from) for c in cells}


def _values(cells: Sequence[Cell], counts: Counts, columns: int) -> dict[str, Spread]:
    return {
        "online s": spread([c.seconds for c in cells]),
        "with start s": spread([c.wall for c in cells]),
        "offline s": spread([c.offline_seconds for c in cells]),
        "total s": spread([c.seconds + c.offline_seconds for c in cells]),
        "rounds": spread([c.rounds for c in cells]),
        "online MB": spread([c.online_megabytes for c in cells]),
        "offline MB": spread([c.offline_megabytes for c in cells]),
        "triples": exact(counts.triples / columns),
        ERROR: exact(max(c.error for c in cells)),
    }
