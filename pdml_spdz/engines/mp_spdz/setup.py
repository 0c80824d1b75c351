"""From a study, and what a party brings, to the engine mp-spdz, the plan of its offline phase, and its stocks."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdml_spdz.engines.mp_spdz import home, offline
from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.engine import CompiledPlan, MpSpdzEngine, layout_of
from pdml_spdz.engines.mp_spdz.place import MATERIAL, Place
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing, facts
from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.mp_spdz.ready import check_sealed
from pdml_spdz.engines.mp_spdz.sealed_execution import check_size
from pdml_spdz.engines.openings.base import Layout
from pdml_spdz.engines.spec import Context, Note, Stocks, precision_of, sealed_precision_of
from pdml_spdz.offline.stock import look
from pdml_spdz.programs.render import render_sealed
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import Study

# What else determines a program; and the bound, without which not every range is taken.
FURTHER = ("reveal", "normalise", "online", "program", "centre", "accuracy_goal", "decay", "block", "ratios", "bound")


def make(context: Context) -> MpSpdzEngine:
    study = context.study
    return MpSpdzEngine(_place(context), context.session, precision_of(study), study.offline, study.aggregator)


def prepare(context: Context, shape: Shape | None) -> None:
    """
    1. the parties' MP-SPDZ is the same, before any of them compiles with it
    2. the program of a fit of this shape, which the compiler takes, is the same too
    3. where the study wants stocks, there is one for it

    Reveals: versions, a digest of public text, which stocks there are. Cost: three rounds. Ref: -
    """
    study = context.study
    if not study.on_shares:
        return
    place = _place(context)
    place.same_compiler()
    if shape is None:
        return
    if study.level.sealed:
        check_sealed(study, shape.d, place.binary())
    compiled = plan(study, shape, context.home, context.note).compiled
    place.same_bytecode(compiled)
    if study.offline == "stock":
        place.stocks_for(compiled, context.session, shape.d)


def plan(study: Study, shape: Shape, given: Path | None, note: Note) -> CompiledPlan:
    if study.level.sealed:
        return _sealed_plan(study, shape, given, note)
    chosen, precision, most = protocol_of(study), precision_of(study), study.spec.shape(study, shape.d).tau
    expected = min(shape.expected or most, most)

    def layout_for(iterations: int) -> Layout:
        return layout_of(study.opening, precision, shape, study.online, iterations, own_masks=chosen.own_masks)

    def compiled(iterations: int) -> Compiled:
        return compile_program(layout_for(iterations).program, precision, chosen, home.require(given), note=note)

    return CompiledPlan(shape, layout_for(most), study.M, chosen, compiled(most), expected, lambda: compiled(expected))


def _sealed_plan(study: Study, shape: Shape, given: Path | None, note: Note) -> CompiledPlan:
    check_size(shape.d)
    chosen, precision = protocol_of(study), sealed_precision_of(study, shape.d)
    layout = Layout(render_sealed(precision), precision.columns, 1, stream=True)
    compiled = compile_program(layout.program, precision, chosen, home.require(given), note=note)
    return CompiledPlan(shape, layout, study.M, chosen, compiled, shape.tau, lambda: compiled)


def make_stock(context: Context, plan: CompiledPlan) -> dict[str, Any]:
    """One stock for each execution of the program, and of the iterations that are expected."""
    place, compiled, executions = _place(context), plan.compiled, plan.stocks
    place.same_bytecode(compiled)
    place.same_bytecode(plan.few)

    def progress(done: int, of: int) -> None:
        context.notify({"event": "offline", "done": done, "of": of, "detail": "bytes on disk, about"})

    made = []
    for i in range(executions):
        if executions > 1:
            context.note(f"stock {i + 1} of {executions}")
        made.append(offline.make(place, compiled, progress, plan.few))
    return {
        "stock": made[0],
        "stocks": made,
        "protocol": place.protocol.name,
        "counts": asdict(plan.few.counts),
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
        lambda d: remedy(study, d, context.stocks, context.home),
        context.note,
        study.timeouts.work,
    )


def remedy(study: Study, d: int, stocks: Path, given: Path | None) -> str:
    """How a stock for a run of the study on d features is made, in words that can be pasted.

    stocks : where the run looks for it; given : where MP-SPDZ is, if the user has said so
    """
    return (
        "make one at every party with `pdml-spdz offline make STUDY --id I` (and with --stock and --mp-spdz as in its "
        f"run), or, for a local run, with `{_making(study, d, stocks, given)}`; or pass --offline on-demand"
    )


def _making(study: Study, d: int, stocks: Path, given: Path | None) -> str:
    """The whole command for all parties on this machine, whatever directory it is called in."""
    options: dict[str, object] = {
        "algorithm": study.algorithm,
        "parties": study.M,
        "dim": d,
        "rank": study.rank,
        "iterations": study.iterations,
        "solver": study.solver,
        "engine": study.engine,
        "protocol": protocol_of(study).name,
        "bits": study.precision.bits,
        "range": study.range,
    }
    more = {name: getattr(study, name) for name in FURTHER}
    if quotas := [party.quota for party in study.parties if party.quota]:
        more["bound"] = max(quotas)  # of every agreed bound the program is the same
    options |= {name: value for name, value in more.items() if value != study.usual(name)}
    options |= {"stock": stocks.absolute()} | ({"mp_spdz": given.absolute()} if given else {})
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    flags = ["--insecure-benchmark"] if study.insecure_benchmark else []
    return shlex.join(["pdml-spdz", "offline", "make", *words, *flags])
