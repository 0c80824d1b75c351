"""The engine `mp-spdz`: the same programs on MP-SPDZ's virtual machines, with malicious security where it is wanted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pdml_spdz.engines.base import EngineBase, Security, Shape
from pdml_spdz.engines.centred import CentredScale
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner, PaperColumns
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.projection import COARSE, FixedScale, PerColumn, observables, scale_for
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render


@dataclass(frozen=True)
class MpSpdzOptions:
    """normalise, online, offline, program : as in the study"""

    precision: Precision
    normalise: str
    online: str
    offline: str
    iterations: int  # of the study: a resumed run has the same program, and so the same stocks
    own_masks: bool  # of the protocol
    program: str = "projection"
    aggregator: str = "auto"
    hidden: bool = False  # the mean of all rows is taken off under secret sharing


def program_for(options: MpSpdzOptions, shape: Shape) -> tuple[Program, int, int]:
    """The program for a fit of this shape, how many columns it takes at once, and how many executions a fit needs."""
    columns = 1 if options.online == "per-column" else shape.k
    calls = shape.tau * (shape.k // columns)
    if options.program == "paper":
        return render("normed_sum_paper", options.precision, shape.d, columns), columns, calls
    fit = options.normalise == "fit"
    once = fit or options.online == "stream"
    loop = "scaled_sum_centred" if options.hidden else "scaled_sum"
    program = render(
        loop if fit else "normed_sum",
        options.precision,
        shape.d,
        columns,
        options.iterations if once else 1,
        own_masks=options.own_masks,
    )
    return program, columns, 1 if once else calls


class MpSpdzEngine(EngineBase):
    name = "mp-spdz"
    reveal = "normed"

    def __init__(self, place: Place, run: bytes, options: MpSpdzOptions) -> None:
        super().__init__(place.link, masked_sum(place.link, run, options.aggregator))
        self.place, self.run, self.options = place, run, options
        p = place.protocol
        kind = "malicious" if p.malicious else "semi-honest"
        # Sums by SecSum (the start, the bound) and everything public stay semi-honest, whatever the protocol.
        model = f"{kind} for NormedSecSum (MP-SPDZ {p.name}: {p.security}), semi-honest for SecSum; TLS channels"
        self.security = Security(model, p.malicious, p.corruptions)
        self.insecure = place.insecure
        if place.insecure:
            self.warnings = ("INSECURE: --insecure-benchmark accepts a build of MP-SPDZ that reuses offline material",)
        self._runner: MpSpdzRunner | None = None
        self._program: Program | None = None
        self._compiled: Compiled | None = None

    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum:
        options = self.options
        program, columns, executions = program_for(options, shape)
        Agreement(self.link).digest("program", program.text.encode())
        scale = scale_for(bound, shape, fit=options.normalise == "fit", hidden=mean is not None)
        runner = MpSpdzRunner(self.place, options.precision, scale, options.offline, self.run)
        self._runner, self._program, self._compiled = runner, program, runner.compiled(program)
        takes = self._compiled.counts.in_words
        self.place.note(f"{self.place.protocol.name} over {self._compiled.domain}; an execution takes {takes}")
        if options.program == "paper":
            return PaperColumns(runner, program, columns)
        if options.normalise == "per-column":
            return PerColumn(runner, program, columns, stream=executions == 1)
        if mean is None:
            return FixedScale(runner, program, shape.lengths)
        return CentredScale(runner, program, mean, self.warn, shape.lengths)

    def finish(self) -> None:
        if self._runner:
            self._runner.finish()

    def close(self) -> None:
        if self._runner:
            self._runner.close()

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"precision": asdict(self.options.precision), "protocol": self.place.protocol.name}
        if self._program and self._compiled and self._runner:
            facts["program"], facts["program_digest"] = self._program.name, self._program.digest
            burnt, used = self._runner.stocks, self._runner.usage
            facts["stock"] = {
                "id": burnt[0] if burnt else None,
                "claimed": asdict(self._compiled.counts),
                "mode": "on-demand" if not burnt else "stock" if len(burnt) == len(used) else "mixed",
            }
            facts["mp_spdz"] = {
                "version": self.place.home.version(),
                "domain": self._compiled.domain,
                "executions": len(used),
                "seconds": round(sum(u.seconds for u in used), 6),
                "megabytes_sent": round(sum(u.megabytes for u in used), 6),
                "rounds": sum(u.rounds for u in used),
                "stocks": burnt,
            }
        return facts

    def observables(self) -> list[str]:
        if self.options.program == "paper":
            return [*observables("per-column"), COARSE]
        return observables(self.options.normalise, hidden=self.options.hidden)
