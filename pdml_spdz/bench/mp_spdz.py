"""What NormedSecSum costs on MP-SPDZ: by projection (cold, and a column of a fit) and by the paper's own program.

Offline time is that of the protocol's offline program, which makes the stock. It does not say what it sent; so each
program runs once more without a stock, and what it sends more than with one counts as its offline phase. A program that
takes minutes (the paper's, and any with MACs), or has no offline program here, runs once, without a stock: then both
phases are as the virtual machine itself tells them apart.
"""

from __future__ import annotations

import shutil
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
from pdml_spdz.errors import EngineError, PdmlError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link

COLD, FIT, PAPER = "normed_sum", "scaled_sum", "normed_sum_paper"
BOUND = 4.0
COLUMNS, FEW_COLUMNS, LONG = 50, 10, 10_000  # of a fit; of a long one
SILENCE = 360.0  # seconds for which a program may be silent


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


def measured(link: Link, setting: SpdzSetting, job: Job, repeats: int) -> list[Run]:
    """The costs of a job at one party.

    1. a stock for each repetition; 2. then each from its stock, within seconds; 3. once on demand, and that alone for
    what runs but once
    """
    place, p = setting.place(link), setting.precision
    compiled = place.compile(setting.program(job), p)

    def make() -> float:
        link.all_to_all("barrier", b"")
        began = time.perf_counter()
        offline.make(place, compiled)
        return time.perf_counter() - began

    def run(offline: str) -> tuple[Run, Usage]:
        runner = MpSpdzRunner(place, p, BOUND, offline, b"bench")
        wall, error = use(link, runner, setting.program(job), job)
        used = runner.usage[0]
        costs = {"online s": used.seconds, "with start s": wall, "rounds": used.rounds, "online MB": used.megabytes}
        return costs | {"cpu s": used.cpu, ERROR: error}, used

    offline_seconds = [make() for _ in range(0 if job.once else repeats)]
    online = [run("stock")[0] for _ in offline_seconds]
    on_demand, used = run("on-demand")
    if job.once:
        online_alone = {
            "online s": used.seconds - used.offline_seconds,
            "rounds": used.online_rounds,
            "online MB": used.megabytes - used.offline_megabytes,
            "offline s": used.offline_seconds,
            "offline MB": used.offline_megabytes,
        }
        return [on_demand | online_alone]
    return [
        costs | {"offline s": seconds, "offline MB": used.megabytes - costs["online MB"], "cpu s": used.cpu}
        for costs, seconds in zip(online, offline_seconds, strict=True)
    ]


def measure(setting: SpdzSetting, job: Job, repeats: int) -> list[Run]:
    """What a job costs, from M processes: bytes on average, everything else as party 0 sees it."""
    setting.counts(job)
    parties = run_processes(setting.precision.M, lambda link: measured(link, setting, job, repeats))
    averages = [
        {n: statistics.fmean(run[n] for run in runs) for n in ("online MB", "offline MB")}
        for runs in zip(*parties, strict=True)
    ]
    return [run | average for run, average in zip(parties[0], averages, strict=True)]


@contextmanager
def settings(M: int, bits: int, name: str) -> Iterator[SpdzSetting]:
    """A setting that lasts for the block, with certificates; what its programs said stays if the block fails."""
    directory, logs = Path(tempfile.mkdtemp(prefix="pdml-spdz-")), list[Path]()
    try:
        setting = SpdzSetting(Precision(M, bits), protocol(name), require(), directory, SILENCE)
        setting.make_certificates()
        yield setting
    except PdmlError as error:
        logs = list(directory.rglob("*.log"))
        for path in (path for path in directory.rglob("*") if path.is_file() and path not in logs):
            path.unlink()
        first, *rest = error.found.splitlines()
        first += f" (logs: {directory})" if logs else ""
        raise EngineError("\n".join([first, *rest]), error.wanted, error.do) from None
    finally:
        if not logs:
            shutil.rmtree(directory, ignore_errors=True)


def cell(M: int, d: int, bits: int, name: str, program: str, where: str, repeats: int) -> dict[str, Quartiles]:
    """NormedSecSum by projection, cold or a column of a fit with k = 1, or by the paper's program."""
    chosen, home = protocol(name), require()
    malicious = chosen.malicious  # a triple with a MAC takes a hundred times as long
    stock = chosen.offline is not None and home.binary(chosen.offline) is not None
    once = malicious or program == "paper" or not stock
    columns = min(COLUMNS, FEW_COLUMNS) if malicious or d >= LONG else COLUMNS
    job = Job(PAPER if program == "paper" else COLD, d, once=once) if where == "cold" else Job(FIT, d, columns, once)
    with settings(M, bits, name) as setting:
        return _values(measure(setting, job, repeats), setting.counts(job), job.columns)


def _values(runs: Sequence[Run], counts: Counts, columns: int) -> dict[str, Quartiles]:
    """Of one column."""
    values = {name: spread([run[name] / columns for run in runs]) for name in COSTS}
    return values | {
        "total s": spread([(run["online s"] + run["offline s"]) / columns for run in runs]),
        "triples": exact(counts.triples / columns),
        ERROR: exact(max(run[ERROR] for run in runs)),
    }
