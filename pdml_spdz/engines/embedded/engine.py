"""The engine `embedded`: secret shares and programs in this package, nothing else to install."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pdml_spdz.engines.base import EngineBase, Security, Shape
from pdml_spdz.engines.centred import CentredScale
from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.projection import FixedScale, PerColumn, observables, scale_for
from pdml_spdz.offline.material import Material, Plan
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.transport.base import Link

Source = Callable[[Link, Plan, Precision], Material]


@dataclass(frozen=True)
class Options:
    """normalise : "fit" (one secret scale for a fit) or "per-column"; source : where offline material comes from.

    online : "stream" (all columns of an iteration in one call) or "per-column" (a call for each)
    """

    precision: Precision
    normalise: str
    source: Source
    aggregator: str = "auto"
    online: str = "stream"
    program: str = "projection"
    hidden: bool = False  # the mean of all rows is taken off under secret sharing
    lpn: bool = True  # whether the source may use it


def program_and_plan(options: Options, shape: Shape) -> tuple[Program, int, Plan]:
    """The program for blocks of this shape, how many columns it takes at once, and the material of a whole fit."""
    per_column = options.normalise == "per-column"
    columns = 1 if options.online == "per-column" else shape.k
    loop = "scaled_sum_centred" if options.hidden else "scaled_sum"
    name = "normed_sum_paper" if options.program == "paper" else "normed_sum" if per_column else loop
    program = render(name, options.precision, shape.d, columns, 1 if per_column else shape.tau)
    if per_column:
        return program, columns, machine.plan(program).repeated(shape.tau * shape.k // columns)
    # Every iteration of the loop takes the same: two dry runs tell how much, however many there are.
    one, two = (machine.plan(render(name, options.precision, shape.d, columns, tau)) for tau in (1, 2))
    more = shape.tau - 1
    kept = tuple(n + more * (m - n) for n, m in zip(one.vectors, two.vectors, strict=False))
    new = two.vectors[len(one.vectors) :] * more  # scalars of one iteration
    return program, columns, Plan(one.triples + more * (two.triples - one.triples), kept + new)


class EmbeddedEngine(EngineBase):
    name = "embedded"
    reveal = "normed"

    def __init__(self, link: Link, run: bytes, options: Options) -> None:
        self._masked = masked_sum(link, run, options.aggregator)
        super().__init__(link, self._masked)
        self.options = options
        assumed = "OT on ristretto255, AES" + (", LPN for many numbers" if options.lpn else "")
        model = f"semi-honest, computational ({assumed}; TLS 1.3 channels)"
        self.security = Security(model, False, "any M - 1 parties")
        self._program: Program | None = None
        self._material: Material | None = None
        self._plan: Plan | None = None

    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum:
        precision = self.options.precision
        program, columns, plan = program_and_plan(self.options, shape)
        Agreement(self.link).digest("program", program.text.encode())
        material = self.options.source(self.link, plan, precision)
        self._program, self._material, self._plan = program, material, plan
        fit = self.options.normalise == "fit"
        scale = scale_for(bound, shape, fit=fit, hidden=mean is not None)
        runner = EmbeddedRunner(self._masked, precision, scale, material)
        if not fit:
            return PerColumn(runner, program, columns)
        if mean is None:
            return FixedScale(runner, program, shape.lengths)
        return CentredScale(runner, program, mean, self.warn, shape.lengths)

    def facts(self) -> dict[str, Any]:
        p = self.options.precision
        derived = {name: getattr(p, name) for name in ("f_in", "f_inv", "vector_bits", "scalar_bits", "open_bits")}
        facts: dict[str, Any] = {"precision": asdict(p) | derived, "protocol": "additive shares, VOLE from OT"}
        if self._program and self._material and self._plan:
            facts["program"] = self._program.name
            facts["program_digest"] = self._program.digest
            planned = {"triples": self._plan.triples, "numbers": self._plan.numbers}
            facts["stock"] = {"id": self._material.identity, "claimed": planned, "mode": self._material.mode}
        return facts

    def observables(self) -> list[str]:
        return observables(self.options.normalise, hidden=self.options.hidden)
