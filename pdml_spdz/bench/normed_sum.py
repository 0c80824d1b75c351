"""The paper's table: the time of one NormedSecSum, by M, d and engine. [PDML App. NormedSecSum, efficiency]

A row is an engine (with protocol, program, bits, and whether it is cold or inside a fit) at one M; its cells are the
lengths d, measured from the smallest up. A cell that would take longer than the limit is scaled from those before it,
if they are near enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pdml_spdz.bench import embedded, mp_spdz
from pdml_spdz.bench.links import Costs, run_processes, seconds, slowest
from pdml_spdz.bench.results import (
    ERROR,
    Cell,
    Check,
    Key,
    Measurement,
    Quartiles,
    Step,
    exact,
    line,
    scaled,
    spread,
    straight,
)
from pdml_spdz.engines.mp_spdz import home

# [PDML Table "Execution time in seconds per one invocation"]: online with conversion, {M: {d: seconds}}.
PAPER = {
    2: {100: 1.4, 1000: 11.5, 10000: 113.9},
    3: {100: 2.1, 1000: 17.4, 10000: 168.1},
    4: {100: 3.5, 1000: 29.3, 10000: 293.0},
    5: {100: 4.6, 1000: 40.3, 10000: 403.9},
}
ENGINES = ("embedded", "mp-spdz")
PROTOCOLS = ("semi", "hemi", "mascot")
PEER_BITS = 24  # what MPyC is fastest at, of what comes near 31: its field then fits machine words
FARTHEST = 10  # times the longest measured d, for a cell to be scaled: beyond, noise would be scaled with it
WINDOWED = (3,)  # parties for which an iteration is measured in the default window, too
WINDOW = "in the window s"  # that iteration
NOT_RUN = "not run"  # what a missing cell begins with that could have been measured
Say = Callable[[str], None]


@dataclass(frozen=True)
class TableRequest:
    """What to measure: every combination; k columns in a fit; cells that take longer than `limit` are scaled."""

    parties: tuple[int, ...] = (2, 3, 4, 5)
    dims: tuple[int, ...] = (100, 1000, 10000)
    engines: tuple[str, ...] = ENGINES
    protocols: tuple[str, ...] = PROTOCOLS
    programs: tuple[str, ...] = ("projection", "paper")
    where: tuple[str, ...] = ("cold", "fit")
    bits: tuple[int, ...] = (31,)
    k: int = 7
    repeats: int = 5
    limit: float = 30.0
    outside: tuple[int, ...] = (3,)  # for how many parties other frameworks run
    paper_dims: tuple[int, ...] = ()  # where the paper's program is measured however long it takes


@dataclass(frozen=True)
class Framework:
    """The same by another framework.

    missing : why it cannot be run for M parties, and what to do about it; empty if it can
    run : (M, d, bits, repeats) -> of each repetition "seconds", "sent" (bytes, or None) and "error" (in ulp)
    """

    name: str
    protocol: str
    missing: Callable[[int], str]
    run: Callable[[int, int, int, int], list[dict[str, Any]]]


@dataclass(frozen=True)
class TableRow:
    engine: str
    protocol: str
    program: str
    where: str
    bits: int
    M: int

    def key(self, d: int) -> Key:
        return asdict(self) | {"d": d}


def rows(r: TableRequest, peers: Sequence[Framework] = ()) -> Iterator[TableRow]:
    """The engines by turns for each M, so that what is compared was measured close together."""
    for M in r.parties:
        for bits in r.bits:
            if "embedded" in r.engines:
                yield from (TableRow("embedded", "OT", "projection", where, bits, M) for where in r.where)
            for protocol in r.protocols if "mp-spdz" in r.engines else ():
                if "projection" in r.programs:
                    yield from (TableRow("mp-spdz", protocol, "projection", where, bits, M) for where in r.where)
                if "paper" in r.programs:
                    yield TableRow("mp-spdz", protocol, "paper", "cold", bits, M)
        if M in r.outside:
            for f in sorted({PEER_BITS, *r.bits}):
                yield from (TableRow(peer.name, peer.protocol, "norm", "cold", f, M) for peer in peers)


def measure(
    request: TableRequest, step: Step = lambda done, of, text: None, peers: Sequence[Framework] = ()
) -> Measurement:
    """The whole table; `step` is told how many cells are done."""
    cells: list[Cell] = []
    plan, named = list(rows(request, peers)), {peer.name: peer for peer in peers}
    total = len(plan) * len(request.dims)

    def say(text: str) -> None:
        step(len(cells), total, text)

    for row in plan:
        if row.engine in named:
            missing = named[row.engine].missing(row.M)
        else:
            missing = _not_installed(row.protocol) if row.engine == "mp-spdz" else ""
        if missing:
            cells += [Cell(row.key(d), missing=missing) for d in request.dims]
        elif row.program == "paper":
            say(f"{row.engine} {row.protocol}, the paper's program, M = {row.M}")
            whole = mp_spdz.PaperLengths(tuple(sorted(request.dims)), request.limit, request.paper_dims)
            found = mp_spdz.paper(row.M, whole, row.bits, row.protocol)
            cells += [Cell(row.key(d), values, scaled_from) for d, (values, scaled_from) in found.items()]
        else:
            cells += climb(row, request, say, lambda row, d, request: _cell(row, d, request, named.get(row.engine)))
    say("done")
    result = Measurement("normed-sum", asdict(request), cells, notes=list(NOTES))
    return replace(result, checks=checks(result, request.k))


NOTES = (
    "online: from floats to floats, conversion included as in the paper; offline and base OTs apart. Inside a fit: one "
    "of k columns of an iteration. Seconds are those of the slowest party, MB those that a party sent.",
    "mp-spdz in a fit: of 50 columns, with d = 10,000 or with MACs of 10. The paper's program and mascot ran once: "
    "mascot, and the paper's program where that takes minutes, both phases together, and then `with start` is of both.",
    "embedded and mp-spdz: dishonest majority, TLS; mascot against malicious parties, too. MPyC and SPU: honest "
    "majority, no TLS: weaker trust.",
    "~ was not measured at this d but scaled from the d in brackets.",
)


def climb(row: TableRow, request: TableRequest, say: Say, measure_cell: Callable[..., Cell]) -> list[Cell]:
    """The row's cells from the smallest d up; beyond the limit they are scaled from two or more that were measured."""
    dims = sorted(request.dims)
    measured: list[Cell] = []
    took: list[float] = []
    cells = []

    def one(d: int) -> Cell:
        say(f"{row.engine} {row.where}, {row.program}, M = {row.M}, d = {d:,}")
        began = time.monotonic()
        measured.append(measure_cell(row, d, request))
        took.append(time.monotonic() - began)
        return measured[-1]

    if dims[0] >= 1000 and request.limit < math.inf:  # without a limit nothing is forecast or scaled
        one(dims[0] // 10)
    for d in dims:
        if forecast([int(c.key["d"]) for c in measured], took, d) <= request.limit:
            cells.append(one(d))
            continue
        if len(measured) == 1:
            one(2 * int(measured[0].key["d"]))  # a line needs two points
        far = d > FARTHEST * int(measured[-1].key["d"])
        text = f"{NOT_RUN}: over --limit {request.limit:g} s, too far to be scaled"
        cells.append(Cell(row.key(d), missing=text) if far else scaled(measured, row.key(d), d))
    return cells


def forecast(dims: list[int], seconds: list[float], d: int) -> float:
    """How long a cell at d will take, from those that were measured.

    From one alone nobody knows how much of its time grows with d: somewhere between none and all of it.
    """
    if not dims:
        return 0.0
    if len(dims) == 1:
        return seconds[0] * math.sqrt(d / dims[0])
    return max(line(dims[-2:], seconds[-2:]).at(d), seconds[-1])


def _not_installed(protocol: str) -> str:
    found = home.find()
    if found is None:
        return "not installed: `pdml-spdz mp-spdz install`, or MP_SPDZ_HOME=DIR (docs/mp-spdz.md)"
    if found.binary(f"{protocol}-party.x") is None:
        return f"no {protocol}-party.x: `pdml-spdz mp-spdz list` says which protocols are there"
    return ""


def _cell(row: TableRow, d: int, request: TableRequest, peer: Framework | None) -> Cell:
    if peer is not None:
        found = peer.run(row.M, d, row.bits, max(2, request.repeats // 2))
        values = {"online s": spread([f["seconds"] for f in found]), ERROR: exact(max(f["error"] for f in found))}
        if found[0]["sent"] is not None:
            values["online MB"] = spread([f["sent"] / 1e6 for f in found])
    elif row.engine == "mp-spdz":
        values = mp_spdz.projection(row.M, d, row.bits, row.protocol, row.where, request.repeats)
    else:
        values = _cold(row, d, request.repeats) if row.where == "cold" else _fit(row, d, request.k, request.repeats)
    return Cell(row.key(d), values)


def _cold(row: TableRow, d: int, repeats: int) -> dict[str, Quartiles]:
    parties = run_processes(row.M, lambda link: embedded.cold(link, d, row.bits, repeats))
    calls, material, base = (slowest([getattr(p, name) for p in parties]) for name in ("calls", "material", "base"))
    whole = list(zip(calls, material, base, strict=True))
    values = _online(calls) | {
        "offline s": spread([m.offline for m in material]),
        "base OT s": spread([b.offline for b in base]),
        "total s": spread([c.online + m.offline + b.offline for c, m, b in whole]),
        "cpu s": spread([sum(cost.cpu for cost in costs) for costs in whole]),
        "offline MB": spread([(m.offline_sent + b.offline_sent) / 1e6 for _, m, b in whole]),
    }
    return values | _material(parties[0].plan, 1, parties)


def _fit(row: TableRow, d: int, k: int, repeats: int) -> dict[str, Quartiles]:
    """One of the k columns of an iteration; what a fit pays once apart."""
    parties = run_processes(row.M, lambda link: embedded.fit(link, d, k, row.bits, repeats))
    calls, sums = slowest([p.calls for p in parties]), slowest([list(p.sums) for p in parties])
    columns = k * (embedded.WARM + repeats)
    offline = max(p.material[0].offline for p in parties) / columns
    values = {name: value.times(1 / k) for name, value in _online(calls).items()}
    online = values["online s"]
    values |= {
        "rounds": spread([c.rounds for c in calls]),  # of the whole block: columns share them
        "offline s": exact(offline),
        "base OT s": exact(max(p.base[0].offline for p in parties)),
        "total s": Quartiles(online.median + offline, online.low + offline, online.high + offline, online.n),
        "offline MB": exact(max(p.material[0].offline_sent for p in parties) / columns / 1e6),
        "scale once s": exact(max(p.once.online for p in parties if p.once)),
        "iteration s": spread([c.online for c in calls]),
        "secsum s": spread([c.online for c in sums]),
        "secsum MB": exact(sums[0].sent / 1e6),
    }
    if row.M in WINDOWED:
        wider = run_processes(row.M, lambda link: embedded.fit(link, d, k, row.bits, repeats, window=True))
        values[WINDOW] = spread([c.online for c in slowest([p.calls for p in wider])])
    return values | _material(parties[0].plan, columns, parties)


def _online(calls: list[Costs]) -> dict[str, Quartiles]:
    counts = {"rounds": spread([c.rounds for c in calls]), "online MB": spread([c.sent / 1e6 for c in calls])}
    return seconds(calls) | counts


def _material(plan: Any, columns: int, parties: list[Any]) -> dict[str, Quartiles]:
    return {
        "triples": exact(plan.triples / columns),
        "numbers": exact(plan.numbers / columns),
        ERROR: exact(max(p.error for p in parties)),
    }


def checks(result: Measurement, k: int) -> list[Check]:
    """What was promised of M = 3 on one machine, of what was measured in this run."""
    found: list[Check] = []

    def add(what: str, a: Cell, b: Cell, names: tuple[str, str], wanted: float, *, at_least: bool = True) -> None:
        over = a.values[names[0]].median / b.values[names[1]].median
        found.append(Check(what, over, wanted, at_least, " times", bool(a.scaled_from or b.scaled_from)))

    at = {"M": 3, "d": 10000}
    cold, fit = (result.find(engine="embedded", where=w, bits=31, **at) for w in ("cold", "fit"))
    for f in (PEER_BITS, 31):
        peer = result.find(engine="mpyc", bits=f, **at)
        if peer and cold:
            add(f"cold, d = 10^4: MPyC (f = {f}) / embedded online", peer, cold, ("online s", "online s"), 20)
            add(f"cold, d = 10^4: MPyC (f = {f}) / embedded with offline", peer, cold, ("online s", "total s"), 4)
        if peer and fit:
            name = f"in a fit (k = {k}), d = 10^4: MPyC (f = {f}) / embedded with offline"
            add(name, peer, fit, ("online s", "total s"), 20)
    if fit:
        name = f"in a fit (k = {k}), d = 10^4: iteration online / SecSum of the same block"
        add(name, fit, fit, ("iteration s", "secsum s"), 4, at_least=False)
        if WINDOW in fit.values:
            add(f"{name}, default window", fit, fit, (WINDOW, "secsum s"), 5.5, at_least=False)
    if cold and (peer := result.find(engine="spu", bits=31, **at)):
        add("cold, d = 10^4: embedded online / SPU", cold, peer, ("online s", "online s"), 1, at_least=False)
    if cold:
        found.append(Check("cold, d = 10^4: rounds online", cold.values["rounds"].median, 110, at_least=False))
    small = {"M": 3, "d": 100, "bits": 31}
    paper = result.find(engine="mp-spdz", protocol="semi", program="paper", **small)
    for engine, faster, lighter in (("embedded", 300, 500), ("mp-spdz", 100, 100)):
        fit = result.find(engine=engine, program="projection", where="fit", **small)
        if paper and fit:
            name = f"in a fit, d = 100: the paper's program on MP-SPDZ (semi) / {engine}"
            add(f"{name}, online", paper, fit, ("online s", "online s"), faster)
            add(f"{name}, offline bytes", paper, fit, ("offline MB", "offline MB"), lighter)
    mine = [c for c in result.cells if c.fits(engine="embedded", where="cold")]
    names = ("online MB", "offline MB", "cpu s")
    return [*found, *straight(mine, "d", names), *straight(mine, "M", names)]
