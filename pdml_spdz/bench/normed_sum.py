"""The paper's table: the time of one NormedSecSum, by M, d and engine. [PDML App. NormedSecSum, efficiency]

A row is an engine (with protocol, program, bits, and whether it is cold or inside a fit) at one M; its cells are the
lengths d, measured from the smallest up. Of a cell that would take longer than the limit, seconds are scaled from those
before it, if they are near enough. Each cell is handed on when it is known, and one that fails says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
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
    load,
    scaled,
    spread,
    straight,
)
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.errors import InputError, PdmlError

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
# Seconds that a cell takes, about, with three parties and five repetitions on two cores: at any length, and for each
# 1,000 numbers. By what computes and how; others are taken for OTHER.
SECONDS = {
    ("embedded", "cold"): (2.5, 0.3),
    ("embedded", "fit"): (3.0, 0.6),
    ("semi", "cold"): (8.0, 2.0),
    ("semi", "fit"): (10.0, 60.0),
    ("semi", "paper"): (5.0, 300.0),
    ("hemi", "cold"): (15.0, 2.0),
    ("hemi", "fit"): (10.0, 15.0),
    ("hemi", "paper"): (5.0, 300.0),
    ("mascot", "cold"): (45.0, 5.0),
    ("mascot", "fit"): (30.0, 40.0),
    ("mascot", "paper"): (5.0, 25_000.0),
}
OTHER = (10.0, 10.0)
STOPPED = "stopped before the end: the same command goes on with what is missing"
WINDOWED = (3,)  # parties for which an iteration is measured in the default window, too
WINDOW = "in the window s"  # that iteration
NOT_RUN = "not run"  # what a missing cell begins with that could have been measured
Say = Callable[[str], None]


@dataclass(frozen=True)
class TableRequest:
    """What to measure: every combination; k columns in a fit; cells that would take longer than `limit` are not."""

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
    request: TableRequest,
    step: Step = lambda done, of, text: None,
    peers: Sequence[Framework] = (),
    known: Sequence[Cell] = (),
    keep: Callable[[Measurement], object] = lambda result: None,
) -> Measurement:
    """The whole table. step : is told how many cells are done; known : cells of an earlier call, of which those that
    were measured are not measured again; keep : is given the table after each cell
    """
    cells: list[Cell] = []
    named, before = {peer.name: peer for peer in peers}, measured_before(known)
    own = asked(request, peers)
    result = Measurement("normed-sum", asdict(request), cells, notes=list(NOTES))

    def say(text: str) -> None:
        step(len(cells), len(own), text)

    def whole() -> Measurement:
        return replace(result, cells=[*cells, *(c for c in known if c.identity not in {c.identity for c in cells})])

    def measured(row: TableRow, d: int, request: TableRequest) -> Cell:
        return _cell(row, d, request, named.get(row.engine))

    try:
        for row in rows(request, peers):
            if missing := _missing(row, peers):
                cells += [before.get((cell := Cell(row.key(d), missing=missing)).identity, cell) for d in request.dims]
                continue
            for cell in climb(row, request, say, measured, before):
                cells.append(cell)
                keep(whole())
        say("done")
    except KeyboardInterrupt:
        result.notes.append(STOPPED)
    return replace(whole(), checks=checks(whole(), request.k))


def asked(request: TableRequest, peers: Sequence[Framework] = ()) -> set[Any]:
    """What a request's cells are, by their identities."""
    return {Cell(row.key(d)).identity for row in rows(request, peers) for d in request.dims}


def kept(file: Path, request: TableRequest) -> list[Cell]:
    """The cells of a file; InputError if they were measured in another way than is asked for now."""
    before, version = load(file), home.find()
    now = {"k": request.k, "repeats": request.repeats, "mp_spdz": version.version() if version else None}
    then = now | before.settings | {"mp_spdz": before.origin.get("mp_spdz") or now["mp_spdz"]}
    if differing := [name for name in now if now[name] != then[name]]:
        raise InputError(
            f"{file} was measured with {', '.join(f'{name} {then[name]}' for name in differing)}.",
            ", ".join(f"{name} {now[name]}" for name in differing),
            "pass another --json FILE",
        )
    return before.cells


def measured_before(known: Sequence[Cell]) -> dict[Any, Cell]:
    return {cell.identity: cell for cell in known if cell.values and not cell.scaled_from}


def to_do(request: TableRequest, known: Sequence[Cell] = (), peers: Sequence[Framework] = ()) -> list[float]:
    """Seconds of each cell that is to be measured, about."""
    before, there = measured_before(known), [row for row in rows(request, peers) if not _missing(row, peers)]
    new = [expected(row, d) for row in there for d in request.dims if Cell(row.key(d)).identity not in before]
    return [seconds for seconds in new if seconds <= request.limit]


NOTES = (
    "online: from floats to floats, conversion included as in the paper; offline and base OTs apart. Inside a fit: one "
    "of k columns of an iteration. Seconds are those of the slowest party, MB those that a party sent.",
    "mp-spdz in a fit: of 50 columns, with d = 10,000 or with MACs of 10. The paper's program and mascot ran once: "
    "both phases together where no stock was made, and then `with start` is of both.",
    "embedded and mp-spdz: dishonest majority, TLS; mascot against malicious parties, too. MPyC and SPU: honest "
    "majority, no TLS: weaker trust.",
    "~ was not measured at this d but scaled from the d in brackets: seconds alone, never bytes, rounds or triples.",
)


def climb(
    row: TableRow,
    request: TableRequest,
    say: Say,
    measure_cell: Callable[[TableRow, int, TableRequest], Cell],
    before: Mapping[Any, Cell] = MappingProxyType({}),
) -> Iterator[Cell]:
    """The row's cells from the smallest d up. before : those that are known, by their identities"""
    measured: list[Cell] = []
    pace, failed = 1.0, 0  # of this machine: what the last cell took, over what was expected
    for d in sorted(request.dims):
        say(f"{row.engine} {row.protocol} {row.where}, {row.program}, M = {row.M}, d = {d:,}")
        key, seconds = row.key(d), pace * expected(row, d)
        if (cell := before.get(Cell(key).identity)) is not None:
            measured.append(cell)
        elif failed:
            cell = Cell(key, missing=f"{NOT_RUN}: it failed at d = {failed:,}")
        elif seconds > request.limit:
            near = len(measured) >= 2 and d <= FARTHEST * int(measured[-1].key["d"])
            text = f"{NOT_RUN}: some {seconds:,.0f} s, over --limit {request.limit:g} s"
            cell = scaled(measured, key, d) if near else Cell(key, missing=text)
        else:
            began = time.monotonic()
            try:
                measured.append(cell := measure_cell(row, d, request))
                pace = (time.monotonic() - began) / expected(row, d)
            except PdmlError as error:
                cell, failed = Cell(key, missing=f"failed: {error.found.splitlines()[0]}"), d
        yield cell


def expected(row: TableRow, d: int) -> float:
    """Seconds that a cell takes, about. What parties send each other grows with their pairs."""
    name = row.protocol if row.engine == "mp-spdz" else row.engine
    once, each = SECONDS.get((name, "paper" if row.program == "paper" else row.where), OTHER)
    return (once + each * d / 1000) * row.M * (row.M - 1) / 6


def _missing(row: TableRow, peers: Sequence[Framework]) -> str:
    """Why a row cannot be measured here; empty if it can."""
    if row.engine == "mp-spdz":
        if (found := home.find()) is None:
            return "not installed: MP_SPDZ_HOME=DIR (docs/mp-spdz.md)"
        if found.binary(f"{row.protocol}-party.x") is None:
            return f"no {row.protocol}-party.x: `pdml-spdz mp-spdz list` says which protocols are there"
    return next((peer.missing(row.M) for peer in peers if peer.name == row.engine), "")


def _cell(row: TableRow, d: int, request: TableRequest, peer: Framework | None) -> Cell:
    if peer is not None:
        found = peer.run(row.M, d, row.bits, max(2, request.repeats // 2))
        values = {"online s": spread([f["seconds"] for f in found]), ERROR: exact(max(f["error"] for f in found))}
        if found[0]["sent"] is not None:
            values["online MB"] = spread([f["sent"] / 1e6 for f in found])
    elif row.engine == "mp-spdz":
        values = mp_spdz.cell(row.M, d, row.bits, row.protocol, row.program, row.where, request.repeats)
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
        if names[0] not in a.values or names[1] not in b.values:  # of a scaled cell only seconds are known
            return
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
    if cold and "rounds" in cold.values:
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
