"""From a study and what a party brings to the engine that runs it, and to the plan of its offline phase.

An engine is imported by the function that makes it: a party loads its own, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.errors import StockError, StudyError
from pdml_spdz.programs.precision import F_G, FULL_G, Precision
from pdml_spdz.run.context import PartyRun, stock_root
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity

if TYPE_CHECKING:
    from pdml_spdz.engines.embedded.engine import Options, Source
    from pdml_spdz.engines.mp_spdz.compiler import Compiled
    from pdml_spdz.engines.mp_spdz.engine import MpSpdzOptions
    from pdml_spdz.engines.mp_spdz.home import Installation
    from pdml_spdz.engines.mp_spdz.place import Place
    from pdml_spdz.offline.material import Material, Plan
    from pdml_spdz.offline.stock import Kind

DEFAULT_PROTOCOL = "semi"


def make_engine(run: PartyRun, link: Link, session: bytes, identity: Identity) -> Engine:
    """The study's engine on this link; `session` is the public identity of the run."""
    engine = _engine(run, link, session, identity)
    if run.transcript is None:
        return engine
    from pdml_spdz.engines.recording import RecordingEngine

    return RecordingEngine(engine, run.transcript)


def _engine(run: PartyRun, link: Link, session: bytes, identity: Identity) -> Engine:
    study = run.study
    if study.engine == "plain":
        from pdml_spdz.engines.plain import PlainEngine

        return PlainEngine(link)
    if study.engine == "secsum":
        from pdml_spdz.engines.secsum import SecSumEngine

        return SecSumEngine(link, session, study.aggregator)
    if study.engine == "mp-spdz":
        from pdml_spdz.engines.mp_spdz.engine import MpSpdzEngine

        return MpSpdzEngine(make_place(run, link, identity), session, mp_spdz_options(study))
    from pdml_spdz.engines.embedded.engine import EmbeddedEngine

    return EmbeddedEngine(link, session, embedded_options(study, _source(run, session)))


def make_place(run: PartyRun, link: Link, identity: Identity) -> Place:
    """Where and how this party's virtual machines run."""
    from pdml_spdz.engines.mp_spdz import home
    from pdml_spdz.engines.mp_spdz.place import Place
    from pdml_spdz.engines.mp_spdz.protocols import protocol

    study = run.study
    return Place(
        link,
        identity,
        home.require(run.mp_spdz),
        protocol(study.protocol or DEFAULT_PROTOCOL),
        [p.host for p in study.parties],
        [p.mp_spdz_port for p in study.parties],
        stock_root(run.stock).absolute(),
        run.directory,
        study.timeouts.round,
        study.insecure_benchmark,
        run.note,
    )


def precision_of(study: Study) -> Precision:
    # MP-SPDZ's primes have no room for all bits of g.
    f_g = F_G if study.engine == "mp-spdz" else FULL_G
    usual = Precision(study.M, study.precision.bits, study.range, f_g=f_g)
    if study.algorithm != "normed-sum":
        return usual
    # For any vector and a random g: 1/(g.u) may be larger than between iterates, if the ring has room for it.
    wider = (replace(usual, H=h) for h in range(usual.H, 21))
    return max((p for p in wider if p.vector_bits == usual.vector_bits), key=lambda p: p.H)


def embedded_options(study: Study, source: Source) -> Options:
    """How the embedded engine is to run this study."""
    from pdml_spdz.engines.embedded.engine import Options

    normalise = "per-column" if study.algorithm == "normed-sum" else study.normalise
    return Options(
        precision_of(study),
        normalise,
        source,
        study.aggregator,
        study.online,
        study.program,
        hidden=study.centre == "hidden",
        lpn=study.vole == "lpn",
    )


def mp_spdz_options(study: Study) -> MpSpdzOptions:
    """How the engine mp-spdz is to run this study."""
    from pdml_spdz.engines.mp_spdz.engine import MpSpdzOptions
    from pdml_spdz.engines.mp_spdz.protocols import protocol

    normalise = "per-column" if study.algorithm == "normed-sum" else study.normalise
    return MpSpdzOptions(
        precision_of(study),
        normalise,
        study.online,
        study.offline,
        study.iterations if study.algorithm != "normed-sum" else 1,
        protocol(study.protocol or DEFAULT_PROTOCOL).own_masks,
        study.program,
        study.aggregator,
        hidden=study.centre == "hidden",
    )


def stock_plan(study: Study) -> tuple[Plan, Kind]:
    """What one run of the study takes from the embedded engine's offline phase."""
    from pdml_spdz.engines.embedded.engine import program_and_plan

    if study.engine != "embedded":
        raise StudyError(f"the study has engine {study.engine!r}.", "an engine that has an offline phase")
    options = embedded_options(study, _no_source)
    _, _, plan = program_and_plan(options, _shape(study))
    return plan, _kind(study, options.precision)


def _kind(study: Study, p: Precision) -> Kind:
    from pdml_spdz.offline.stock import Kind

    return Kind(study.M, p.vector_bits, p.scalar_bits, study.vole)


def mp_spdz_plan(
    study: Study, found: Installation, note: Callable[[str], None] = lambda text: None
) -> tuple[Compiled, int]:
    """What one run of the study executes on MP-SPDZ, and how often: each execution needs a stock of its own."""
    from pdml_spdz.engines.mp_spdz.compiler import compile_program
    from pdml_spdz.engines.mp_spdz.engine import program_for
    from pdml_spdz.engines.mp_spdz.protocols import protocol

    options = mp_spdz_options(study)
    program, _, executions = program_for(options, _shape(study))
    chosen = protocol(study.protocol or DEFAULT_PROTOCOL)
    return compile_program(program, options.precision, chosen, found, note=note), executions


def _shape(study: Study) -> Shape:
    d = study.d or len(study.features)
    if not d:
        raise StudyError(
            "the study does not say how many features there are.",
            "a number of features: the offline phase needs it before there is any data",
            "set `d` (or `features`) in the study (`init --dim D`), or pass --dim without a study",
        )
    return Shape(d, study.rank, study.iterations) if study.algorithm != "normed-sum" else Shape(d, 1, 1)


def _source(run: PartyRun, session: bytes) -> Source:
    """Where this run takes its offline material from, as the study's `offline` says; all parties decide alike."""

    def source(link: Link, plan: Plan, p: Precision) -> Material:
        wanted = f"{plan.triples:,} triples, {plan.numbers:,} numbers"
        if run.study.offline != "on-demand":
            from pdml_spdz.offline.spend import StockMaterial
            from pdml_spdz.offline.stock import find

            stocks = find(stock_root(run.stock), _kind(run.study, p), link.me)
            material = StockMaterial(link, stocks, session)
            try:
                material.check(plan)
            except StockError as error:
                # `common`: raised at all parties alike, so that all of them take the other way.
                if run.study.offline == "stock" or not error.common:
                    raise
            else:
                run.note(f"offline material from a stock: at most {wanted}")
                return material
        from pdml_spdz.offline.on_demand import OnDemand

        run.note(f"offline material made in the run, no stock: at most {wanted}")
        return OnDemand(link, session, p.vector_bits, p.scalar_bits, lpn=run.study.vole == "lpn")

    return source


def _no_source(link: Link, plan: Plan, p: Precision) -> Material:
    raise StudyError("a plan needs no material.")
