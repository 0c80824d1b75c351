"""From a study, and what a party brings, to the engine mp-spdz, the plan of its offline phase, and its stocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdml_spdz.engines.mp_spdz import home, offline
from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.engine import MpSpdzEngine, MpSpdzOptions, layout_of
from pdml_spdz.engines.mp_spdz.place import MATERIAL, Place
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing, facts
from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.settings import iterations_of, precision_of, shape_of
from pdml_spdz.engines.spec import Context, OfflinePlan, Stocks
from pdml_spdz.offline.stock import look
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.study.model import Study


def make(context: Context) -> MpSpdzEngine:
    return MpSpdzEngine(_place(context), context.session, _options(context.study))


def plan(study: Study, given: Path | None) -> OfflinePlan:
    compiled, executions = _compiled(study, home.require(given))
    chosen = protocol_of(study)
    disk = executions * offline.forecast(compiled, malicious=chosen.malicious)
    text = (
        f"material for one run of {study.M} parties with {chosen.name}, over {compiled.domain}: "
        f"{compiled.counts.in_words}, {executions} time(s), by MP-SPDZ's own count\n"
        f"forecast for each party: about {disk / 1e6:,.1f} MB on disk"
    )
    return OfflinePlan(text, {"counts": asdict(compiled.counts), "domain": compiled.domain, "executions": executions})


def make_stock(context: Context) -> dict[str, Any]:
    """One stock for each execution of the program."""
    place = _place(context)
    compiled, executions = _compiled(context.study, place.home, context.note)
    Agreement(context.link).digest("bytecode", compiled.digest.encode())

    def progress(done: int, of: int) -> None:
        context.notify({"event": "offline", "done": done, "of": of, "detail": "bytes on disk, about"})

    made = []
    for i in range(executions):
        if executions > 1:
            context.note(f"stock {i + 1} of {executions}")
        made.append(offline.make(place, compiled, progress))
    return {
        "stock": made[0],
        "stocks": made,
        "protocol": place.protocol.name,
        "counts": asdict(compiled.counts),
        "bytes_sent": None,  # MP-SPDZ's offline programs do not say
        "path": str(place.stocks),
    }


def stocks(root: Path) -> Stocks:
    found = [facts(part) for part in look(Preprocessing, root / MATERIAL)]
    rows = []
    for s in sorted(found, key=lambda s: (s["created"] or "", s["id"], s["party"])):
        row = [s["id"], f"P{s['party']}", *(str(s[key] or "?") for key in ("parties", "protocol", "program"))]
        claims = ", ".join(f"{claim['run'][:12]} ({claim['time']})" for claim in s["claims"]) or "nobody"
        triples = f"{s['counts']['triples']:,}" if s["counts"] else "?"
        rows.append([*row, triples, f"{s['bytes'] / 1e6:.1f}", s["created"] or "?", s["problem"] or claims])
    columns = ("stock", "party", "of", "protocol", "program", "triples", "MB", "made", "claimed by")
    return Stocks(columns, rows, found, "MP-SPDZ, one execution each")


def _place(context: Context) -> Place:
    """Where and how this party's virtual machines run."""
    study = context.study
    return Place(
        context.link,
        context.identity,
        home.require(context.home),
        protocol_of(study),
        [p.host for p in study.parties],
        [p.mp_spdz_port for p in study.parties],
        context.stocks.absolute(),
        context.directory,
        study.timeouts.round,
        study.insecure_benchmark,
        context.note,
    )


def _options(study: Study) -> MpSpdzOptions:
    return MpSpdzOptions(
        precision_of(study),
        study.online,
        study.offline,
        iterations_of(study),
        protocol_of(study).own_masks,
        study.aggregator,
    )


def _compiled(
    study: Study, found: home.Installation, note: Callable[[str], None] = lambda text: None
) -> tuple[Compiled, int]:
    """What one run of the study executes on MP-SPDZ, and how often: each execution needs a stock of its own."""
    options = _options(study)
    layout = layout_of(study.opening, options, shape_of(study))
    compiled = compile_program(layout.program, options.precision, protocol_of(study), found, note=note)
    return compiled, layout.executions
