"""What NormedSecSum costs on MP-SPDZ: by projection (cold, and a column of a fit) and by the paper's own program.

Offline time is that of the protocol's offline program, which makes the stock. It does not say what it sent; so each
program runs once more without a stock, and what it sends more than with one counts as its offline phase. A program that
takes minutes (the paper's, and any with MACs) runs once, without a stock: then both phases are as the virtual machine
itself tells them apart.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdml_spdz.bench.links import run_processes
from pdml_spdz.bench.results import ERROR, Quartiles, exact, spread
from pdml_spdz.engines.mp_spdz import offline
from pdml_spdz.engines.mp_spdz.compiler import Counts, compile_program
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.home import Installation, require
from pdml_spdz.engines.mp_spdz.paper import PaperColumns
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import Protocol, protocol
from pdml_spdz.engines.mp_spdz.vm import Usage
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.engines.openings.per_column import PerColumn
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link

COLD, FIT, PAPER = "normed_sum", "scaled_sum", "normed_sum_paper"
BOUND = 4.0
PROBE = 4  # the length at which the paper's program is tried first
COLUMNS, FEW_COLUMNS, LONG = 50, 10, 10_000  # of a fit; of a long one
FOREVER = 10_000.0  # seconds


# What one run of a program costs: online by MP-SPDZ's clock, and with starting and ending the virtual machine;
# megabytes are those that a party sends, on average. The error is that of u, in units of its last bit.
# Processor time is that of a party's virtual machine that makes its material in the run: both phases.
COSTS = ("online s", "with start s", "rounds", "online MB", "offline s", "offline MB", "cpu s")
Run = dict[str, float]  # by COSTS and ERROR


class Job(NamedTuple):
    """A program to be measured: for so many columns of d numbers, one after the other. once : without a stock"""

    name: str
    d: int
    columns: int = 1
    once: bool = False


@dataclass(frozen=True)
class SpdzSetting:
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


def measured(link: Link, setting: SpdzSetting, jobs: Sequence[Job]) -> list[Run]:
    """The costs of all jobs at one party.

    1. a stock for each; 2. then each from its stock, by turns and within seconds; 3. each kind once on demand, and
    those that run but once, too
    """
    place, p = setting.place(link), setting.precision

    def make(job: Job) -> float:
        compiled = place.compile(setting.program(job), p)
        link.all_to_all("barrier", b"")
        began = time.perf_counter()
        offline.make(place, compiled)
        return time.perf_counter() - began

    def run(job: Job, offline: str) -> tuple[Run, Usage]:
        runner = MpSpdzRunner(place, p, BOUND, offline, b"bench")
        wall, error = use(link, runner, setting.program(job), job)
        used = runner.usage[0]
        costs = {"online s": used.seconds, "with start s": wall, "rounds": used.rounds, "online MB": used.megabytes}
        return costs | {"cpu s": used.cpu, ERROR: error}, used

    stocked = [job for job in jobs if not job.once]
    offline_seconds = [make(job) for job in stocked]
    online = [run(job, "stock")[0] for job in stocked]
    together = {job: run(job, "on-demand") for job in dict.fromkeys(jobs)}
    from_stock = iter(zip(online, offline_seconds, strict=True))

    def whole(job: Job) -> Run:
        on_demand, used = together[job]
        if job.once:
            return on_demand | {
                "online s": used.seconds - used.offline_seconds,
                "rounds": used.online_rounds,
                "online MB": used.megabytes - used.offline_megabytes,
                "offline s": used.offline_seconds,
                "offline MB": used.offline_megabytes,
            }
        costs, seconds = next(from_stock)
        return costs | {
            "offline s": seconds,
            "offline MB": used.megabytes - costs["online MB"],
            "cpu s": used.cpu,
        }

    return [whole(job) for job in jobs]


def measure(setting: SpdzSetting, *jobs: Job) -> list[Run]:
    """What each job costs, from M processes: bytes on average, everything else as party 0 sees it."""
    for job in jobs:
        setting.counts(job)
    parties = run_processes(setting.precision.M, lambda link: measured(link, setting, jobs))
    averages = [
        {n: statistics.fmean(run[n] for run in job) for n in ("online MB", "offline MB")}
        for job in zip(*parties, strict=True)
    ]
    return [run | average for run, average in zip(parties[0], averages, strict=True)]


def longest_of_paper(setting: SpdzSetting, d: int, limit: float) -> int:
    """The largest length, at most d, at which the offline phase of the paper's program takes no longer than `limit`.

    A small length is measured to know; triples and bits, and so the time, grow linearly with the length.
    """
    few = min(d, PROBE)
    if few == d or limit == math.inf:
        return d
    (probe,) = measure(setting, Job(PAPER, few))
    start = _tuples(setting, few)
    slope = (_tuples(setting, d) - start) / (d - few)
    longest = few + int((limit * start / probe["offline s"] - start) / slope)
    return max(few, min(d, longest))


def _tuples(setting: SpdzSetting, n: int) -> int:
    counts = setting.counts(Job(PAPER, n))
    return counts.triples + counts.bits


def scaled(setting: SpdzSetting, run: Run, measured: int, d: int) -> Run:
    """What the paper's program costs for d numbers, from a shorter run.

    The compiler's counts are linear in d: offline and bytes go with triples and bits, online time with rounds. The
    error is the one that was measured.
    """
    longer = setting.counts(Job(PAPER, d)).rounds / setting.counts(Job(PAPER, measured)).rounds
    more = _tuples(setting, d) / _tuples(setting, measured)
    factors = {"online s": longer, "rounds": longer, "online MB": more, "offline s": more, "offline MB": more}
    factors["cpu s"] = more
    started = run["with start s"] + run["online s"] * (longer - 1)
    return {n: v * factors.get(n, 1.0) for n, v in run.items()} | {"with start s": started}


@contextmanager
def settings(M: int, bits: int, name: str, limit: float = 300.0) -> Iterator[SpdzSetting]:
    """A setting that lasts for the block, with certificates."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory:
        setting = SpdzSetting(Precision(M, bits), protocol(name), require(), Path(directory), 60.0 + 10 * limit)
        setting.make_certificates()
        yield setting


def projection(M: int, d: int, bits: int, name: str, where: str, repeats: int) -> dict[str, Quartiles]:
    """NormedSecSum by projection: cold, or a column of a fit with k = 1. With MACs it runs once, without a stock."""
    malicious = protocol(name).malicious  # a triple with a MAC takes a hundred times as long
    columns = min(COLUMNS, FEW_COLUMNS) if malicious or d >= LONG else COLUMNS
    job = Job(COLD, d, once=malicious) if where == "cold" else Job(FIT, d, columns, once=malicious)
    with settings(M, bits, name) as setting:
        runs = measure(setting, *[job] * (1 if job.once else repeats))
        return _values(runs, setting.counts(job), job.columns)


class PaperLengths(NamedTuple):
    """Lengths for which the paper's program is wanted; scaled where its offline phase would take longer than `limit`
    seconds, but for those that are to be measured in any case.
    """

    dims: Sequence[int]
    limit: float
    always: Sequence[int] = ()


def paper(M: int, wanted: PaperLengths, bits: int, name: str) -> dict[int, tuple[dict[str, Quartiles], int]]:
    """The paper's program for each d: values, and the length that was measured if that was another (else 0)."""
    dims, limit, always = wanted
    with settings(M, bits, name, limit if not always else FOREVER) as setting:
        longest = longest_of_paper(setting, max(dims), limit)
        lengths = sorted({d for d in dims if d < longest or d in always} | {max([longest, *always])})
        jobs = [Job(PAPER, n, once=n > longest) for n in lengths]
        found = dict(zip(lengths, measure(setting, *jobs), strict=True))
        runs = {d: found.get(d) or scaled(setting, found[lengths[-1]], lengths[-1], d) for d in dims}
        return {
            d: (_values([run], setting.counts(Job(PAPER, d)), 1), 0 if d in found else lengths[-1])
            for d, run in runs.items()
        }


def _values(runs: Sequence[Run], counts: Counts, columns: int) -> dict[str, Quartiles]:
    """Of one column."""
    values = {name: spread([run[name] / columns for run in runs]) for name in COSTS}
    return values | {
        "total s": spread([(run["online s"] + run["offline s"]) / columns for run in runs]),
        "triples": exact(counts.triples / columns),
        ERROR: exact(max(run[ERROR] for run in runs)),
    }
