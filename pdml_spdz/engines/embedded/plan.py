"""What a fit runs on this package's own shares, what it takes from the offline phase, and stocks of that."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.sealed_forecast import SealedPlan, sealed_plan_of
from pdml_spdz.engines.embedded.sealed_run import sealed_plan
from pdml_spdz.engines.openings.base import Layout, Opening
from pdml_spdz.engines.spec import Context, Note, OfflinePlan, Stocks, precision_of
from pdml_spdz.offline.lattice_products import products_by_lattice
from pdml_spdz.offline.make import Forecast, forecast, make
from pdml_spdz.offline.mask_stock import make_mask_stock
from pdml_spdz.offline.material import Lots, Plan
from pdml_spdz.offline.numbers import Kind
from pdml_spdz.offline.on_demand import levels
from pdml_spdz.offline.status import MaskRow, Row, mask_status, status
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import Study


@dataclass(frozen=True)
class NumbersPlan(OfflinePlan):
    """lots : of one execution of the program; kind : of a stock that has them"""

    precision: Precision
    kind: Kind
    lots: Lots

    @cached_property
    def awaited(self) -> tuple[Plan, ...]:
        """What a run is to have before it begins, by lots; executions that are over at once take theirs together."""
        if self.layout.executions > 1:
            return (self.lots.first.repeated(self.layout.executions),)
        return self.lots.awaited

    @cached_property
    def stock(self) -> Plan:
        """What a stock for one run has."""
        return sum(self.awaited[1:], start=self.awaited[0])

    @cached_property
    def forecast(self) -> Forecast:
        return forecast(self.stock, self.kind)

    @property
    def text(self) -> str:
        kind, stock, expected = self.kind, self.stock, self.forecast
        text = (
            f"material for one run of {kind.M} parties: {stock.triples:,} triples in Z_2^{kind.scalar_bits}, "
            f"{stock.numbers:,} VOLE numbers in Z_2^{kind.vector_bits} under {len(stock.vectors):,} secret scalar(s)\n"
        )
        if self.lots.further:
            text += (
                f"in {self.lots.expected} lot(s), which a run claims one after another: those that it does not need "
                f"stay in the stock, and for more than {self.shape.expected} iterations it takes others\n"
            )
        return text + (
            f"forecast for each party: {expected.disk / 1e6:,.1f} MB on disk, {expected.sent / 1e6:,.1f} MB sent, "
            f"about {expected.seconds:,.0f} s of one core"
        )

    @property
    def facts(self) -> dict[str, Any]:
        lots = [asdict(lot) for lot in self.awaited] if self.lots.further else []
        return {
            "plan": asdict(self.stock),
            "lots": lots,
            "kind": asdict(self.kind),
            "forecast": asdict(self.forecast),
        }


def plan(study: Study, shape: Shape, home: Path | None, note: Note) -> OfflinePlan:
    if study.level.sealed:
        return sealed_plan_of(study, shape)
    return numbers_plan(study.opening, precision_of(study), shape, study.online, study.vole)


def numbers_plan(
    opening: Opening, precision: Precision, shape: Shape, online: str = "stream", vole: str = "lpn"
) -> NumbersPlan:
    """online : "stream" (all columns of an iteration in one call) or "per-column" (a call for each)"""
    columns = 1 if online == "per-column" else shape.k

    def program(iterations: int) -> Program:
        return render(opening.template, precision, shape.d, columns, iterations)

    if opening.loop:
        layout = Layout(program(shape.tau), columns, 1, stream=True)
        longest = shape.lot * columns if shape.lot else inf
        one, two = (machine.plan(program(iterations), longest) for iterations in (1, 2))
        lots = replace(_lots(one, two, shape), longest=longest, fresh=max(1, len(two.vectors) - len(one.vectors)))
    else:
        layout = Layout(program(1), columns, shape.tau * shape.k // columns, stream=False)
        lots = Lots.of(machine.plan(layout.program))
    kind = Kind(precision.M, precision.vector_bits, precision.scalar_bits, vole)
    return NumbersPlan(shape, layout, precision, kind, lots)


def _lots(one: Plan, two: Plan, shape: Shape) -> Lots:
    """Of a loop that takes `one` for one iteration and `two` for two: what is added is the same for each."""
    triples = two.triples - one.triples
    added = [m - n for n, m in zip(one.vectors, two.vectors, strict=False)]  # under scalars of the whole fit
    new = two.vectors[len(one.vectors) :]  # under those of one iteration

    def begun(t: int) -> Plan:
        """Of the first t iterations."""
        kept = tuple(n + (t - 1) * more for n, more in zip(one.vectors, added, strict=True))
        return Plan(one.triples + (t - 1) * triples, kept + new * (t - 1))

    whole, expected = begun(shape.tau), min(shape.expected or shape.tau, shape.tau)
    few = min(shape.lot, shape.tau)
    if not few or triples:  # which would be needed before the next lot is
        return Lots(whole, whole, None, 1, None, whole)
    # Where numbers come from LPN its beginning costs as much as dozens of iterations: one lot is all that is expected.
    size = expected if levels(most := max(begun(few).vectors), most) else few
    further = Plan(0, tuple(size * more for more in added if more) + new * size)
    return Lots(whole, begun(size), further, -(-expected // size), begun(few), begun(expected))


# ---- stocks


def make_stock(context: Context, plan: OfflinePlan) -> dict[str, Any]:
    if isinstance(plan, SealedPlan):
        return _make_sealed(context, plan)
    assert isinstance(plan, NumbersPlan)
    wanted = plan.stock

    def progress(done: int, total: int, sent: int) -> None:
        context.notify({"event": "offline", "done": done, "of": total, "detail": f"{sent / 1e6:,.1f} MB sent"})

    stock = make(context.link, context.stocks, wanted, plan.kind, context.session, progress)
    return {"stock": stock.id, "triples": wanted.triples, "numbers": wanted.numbers, "path": str(stock.path)}


def _make_sealed(context: Context, plan: SealedPlan) -> dict[str, Any]:
    def progress(what: str, done: int, of: int) -> None:
        context.notify({"event": "offline", "done": done, "of": of, "detail": what})

    segment = sealed_plan(plan.precision)[1][0]
    make = products_by_lattice(context.link, progress)
    stock = make_mask_stock(context.link, context.stocks, segment, make, context.session)
    return {"stock": stock.id, "products": len(segment.ahead), "path": str(stock.path)}


def stocks(root: Path) -> Stocks:
    columns = ("stock", "party", "of", "rings", "triples left", "scalars left", "MB", "made", "claimed by")
    rows, sealed = status(root), mask_status(root)
    cells = [_cells(row) for row in rows] + [_mask_cells(row) for row in sealed]
    return Stocks(columns, cells, [asdict(row) for row in rows] + [asdict(row) for row in sealed])


def _mask_cells(row: MaskRow) -> list[str]:
    claims = ", ".join(f"{claim.run[:12]} ({claim.time})" for claim in row.claims) or "nobody"
    left = f"{row.left} of {row.fits} sealed fits"
    kind = (str(row.kind.M), f"{RING}") if row.kind else ("?", "?")
    return [row.stock, f"P{row.party}", *kind, "-", left, f"{row.bytes / 1e6:.1f}", row.created, row.problem or claims]


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
