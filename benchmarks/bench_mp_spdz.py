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
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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

    def counts(self, program: Program) -> Counts:
        """Compiles, too: what follows finds it in the cache."""
        return compile_program(program, self.precision, self.protocol, self.home).counts


def normed_sum(runner: MpSpdzRunner, program: Program) -> FixedScale | PaperColumns | PerColumn:
    if program.name == FIT:
        return FixedScale(runner, program)
    return PaperColumns(runner, program, 1) if program.name == PAPER else PerColumn(runner, program, 1)


def use(link: Link, runner: MpSpdzRunner, program: Program, d: int, columns: int) -> tuple[float, float]:
    """Seconds for so many columns, from before the virtual machine starts until after it ends; the error of the last.

    S = 2 I is enough, so that u = g: nothing costs more or less for other numbers.
    """
    g = np.random.default_rng(0).standard_normal((d, 1))
    g /= np.linalg.norm(g)
    normed = normed_sum(runner, program)
    link.all_to_all("barrier", b"")
    began = time.perf_counter()
    try:
        for _ in range(columns):
            u = normed(2.0 / link.M * g, g).U
        runner.finish()
    finally:
        runner.close()
    return time.perf_counter() - began, float(np.max(np.abs(u - g)) * 2.0**runner.precision.f_out)


def measured(link: Link, setting: Setting, name: str, d: int, columns: int, *, bytes_too: bool) -> dict[str, Any]:
    """One cell at one party; without bytes_too its offline megabytes are not known (nan)."""
    place, program = setting.place(link), render(name, setting.precision, d, 1, columns)
    stocked = MpSpdzRunner(place, setting.precision, BOUND, "stock", b"bench")
    compiled = stocked.compiled(program)
    began = time.perf_counter()
    offline.make(place, compiled)
    offline_seconds = time.perf_counter() - began
    wall, error = use(link, stocked, program, d, columns)
    usage, sent = stocked.usage[0], float("nan")
    if bytes_too:
        on_demand = MpSpdzRunner(place, setting.precision, BOUND, "on-demand", b"bench")
        use(link, on_demand, program, d, columns)
        sent = on_demand.usage[0].megabytes - usage.megabytes
    return {
        "seconds": usage.seconds,
        "wall": wall,
        "rounds": usage.rounds,
        "online_megabytes": usage.megabytes,
        "offline_seconds": offline_seconds,
        "offline_megabytes": sent,
        "error": error,
    }


def measure(setting: Setting, name: str, d: int, columns: int = 1, *, bytes_too: bool = True) -> Cell:
    """The cell, from M processes: bytes on average, everything else as party 0 sees it."""
    setting.counts(render(name, setting.precision, d, 1, columns))

    def party(link: Link) -> dict[str, Any] | str:
        try:
            return measured(link, setting, name, d, columns, bytes_too=bytes_too)
        except (PdmlError, OSError) as error:  # the process that waits for this one must hear of it
            return f"P{link.me}: {error}"

    results = run_processes(setting.precision.M, party)
    if failed := [text for text in results if isinstance(text, str)]:
        raise SystemExit("\n".join(failed))
    average = {k: statistics.fmean(r[k] for r in results) for k in ("online_megabytes", "offline_megabytes")}
    cell = Cell(name, d, columns, **(results[0] | average))
    print(f"  {name}, d = {d:,}: online {cell.seconds:.3f} s, offline {cell.offline_seconds:.1f} s", flush=True)
    return cell


def measure_paper(setting: Setting, d: int, limit: float) -> tuple[Cell, Cell]:
    """The paper's cell, and the one at a small length that says how long it would take.

    Its counts grow linearly with d. If its offline phase would take longer than `limit` the cell is measured at the
    largest length that does not, and scaled: offline by the compiler's count of triples and bits, online by that of
    rounds. What a scaled cell has for error was measured at that length.
    """

    def counts(n: int) -> Counts:
        return setting.counts(render(PAPER, setting.precision, n, 1))

    def tuples(n: int) -> int:
        return counts(n).triples + counts(n).bits

    probe = measure(setting, PAPER, min(d, PROBE))
    if probe.d == d:
        return probe, probe
    rate = probe.offline_seconds / tuples(probe.d)
    slope = (tuples(d) - tuples(probe.d)) / (d - probe.d)
    longest = probe.d + int((limit / rate - tuples(probe.d)) / slope)
    length = max(probe.d, min(d, longest))
    cell = measure(setting, PAPER, length) if length > probe.d else probe
    if length == d:
        return cell, probe
    more = tuples(d) / tuples(length)
    longer = counts(d).rounds / counts(length).rounds
    seconds = cell.seconds * longer
    return replace(
        cell,
        d=d,
        seconds=seconds,
        wall=cell.wall - cell.seconds + seconds,
        rounds=cell.rounds * longer,
        online_megabytes=cell.online_megabytes * more,
        offline_seconds=cell.offline_seconds * more,
        offline_megabytes=cell.offline_megabytes * more,
        scaled_from=length,
    ), probe


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


def print_stream(colds: list[Cell], column: Cell, columns: int) -> float:
    walls = [1e3 * c.wall for c in colds]
    low, median, high = quartiles(walls) if len(walls) > 1 else walls * 3
    ratio = median / (1e3 * column.wall)
    print(
        f"\na column on a machine of its own {median:9.1f} ms ({low:.1f} .. {high:.1f}), {len(colds)} machines; online"
    )
    print(f"a column in a stream             {1e3 * column.wall:9.1f} ms, {columns} columns; online")
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
    option("--machines", type=int, default=5, help="virtual machines for a column each; their median counts")
    option("--limit", type=float, default=300.0, metavar="S", help="for the paper's offline phase; beyond: scaled")
    return parser.parse_args()


def main() -> None:
    a = arguments()
    with tempfile.TemporaryDirectory() as directory:
        timeout = 60.0 + 10 * a.limit
        setting = Setting(Precision(a.parties, a.bits), protocol(a.protocol), require(), Path(directory), timeout)
        setting.make_certificates()
        fit = measure(setting, FIT, a.dim, a.columns)
        colds = [measure(setting, COLD, a.dim, bytes_too=i == 0) for i in range(a.machines)]
        paper, probe = measure_paper(setting, a.dim, a.limit)
    middle = {k: statistics.median(getattr(c, k) for c in colds) for k in ("seconds", "wall", "offline_seconds")}
    cold, column = replace(colds[0], **middle), fit.per_column()
    print(f"\nM = {a.parties}, d = {a.dim:,}, {a.protocol}, {a.bits} bits, loopback, TLS; party 0; MB sent by a party")
    print_costs({"projection, cold": cold, f"projection, 1 of {a.columns} in a fit": column, "paper": paper})
    found = {"cold": ratios(paper, cold), "a column in a fit": ratios(paper, column)}
    print_ratios(found, "~" if paper.scaled_from else "")
    stream = print_stream(colds, column, a.columns)
    content = {"arguments": vars(a), "mp_spdz": setting.home.version(), "stream": stream, "ratios": found}
    cells = {"fit": asdict(fit), "cold": [asdict(c) for c in colds], "paper": asdict(paper), "probe": asdict(probe)}
    save("mp_spdz", content | {"cells": cells})


if __name__ == "__main__":
    main()
