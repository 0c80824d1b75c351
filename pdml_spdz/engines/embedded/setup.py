"""From a study, and what a party brings, to the embedded engine, the plan of its offline phase, and its stocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.embedded.engine import EmbeddedEngine, Options, Source, layout_and_plan
from pdml_spdz.engines.embedded.sealed_forecast import forecast
from pdml_spdz.engines.settings import precision_of, sealed_precision_of, shape_of
from pdml_spdz.engines.spec import Context, OfflinePlan, Stocks
from pdml_spdz.errors import StockError, StudyError
from pdml_spdz.offline import make as making
from pdml_spdz.offline.lattice_products import products_by_lattice
from pdml_spdz.offline.mask_products import Maker
from pdml_spdz.offline.material import Material, Plan
from pdml_spdz.offline.numbers import Kind, NumberStock, StockMaterial
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.offline.status import Row, status
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link


def make(context: Context) -> Engine:
    if not context.study.on_shares:  # only SecSum is left of it
        from pdml_spdz.engines.secsum import SecSumEngine  # which other runs have no use for

        engine = SecSumEngine(context.link, context.session, context.study.aggregator)
        engine.name = EmbeddedEngine.name
        return engine
    options = _options(context.study, _source(context))
    if context.study.level.sealed:
        options = replace(options, products=_watched(context))
    return EmbeddedEngine(context.link, context.session, options)


def _watched(context: Context) -> Callable[[Link], Maker]:
    def progress(what: str, done: int, of: int) -> None:
        context.notify({"event": "offline", "done": done, "of": of, "detail": what})

    return lambda link: products_by_lattice(link, progress)


def plan(study: Study, home: Path | None) -> OfflinePlan:
    if study.level.sealed:
        return sealed_forecast(study)
    wanted, kind = _wanted(study)
    expected = making.forecast(wanted, kind)
    text = (
        f"material for one run of {kind.M} parties: {wanted.triples:,} triples in Z_2^{kind.scalar_bits}, "
        f"{wanted.numbers:,} VOLE numbers in Z_2^{kind.vector_bits} under {len(wanted.vectors):,} secret scalar(s)\n"
        f"forecast for each party: {expected.disk / 1e6:,.1f} MB on disk, {expected.sent / 1e6:,.1f} MB sent, "
        f"about {expected.seconds:,.0f} s of one core"
    )
    return OfflinePlan(text, {"plan": asdict(wanted), "kind": asdict(kind), "forecast": asdict(expected)})


def make_stock(context: Context) -> dict[str, Any]:
    if context.study.level.sealed:
        raise StudyError(
            "the products of a sealed fit's masks are made in its run.",
            "another level of reveal for a stock",
            "run the study as it is; `pdml-spdz offline plan` says what it will take",
        )
    wanted, kind = _wanted(context.study)

    def progress(done: int, total: int, sent: int) -> None:
        context.notify({"event": "offline", "done": done, "of": total, "detail": f"{sent / 1e6:,.1f} MB sent"})

    stock = making.make(context.link, context.stocks, wanted, kind, context.session, progress)
    return {"stock": stock.id, "triples": wanted.triples, "numbers": wanted.numbers, "path": str(stock.path)}


def sealed_forecast(study: Study) -> OfflinePlan:
    """Of a fit up to its first checkpoint."""
    d = shape_of(study).d
    expected = forecast(sealed_precision_of(study, d))
    text = (
        f"one sealed run of {study.M} parties, up to its first checkpoint: {expected.products:,} matrix products in "
        f"Z_2^{RING}, {expected.rounds:,} rounds\n"
        f"forecast for each party: {expected.sent / 1e6:,.0f} MB sent, {expected.data_sent / 1e6:,.0f} MB of it for "
        f"products with its rows, about {expected.seconds:,.0f} s of one core; on a network with a round trip of 20 ms "
        f"{expected.rounds * 0.02:,.0f} s more, of 100 ms {expected.rounds * 0.1:,.0f} s"
    )
    return OfflinePlan(text, {"plan": asdict(expected), "precision": asdict(sealed_precision_of(study, d))})


def stocks(root: Path) -> Stocks:
    columns = ("stock", "party", "of", "rings", "triples left", "scalars left", "MB", "made", "claimed by")
    rows = status(root)
    return Stocks(columns, [_cells(row) for row in rows], [asdict(row) for row in rows])


def _cells(row: Row) -> list[str]:
    if row.kind is None:
        return [row.stock, f"P{row.party}", "?", "?", "?", "?", f"{row.bytes / 1e6:.1f}", "?", row.problem]
    claims = ", ".join(f"{claim.run[:12]} ({claim.time})" for claim in row.claims) or "nobody"
    return [
        row.stock,
        f"P{row.party}",
        str(row.kind.M),
        f"{row.kind.vector_bits}/{row.kind.scalar_bits}",
        f"{row.triples_left:,} of {row.triples:,}",
        f"{len(row.scalars_left)} of {row.scalars}",
        f"{row.bytes / 1e6:.1f}",
        row.created,
        claims,
    ]


def _options(study: Study, source: Source) -> Options:
    return Options(precision_of(study), source, study.aggregator, study.online, lpn=study.vole == "lpn")


def _wanted(study: Study) -> tuple[Plan, Kind]:
    """What one run of the study takes from the offline phase."""
    options = _options(study, _no_source)
    return layout_and_plan(study.opening, options, shape_of(study))[1], _kind(study, options.precision)


def _kind(study: Study, p: Precision) -> Kind:
    return Kind(study.M, p.vector_bits, p.scalar_bits, study.vole)


def _source(context: Context) -> Source:
    """Where this run takes its offline material from, as the study's `offline` says; all parties decide alike."""
    study = context.study

    def source(link: Link, plan: Plan, p: Precision) -> Material:
        wanted = f"{plan.triples:,} triples, {plan.numbers:,} numbers"
        if study.offline != "on-demand":
            material = StockMaterial(link, NumberStock.find(context.stocks, _kind(study, p), link.me), context.session)
            try:
                material.check(plan)
            except StockError as error:
                # `common`: raised at all parties alike, so that all of them take the other way.
                if study.offline == "stock" or not error.common:
                    raise
            else:
                context.note(f"offline material from a stock: at most {wanted}")
                return material
        context.note(f"offline material made in the run, no stock: at most {wanted}")
        return OnDemand(link, context.session, p.vector_bits, p.scalar_bits, lpn=study.vole == "lpn")

    return source


def _no_source(link: Link, plan: Plan, p: Precision) -> Material:
    raise StudyError("a plan needs no material.")
