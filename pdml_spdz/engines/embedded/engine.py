"""The engine `embedded`: secret shares and programs in this package, nothing else to install."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pdml_spdz.engines.base import EngineBase, SealedCheckpoint, Security
from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.embedded.sealed_run import SealedRun
from pdml_spdz.engines.openings.base import Layout, Opening, Runner, Shape
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.lattice_products import products_by_lattice
from pdml_spdz.offline.mask_products import Maker
from pdml_spdz.offline.material import Material, Plan
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.transport.base import Link

Source = Callable[[Link, Plan, Precision], Material]


@dataclass(frozen=True)
class Options:
    """source : where offline material comes from; lpn : whether it may rest on learning parity with noise.

    products : what makes those of masks, for a sealed fit

    online : "stream" (all columns of an iteration in one call) or "per-column" (a call for each)
    """

    precision: Precision
    source: Source
    aggregator: str = "auto"
    online: str = "stream"
    lpn: bool = True
    products: Callable[[Link], Maker] = products_by_lattice


def layout_and_plan(opening: Opening, options: Options, shape: Shape) -> tuple[Layout, Plan]:
    """The program for blocks of this shape, and the material of a whole fit."""
    columns = 1 if options.online == "per-column" else shape.k

    def program(iterations: int) -> Program:
        return render(opening.template, options.precision, shape.d, columns, iterations)

    one = machine.plan(program(1))
    if not opening.loop:
        calls = shape.tau * shape.k // columns
        return Layout(program(1), columns, calls, stream=False), one.repeated(calls)
    # Every iteration of the loop takes the same: two dry runs tell how much, however many there are.
    two, more = machine.plan(program(2)), shape.tau - 1
    kept = tuple(n + more * (m - n) for n, m in zip(one.vectors, two.vectors, strict=False))
    new = two.vectors[len(one.vectors) :] * more  # scalars of one iteration
    plan = Plan(one.triples + more * (two.triples - one.triples), kept + new)
    return Layout(program(shape.tau), columns, 1, stream=True), plan


class EmbeddedEngine(EngineBase):
    name = "embedded"

    def __init__(self, link: Link, run: bytes, options: Options) -> None:
        self._masked = masked_sum(link, run, options.aggregator)
        super().__init__(link, self._masked)
        self.options = options
        assumed = "OT on ristretto255, AES" + (", LPN for many numbers" if options.lpn else "")
        model = f"semi-honest, computational ({assumed}; TLS 1.3 channels)"
        self.security = Security(model, False, "any M - 1 parties")
        self._sealed: SealedRun | None = None
        self._program: Program | None = None
        self._material: Material | None = None
        self._plan: Plan | None = None

    def programs(self, opening: Opening, shape: Shape, scale: float) -> tuple[Runner, Layout]:
        precision = self.options.precision
        layout, plan = layout_and_plan(opening, self.options, shape)
        Agreement(self.link).digest("program", layout.program.text.encode())
        material = self.options.source(self.link, plan, precision)
        self._program, self._material, self._plan = layout.program, material, plan
        return EmbeddedRunner(self._masked, precision, scale, material), layout

    def sealed(
        self, precision: SealedPrecision, own: Sequence[Reals], V: Reals, shown: Callable[[SealedCheckpoint], None]
    ) -> SealedCheckpoint:
        run = SealedRun(self._masked, precision, self.options.products(self.link))
        Agreement(self.link).digest("program", run.program.text.encode())
        self._sealed = run
        assumed = "ring-LWE, decisional Diffie-Hellman on ristretto255, AES; TLS 1.3 channels"
        self.security = Security(f"semi-honest, computational ({assumed})", False, "any M - 1 parties")
        return run(own, V, shown)

    def facts(self) -> dict[str, Any]:
        if self._sealed is not None:
            return self._sealed.facts()
        p = self.options.precision
        derived = {name: getattr(p, name) for name in ("f_in", "f_inv", "vector_bits", "scalar_bits", "open_bits")}
        facts: dict[str, Any] = {"precision": asdict(p) | derived, "protocol": "additive shares, VOLE from OT"}
        if self._program and self._material and self._plan:
            facts["program"] = self._program.name
            facts["program_digest"] = self._program.digest
            planned = {"triples": self._plan.triples, "numbers": self._plan.numbers}
            facts["stock"] = {"id": self._material.identity, "claimed": planned, "mode": self._material.mode}
        return facts
