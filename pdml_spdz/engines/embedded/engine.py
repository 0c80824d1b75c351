"""The engine `embedded`: secret shares and programs in this package, nothing else to install."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pdml_spdz.engines.base import Engine, EngineBase, OwnRows, SealedCheckpoint, SealedWatch, Security
from pdml_spdz.engines.embedded.plan import NumbersPlan, numbers_plan
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.embedded.sealed_run import SealedRun, StoredMasks, sealed_plan
from pdml_spdz.engines.openings.base import Runner
from pdml_spdz.engines.spec import Context, OfflinePlan, precision_of, sealed_precision_of
from pdml_spdz.errors import StockError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline.from_stock import StockMaterial
from pdml_spdz.offline.lattice_products import products_by_lattice
from pdml_spdz.offline.mask_products import Maker
from pdml_spdz.offline.mask_stock import FOLDER, ONE_FIT, MaskKind, MaskStock, material_of
from pdml_spdz.offline.material import Material
from pdml_spdz.offline.numbers import NumberStock
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.transport.base import Link

Source = Callable[[Link, NumbersPlan], Material]  # where a run takes its offline material from
Products = Callable[[Link], Maker]  # what makes the products of masks of a sealed fit
Stored = Callable[[Link, SealedPrecision], StoredMasks | None]  # and what was made of them ahead


class EmbeddedEngine(EngineBase):
    name = "embedded"

    def __init__(
        self,
        link: Link,
        run: bytes,
        precision: Precision,
        source: Source,
        *,
        aggregator: str = "auto",
        lpn: bool = True,
        products: Products = products_by_lattice,
        stored: Stored = lambda link, precision: None,
    ) -> None:
        """lpn : whether offline material may rest on learning parity with noise"""
        self._masked = masked_sum(link, run, aggregator)
        super().__init__(link, self._masked)
        self._precision, self._source, self._products, self._stored = precision, source, products, stored
        assumed = "OT on ristretto255, AES" + (", LPN for many numbers" if lpn else "")
        model = f"semi-honest, computational ({assumed}; TLS 1.3 channels)"
        self.security = Security(model, False, "any M - 1 parties")
        self._sealed: SealedRun | None = None
        self._program: Program | None = None
        self._runners: list[EmbeddedRunner] = []
        self._material: Material | None = None

    def programs(self, plan: OfflinePlan, scale: float) -> Runner:
        assert isinstance(plan, NumbersPlan)
        program = plan.layout.program
        Agreement(self.link).digest("program", program.text.encode())
        self._program, self._material = program, self._source(self.link, plan)
        runner = EmbeddedRunner(self._masked, plan.precision, scale, self._material, plan.lots)
        self._runners.append(runner)
        return runner

    def close(self) -> None:
        for runner in self._runners:
            runner.close()

    def sealed(self, precision: SealedPrecision, own: OwnRows, V: Reals, watch: SealedWatch) -> SealedCheckpoint:
        Agreement(self.link).digest("program", sealed_plan(precision)[0].text.encode())
        stored = self._stored(self.link, precision)
        self._sealed = run = SealedRun(self._masked, precision, self._products(self.link), stored=stored)
        assumed = "ring-LWE, decisional Diffie-Hellman on ristretto255, AES; TLS 1.3 channels"
        self.security = Security(f"semi-honest, computational ({assumed})", False, "any M - 1 parties")
        return run(own, V, watch)

    def facts(self) -> dict[str, Any]:
        if self._sealed is not None:
            return self._sealed.facts()
        p = self._precision
        derived = {name: getattr(p, name) for name in ("f_in", "f_inv", "vector_bits", "scalar_bits", "open_bits")}
        facts: dict[str, Any] = {"precision": asdict(p) | derived, "protocol": "additive shares, VOLE from OT"}
        if self._program and self._material:
            facts["program"] = self._program.name
            facts["program_digest"] = self._program.digest
            used = {"triples": self._material.used.triples, "numbers": self._material.used.numbers}
            facts["stock"] = {"id": self._material.identity, "claimed": used, "mode": self._material.mode}
        return facts


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
        products=_watched(context),
        stored=_stored(context),
    )


def prepare(context: Context, shape: Shape | None) -> None:
    """StockError, at all parties alike, if the study wants a stock and there is none for it: now, before a mean or a
    bound is opened for nothing.
    """
    study, link = context.study, context.link
    if shape is None or study.offline != "stock":
        return
    if study.level.sealed:
        claims.check(link, _mask_stocks(context, sealed_precision_of(study, shape.d)), [ONE_FIT], context.session)
        return
    wanted = numbers_plan(study.opening, precision_of(study), shape, study.online, study.vole)
    claims.check(link, NumberStock.find(context.stocks, wanted.kind, link.me), wanted.awaited, context.session)


def _mask_stocks(context: Context, precision: SealedPrecision) -> list[MaskStock]:
    """Of this party, with what a sealed fit takes up to its first checkpoint."""
    kind = MaskKind.of(context.link.M, sealed_plan(precision)[1][0])
    return MaskStock.find(context.stocks / FOLDER, kind, context.link.me)


def _watched(context: Context) -> Products:
    def progress(what: str, done: int, of: int) -> None:
        context.notify({"event": "offline", "done": done, "of": of, "detail": what})

    return lambda link: products_by_lattice(link, progress)


def _stored(context: Context) -> Stored:
    """Claims the masks of a sealed fit from a stock, as the study's `offline` says; all parties decide alike."""

    def stored(link: Link, precision: SealedPrecision) -> StoredMasks | None:
        segment = sealed_plan(precision)[1][0]
        if context.study.offline != "on-demand":
            try:
                with claims.burn(link, _mask_stocks(context, precision), ONE_FIT, context.session) as burnt:
                    found = StoredMasks(burnt.stock.id, material_of(burnt.content, segment))
                context.note(f"masks and their products from stock {found.stock}, up to the first checkpoint")
                return found
            except StockError as error:
                # `common`: raised at all parties alike, so that all of them take the other way.
                if context.study.offline == "stock" or not error.common:
                    raise
        context.note("masks and their products made in the run, no stock")
        return None

    return stored


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
