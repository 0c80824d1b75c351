"""The engine `mp-spdz`: the same programs on MP-SPDZ's virtual machines, with malicious security where it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from pdml_spdz.engines.base import EngineBase, OwnRows, SealedCheckpoint, SealedWatch, Security
from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.engines.mp_spdz.forecast import MaterialForecast, forecast
from pdml_spdz.engines.mp_spdz.paper import PAPER
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import Protocol
from pdml_spdz.engines.mp_spdz.sealed_execution import SealedExecution
from pdml_spdz.engines.openings.base import Layout, Opening, Runner
from pdml_spdz.engines.spec import OfflinePlan
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render, render_sealed
from pdml_spdz.programs.sealed_precision import SealedPrecision
from pdml_spdz.study.algorithm import Shape


@dataclass(frozen=True)
class CompiledPlan(OfflinePlan):
    """Each execution of the compiled program needs a stock of its own.

    iterations : that are expected, of at most shape.tau: what a stock is made for
    ahead : compiles the program with so many, or does nothing where it has no loop
    """

    M: int
    protocol: Protocol
    compiled: Compiled
    iterations: int
    ahead: Callable[[], Compiled]

    @property
    def stocks(self) -> int:
        """For one run of as many iterations as are expected."""
        return 1 if self.layout.stream else self.iterations * self.shape.k // self.layout.columns

    @cached_property
    def few(self) -> Compiled:
        return self.ahead()

    @cached_property
    def forecast(self) -> MaterialForecast:
        return forecast(self.few, self.M, self.protocol).times(self.stocks)

    @property
    def text(self) -> str:
        disk, sent, seconds = self.forecast
        most = f", of at most {self.shape.tau}" if self.iterations < self.shape.tau else ""
        wire = "bytes and seconds of this protocol were not measured"
        if sent is not None and seconds is not None:
            wire = f"about {sent / 1e6:,.1f} MB sent, {seconds:,.0f} s of one core, and some seconds to begin"
        return (
            f"material for one run of {self.M} parties with {self.protocol.name}, over "
            f"{self.few.domain}: {self.few.counts.in_words}, {self.stocks} time(s), by MP-SPDZ's own count\n"
            f"enough for the {self.iterations} iteration(s) that are expected{most}\n"
            f"forecast for each party: {disk / 1e6:,.1f} MB on disk, {wire}"
        )

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "counts": asdict(self.few.counts),
            "domain": self.few.domain,
            "executions": self.stocks,
            "iterations": self.iterations,
            "forecast": self.forecast._asdict(),
        }


def layout_of(
    opening: Opening, precision: Precision, shape: Shape, online: str, iterations: int, *, own_masks: bool
) -> Layout:
    """The program for a fit of this shape.

    iterations : of the study: a resumed run has the same program, and so the same stocks; own_masks : of the protocol
    """
    columns = 1 if online == "per-column" else shape.k
    calls = shape.tau * (shape.k // columns)
    if opening.template == PAPER.template:  # it has no loop, and rounds by itself
        return Layout(render(opening.template, precision, shape.d, columns), columns, calls, stream=False)
    once = opening.loop or online == "stream"
    program = render(opening.template, precision, shape.d, columns, iterations if once else 1, own_masks=own_masks)
    return Layout(program, columns, 1 if once else calls, stream=once)


NO_COSTS = (
    "the costs of MP-SPDZ are not known, and are 0 here: its log is cut (is the temporary directory full? TMPDIR)"
)


class MpSpdzEngine(EngineBase):
    name = "mp-spdz"

    def __init__(self, place: Place, run: bytes, precision: Precision, offline: str, aggregator: str) -> None:
        """offline : as in the study"""
        super().__init__(place.link, masked_sum(place.link, run, aggregator))
        self.place, self.run, self.precision, self.offline = place, run, precision, offline
        p = place.protocol
        kind = "malicious" if p.malicious else "semi-honest"
        # Sums by SecSum (the start, the bound) and everything public stay semi-honest, whatever the protocol.
        model = f"{kind} for NormedSecSum (MP-SPDZ {p.name}: {p.security}), semi-honest for SecSum; TLS channels"
        self.security = Security(model, p.malicious, p.corruptions)
        self.insecure = place.insecure
        if place.insecure:
            self.warnings = ("INSECURE: --insecure-benchmark accepts a build of MP-SPDZ that reuses offline material",)
        self._runner: MpSpdzRunner | None = None
        self._sealed: SealedPrecision | None = None
        self._program: Program | None = None
        self._compiled: Compiled | None = None

    def programs(self, plan: OfflinePlan, scale: float) -> Runner:
        assert isinstance(plan, CompiledPlan)
        return self._start(plan.layout.program, plan.compiled, plan.shape.d, scale)

    def sealed(self, precision: SealedPrecision, own: OwnRows, V: Reals, watch: SealedWatch) -> SealedCheckpoint:
        place, p, program = self.place, self.place.protocol, render_sealed(precision)
        compiled = compile_program(program, precision, p, place.home, note=place.note)
        runner = self._start(program, compiled, precision.d, 1.0)
        self._sealed = precision
        kind = "malicious" if p.malicious else "semi-honest"
        model = (
            f"{kind} for the iteration (MP-SPDZ {p.name}: {p.security}), semi-honest for start and bound; TLS channels"
        )
        self.security = Security(model, p.malicious, p.corruptions)
        return SealedExecution(runner.start(program), precision)(own, V, watch)

    def _start(self, program: Program, compiled: Compiled, d: int, scale: float) -> MpSpdzRunner:
        self._program, self._compiled = program, compiled
        for doubt in self.place.home.doubts(self.place.protocol, self.place.binary()):
            self.warn(doubt)
            self.place.note(doubt)
        Agreement(self.link).digest("program", self._program.text.encode())
        self.place.same_bytecode(self._compiled)
        known = {self._program.digest: self._compiled}
        self._runner = MpSpdzRunner(self.place, self.precision, scale, self.offline, self.run, known, d)
        takes = self._compiled.counts.in_words
        self.place.note(f"{self.place.protocol.name} over {self._compiled.domain}; an execution takes {takes}")
        return self._runner

    def finish(self) -> None:
        if self._runner:
            self._runner.finish()
            if not all(used.known for used in self._runner.usage):
                self.warn(NO_COSTS)

    def close(self) -> None:
        if self._runner:
            self._runner.close()

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "precision": asdict(self._sealed or self.precision),
            "protocol": self.place.protocol.name,
        }
        if self._program and self._compiled and self._runner:
            facts["program"], facts["program_digest"] = self._program.name, self._program.digest
            burnt, used = self._runner.stocks, self._runner.usage
            facts["stock"] = {
                "id": burnt[0] if burnt else None,
                "claimed": self._runner.claimed or asdict(self._compiled.counts),
                "mode": "on-demand" if not burnt else "stock" if len(burnt) == len(used) else "mixed",
                "executions": {"from stock": len(burnt), "on demand": len(used) - len(burnt)},
            }
            facts["mp_spdz"] = {
                "version": self.place.home.version(),
                "domain": self._compiled.domain,
                "executions": len(used),
                "seconds": round(sum(u.seconds for u in used), 6),
                "cpu_seconds": round(sum(u.cpu for u in used), 6),
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
