"""What whole fits cost: time by kind, growth with n, d, k and M, memory, and the same without privacy.

Every party is a process with TLS links; the fit is the one of the commands, from rows in memory to files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.bench.links import Costs, LinkMeter, Wiring, costs, direct, run_processes, seconds
from pdml_spdz.bench.results import Cell, Check, Key, Measurement, Quartiles, Step, constant, exact, spread, straight
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_on_link
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.run.output import peak_memory
from pdml_spdz.study.model import NmfSettings, Study, Timeouts
from pdml_spdz.transport.base import Link

PAPER_TOPIC_MB = 0.32  # [PDML §SecSum]: sent and received for each topic and iteration, d = 10^4, M = 5


@dataclass(frozen=True)
class FitSize:
    """n : rows of all parties together"""

    n: int = 10_000
    d: int = 1000
    k: int = 7
    M: int = 3


@dataclass(frozen=True)
class PartyCosts:
    """What one fit cost a party: as a whole, between iterations, peak memory and the size of its rows in bytes."""

    whole: Costs
    steps: list[Costs]
    memory: int
    data: int


@dataclass(frozen=True)
class FitRequest:
    """One size, and those around it in which one number at a time is another."""

    algorithm: str = "svd"
    engines: tuple[str, ...] = ("plain", "secsum", "embedded")
    size: FitSize = FitSize()
    growth: tuple[tuple[str, tuple[int, ...]], ...] = ()
    iterations: int = 10
    repeats: int = 3
    rows: bool = True  # compare with sending all rows to everybody

    def sizes(self) -> Iterator[FitSize]:
        yield self.size
        for name, values in self.growth:
            yield from (replace(self.size, **{name: v}) for v in values if v != getattr(self.size, name))


def party_rows(size: FitSize, m: int) -> Reals:
    """Party m's rows: no size of it depends on another party's; not negative, so that all algorithms take them."""
    n = size.n // size.M + (m < size.n % size.M)
    rng = np.random.default_rng(m)
    X: Reals = np.abs(rng.standard_normal((n, size.d))) * np.geomspace(1.0, 0.1, size.d)
    return X


def study_of(algorithm: str, engine: str, size: FitSize, iterations: int, bound: str = "auto") -> Study:
    settings: dict[str, Any] = {"algorithm": algorithm, "engine": engine, "rank": size.k, "iterations": iterations}
    if algorithm == "nmf":
        settings["nmf"] = NmfSettings(init="random")
    # What an iteration costs: of the paper's algorithm, which makes as many as it is told to.
    settings |= {
        "solver": "power",
        "tol": 0.0,
        "bound": bound,
        "offline": "on-demand",
        "timeouts": Timeouts(60.0, 900.0),
    }
    return local_study(size.M, **settings)


def run(
    algorithm: str, engine: str, size: FitSize, iterations: int, wiring: Wiring = direct, bound: str = "auto"
) -> list[PartyCosts]:
    """What one fit costs at every party."""
    study = study_of(algorithm, engine, size, iterations, bound)
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as directory:

        def party(link: Link) -> PartyCosts:
            X, steps = party_rows(size, link.me), list[Costs]()

            def notify(event: dict[str, Any]) -> None:
                if event["event"] == "iteration":
                    steps.append(meter.read())

            link.all_to_all("barrier", b"")
            meter, whole = LinkMeter(link), LinkMeter(link)
            run_on_link(link, study, X, Path(directory), notify)
            return PartyCosts(whole.read(), steps, peak_memory(), X.nbytes)

        return run_processes(size.M, party, wiring)


def measure(request: FitRequest, step: Step = lambda done, of, text: None) -> Measurement:
    cells: list[Cell] = []
    plan = [(size, engine) for size in request.sizes() for engine in request.engines]
    for i, (size, engine) in enumerate(plan):
        step(i, len(plan), f"{request.algorithm} {engine}, {size}")
        reports = [run(request.algorithm, engine, size, request.iterations) for _ in range(request.repeats)]
        values = per_iteration(reports, request.iterations)
        if request.algorithm == "nmf":
            values["topic MB, both ways"] = values["sent MB"].times(2 / size.k)
        cells.append(Cell(_key(request.algorithm, engine, size), values))
        if request.rows and size == request.size and engine == request.engines[-1]:
            cells.append(Cell(_key(request.algorithm, "all rows to everybody", size), _raw(size, request.repeats)))
    step(len(plan), len(plan), "done")
    result = Measurement(request.algorithm, asdict(request), cells, notes=[*NOTES])
    return replace(result, checks=[*_ratios(result, request), *_growth(result, request)])


NOTES = (
    "Of an iteration after the first, of the slowest party: local algebra (and checkpoints), waiting for others, "
    "transport (TLS, copies), crypto (masks, shares), MB sent. `offline` is an iteration's share of the fit's.",
    "fit: the whole, from rows in memory to files.",
)


def per_iteration(runs: list[list[PartyCosts]], iterations: int) -> dict[str, Quartiles]:
    """Of the slowest party of each run: its iterations after the first, and its whole fit."""
    slow = [max(parties, key=lambda f: f.whole.seconds) for parties in runs]
    steps = [step for fit in slow for step in fit.steps[1:]]
    sent = [max(f.whole.sent for f in parties) for parties in runs]
    parts = seconds(steps)
    return {
        "iteration s": parts["online s"],
        **{f"{name} s": parts[f"{name} s"] for name in ("local", "wait", "transport", "crypto")},
        "offline s": spread([f.whole.offline / iterations for f in slow]),
        "fit s": spread([f.whole.seconds for f in slow]),
        "fit cpu s": spread([f.whole.cpu for f in slow]),
        "fit MB": spread([n / 1e6 for n in sent]),
        "sent MB": spread([max(f.steps[-1].sent for f in parties) / 1e6 for parties in runs]),
        "offline MB": spread([f.whole.offline_sent / iterations / 1e6 for f in slow]),
        "rounds": spread([float(s.rounds) for s in steps]),
        "memory MB": spread([max(f.memory for f in parties) / 1e6 for parties in runs]),
        "data MB": exact(max(f.data for f in runs[0]) / 1e6),
    }


def _key(algorithm: str, engine: str, size: FitSize) -> Key:
    return {"algorithm": algorithm, "engine": engine} | asdict(size)


def _raw(size: FitSize, repeats: int) -> dict[str, Quartiles]:
    """No privacy and no iterations: every party sends its rows to all others, once."""

    def party(link: Link) -> list[tuple[float, int]]:
        X, most = party_rows(size, link.me), 8 * size.d * (size.n // size.M + 1)
        sent = []
        for _ in range(repeats):
            cost, _ = costs(link, link.all_to_all, "rows", X, most)
            sent.append((cost.online, cost.sent))
        return sent

    parties = run_processes(size.M, party)
    slow = [max(s for s, _ in together) for together in zip(*parties, strict=True)]
    return {"fit s": spread(slow), "fit MB": exact(max(b for _, b in parties[0]) / 1e6)}


def _ratios(result: Measurement, request: FitRequest) -> list[Check]:
    """What masks cost in a fit of the size in the middle."""
    plain, masked = (result.find(engine=e, **asdict(request.size)) for e in ("plain", "secsum"))
    if not (plain and masked and request.algorithm == "svd"):
        return []
    over = masked.values["iteration s"].median / plain.values["iteration s"].median
    return [Check("an iteration with secsum / plain", over, 2, at_least=False, unit=" times")]


def _growth(result: Measurement, request: FitRequest) -> list[Check]:
    """Bytes and CPU seconds of a party: straight lines in d, bytes also in M, and bytes the same for every n."""
    # Of the offline phase along d: less than a line, until LPN has set in.
    ways = {
        "n": (constant, ("fit MB", "offline MB")),
        "d": (straight, ("fit MB", "fit cpu s")),
        "M": (straight, ("fit MB", "offline MB")),
    }
    found: list[Check] = []
    for name, _ in request.growth:
        if name in ways:
            base = {n: v for n, v in asdict(request.size).items() if n != name}
            check, values = ways[name]
            cells = [c for c in result.cells if c.fits(**base) and c.key["engine"] in request.engines]
            found += check(cells, name, values)
    return found
