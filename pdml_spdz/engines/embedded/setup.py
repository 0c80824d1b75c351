"""From a study, and what a party brings, to the embedded engine, its material, and its stocks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.embedded.engine import EmbeddedEngine, Source
from pdml_spdz.engines.embedded.plan import NumbersPlan
from pdml_spdz.engines.spec import Context, Stocks, precision_of
from pdml_spdz.errors import StockError
from pdml_spdz.offline import make as making
from pdml_spdz.offline.from_stock import StockMaterial
from pdml_spdz.offline.material import Material
from pdml_spdz.offline.numbers import NumberStock
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.offline.status import Row, status
from pdml_spdz.transport.base import Link


def make(context: Context) -> Engine:
    if not context.study.on_shares:  # only SecSum is left of it
        from pdml_spdz.engines.secsum import SecSumEngine  # which other runs have no use for

        engine = SecSumEngine(context.link, context.session, context.study.aggregator)
        engine.name = EmbeddedEngine.name
        return engine
    study, lpn = context.study, context.study.vole == "lpn"
    return EmbeddedEngine(
        context.link,
        context.session,
        precision_of(study),
        _source(context),
        aggregator=study.aggregator,
        lpn=lpn,
    )


def make_stock(context: Context, plan: NumbersPlan) -> dict[str, Any]:
    wanted = plan.stock

    def progress(done: int, total: int, sent: int) -> None:
        context.notify({"event": "offline", "done": done, "of": total, "detail": f"{sent / 1e6:,.1f} MB sent"})

    stock = making.make(context.link, context.stocks, wanted, plan.kind, context.session, progress)
    return {"stock": stock.id, "triples": wanted.triples, "numbers": wanted.numbers, "path": str(stock.path)}


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


def _source(context: Context) -> Source:
    """Where this run takes its offline material from, as the study's `offline` says; all parties decide alike."""
    study = context.study

    def source(link: Link, plan: NumbersPlan) -> Material:
        kind, most = plan.kind, plan.lots.whole.repeated(plan.layout.executions)
        wanted = f"{most.triples:,} triples, {most.numbers:,} numbers"

        def on_demand() -> OnDemand:
            context.note(f"offline material made in the run, no stock: at most {wanted}")
            return OnDemand(link, context.session, kind.vector_bits, kind.scalar_bits, lpn=study.vole == "lpn")

        if study.offline == "on-demand":
            return on_demand()
        stocks = NumberStock.find(context.stocks, kind, link.me)
        material = StockMaterial(link, stocks, context.session, None if study.offline == "stock" else on_demand)
        try:
            material.check(*plan.awaited)
        except StockError as error:
            # `common`: raised at all parties alike, so that all of them take the other way.
            if study.offline == "stock" or not error.common:
                raise
            return on_demand()
        context.note(f"offline material from a stock: at most {wanted}")
        return material

    return source
