"""The engine `mp-spdz`: the same programs on MP-SPDZ's virtual machines, with malicious security where it is wanted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pdml_spdz.engines.base import EngineBase, Security
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.paper import PAPER
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.openings.base import Layout, Opening, Runner, Shape
from pdml_spdz.engines.settings import iterations_of, precision_of
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from pdml_spdz.study.model import Study


@dataclass(frozen=True)
class MpSpdzOptions:
    """online, offline : as in the study"""

    precision: Precision
    online: str
    offline: str
    iterations: int  # of the study: a resumed run has the same program, and so the same stocks
    own_masks: bool  # of the protocol
    aggregator: str = "auto"


def options_of(study: Study) -> MpSpdzOptions:
    own_masks = protocol_of(study).own_masks
    iterations = iterations_of(study)
    return MpSpdzOptions(precision_of(study), study.online, study.offline, iterations, own_masks, study.aggregator)


def layout_of(opening: Opening, options: MpSpdzOptions, shape: Shape) -> Layout:
    """The program for a fit of this shape."""
    columns = 1 if options.online == "per-column" else shape.k
    calls = shape.tau * (shape.k // columns)
    if opening.template == PAPER.template:  # it has no loop, and rounds by itself
        return Layout(render(opening.template, options.precision, shape.d, columns), columns, calls, stream=False)
    once = opening.loop or options.online == "stream"
    iterations = options.iterations if once else 1
    program = render(opening.template, options.precision, shape.d, columns, iterations, own_masks=options.own_masks)
    return Layout(program, columns, 1 if once else calls, stream=once)


class MpSpdzEngine(EngineBase):
    name = "mp-spdz"

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

    def programs(self, opening: Opening, shape: Shape, scale: float) -> tuple[Runner, Layout]:
        options = self.options
        layout = layout_of(opening, options, shape)
        Agreement(self.link).digest("program", layout.program.text.encode())
        runner = MpSpdzRunner(self.place, options.precision, scale, options.offline, self.run, shape.d)
        self._runner, self._program, self._compiled = runner, layout.program, runner.compiled(layout.program)
        takes = self._compiled.counts.in_words
        self.place.note(f"{self.place.protocol.name} over {self._compiled.domain}; an execution takes {takes}")
        return runner, layout

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
                "executions": {"from stock": len(burnt), "on demand": len(used) - len(burnt)},
            }
            facts["mp_spdz"] = {
                "version": self.place.home.version(),
                "domain": self._compiled.domain,
                "executions": len(used),
                "seconds": round(sum(u.seconds for u in used), 6),
                "megabytes_sent": round(sum(u.megabytes for u in used), 6),
                "rounds": sum(u.rounds for u in used),
                "offline": {
                    "seconds": round(sum(u.offline_seconds for u in used), 6),
                    "megabytes_sent": round(sum(u.offline_megabytes for u in used), 6),
                    "rounds": sum(u.offline_rounds for u in used),
                },
                "stocks": burnt,
            }
        return facts
