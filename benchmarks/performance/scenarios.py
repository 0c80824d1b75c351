"""The paper's two scenarios, forecast from measured cost for several networks, and each forecast checked by a real run.

Once most numbers come from LPN, all that a fit costs on loopback is a line in its iterations: two shorter fits, which
are long enough for that, give it. A network adds its latency for every round and the time its bandwidth needs for the
bytes (`Network.seconds`), nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.performance.network import NETWORKS, Network
from pdml_spdz.bench.fits import FitSize, PartyCosts, run
from pdml_spdz.bench.results import Cell, Check, Measurement, Step, exact, line


@dataclass(frozen=True)
class Scenario:
    """tau iterations; short : those of the two fits that are measured; checked : those of the run that checks the
    forecast (tau itself where that takes seconds); paper : what the paper says for the whole
    """

    name: str
    engine: str
    size: FitSize
    tau: int
    short: tuple[int, int]
    checked: int
    paper: float
    paper_text: str


PCR = Scenario("PCR", "embedded", FitSize(3000, 100, 7, 3), 300, (150, 225), 300, 1.2 * 3600, "1.2 h")
LRA = Scenario("LRA", "embedded", FitSize(1500, 10_000, 7, 3), 300, (10, 30), 60, 4 * 86400, "4 days")
LRA_SUM = Scenario("LRA by SecSum", "secsum", FitSize(1500, 10_000, 7, 3), 300, (10, 30), 300, 30 * 60, "below 30 min")
SCENARIOS = {"pcr": PCR, "lra": LRA, "lra-secsum": LRA_SUM}
WITHIN = 1.5  # a forecast that a run misses by more than this factor is wrong


@dataclass(frozen=True)
class Totals:
    """Of a whole fit at its slowest party, or forecast: seconds on loopback, rounds and bytes of both phases."""

    seconds: float
    rounds: float
    sent: float

    def over(self, network: Network) -> float:
        return self.seconds + network.seconds(self.rounds, self.sent)


def totals(parties: Sequence[PartyCosts]) -> Totals:
    slow = max(parties, key=lambda f: f.whole.seconds).whole
    sent = max(f.whole.sent + f.whole.offline_sent for f in parties)
    return Totals(slow.seconds, slow.rounds + slow.offline_rounds, sent)


def forecast(measured: dict[int, Totals], tau: int) -> Totals:
    """At tau iterations, from two shorter fits."""
    x = [float(t) for t in measured]

    def at(name: str) -> float:
        return line(x, [getattr(m, name) for m in measured.values()]).at(tau)

    return Totals(at("seconds"), at("rounds"), at("sent"))


def measure(
    scenarios: Sequence[Scenario],
    networks: Sequence[Network] = tuple(NETWORKS.values()),
    step: Step = lambda done, of, text: None,
) -> Measurement:
    cells: list[Cell] = []
    of = len(scenarios) * (2 + len(networks))
    done = 0
    for s in scenarios:
        short: dict[int, Totals] = {}
        for tau in s.short:
            step(done, of, f"{s.name}: {tau} iterations")
            short[tau] = totals(run("svd", s.engine, s.size, tau))
            done += 1
        for network in networks:
            step(done, of, f"{s.name}: {s.checked} iterations over {network.name}")
            found = totals(run("svd", s.engine, s.size, s.checked, network.wiring)).seconds
            cells.append(_cell(s, network, found, forecast(short, s.checked), forecast(short, s.tau)))
            done += 1
    step(of, of, "done")
    settings = {"scenarios": [s.name for s in scenarios], "networks": [n.name for n in networks]}
    result = Measurement("scenarios", settings, cells, notes=list(NOTES))
    return replace(result, checks=[_check(c) for c in cells])


NOTES = (
    "A fit from rows in memory to files, offline phase included, M = 3, k = 7. found: a real fit of `tau` iterations "
    "over that network; forecast: of the same, from two shorter ones on loopback; whole: forecast of 300 iterations.",
    "Rows do not matter to the network. The paper's figures are for the online phase alone.",
)


def _cell(s: Scenario, network: Network, found: float, short: Totals, whole: Totals) -> Cell:
    key: dict[str, str | int] = {"engine": s.engine, "scenario": s.name, "network": network.name}
    values = {
        "tau": exact(s.checked),
        "found s": exact(found),
        "forecast s": exact(short.over(network)),
        "whole s": exact(whole.over(network)),
        "whole GB": exact(whole.sent / 1e9),
        "whole rounds": exact(whole.rounds),
        "paper s": exact(s.paper),
    }
    return Cell(key | {"M": s.size.M, "d": s.size.d}, values)


def _check(cell: Cell) -> Check:
    off = cell.values["found s"].median / cell.values["forecast s"].median
    what = f"{cell.key['scenario']} over {cell.key['network']}: forecast and real run differ by a factor of"
    return Check(what, max(off, 1 / off), WITHIN, at_least=False)
