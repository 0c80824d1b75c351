"""Programs on this package's own shares, as the algorithms see them."""

from __future__ import annotations

from collections.abc import Sequence

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.session import Session
from pdml_spdz.engines.embedded.shares import Shares
from pdml_spdz.engines.openings.base import Execution, Runner, decode
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.material import Material
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program


class EmbeddedRunner(Runner):
    """Runs programs in this process."""

    def __init__(self, sec_sum: MaskedSum, precision: Precision, bound: float, material: Material) -> None:
        super().__init__(precision, bound)
        self.sec_sum, self.material = sec_sum, material

    def start(self, program: Program) -> Execution:
        self.material.reserve(machine.plan(program))
        return EmbeddedExecution(self, program)


class EmbeddedExecution(Execution):
    """One program on this party's shares."""

    def __init__(self, runner: EmbeddedRunner, program: Program) -> None:
        self.runner, self._session = runner, Session()
        self.shares = Shares(runner.sec_sum, runner.precision, runner.material, self._session)
        self._session.start(lambda: machine.execute(program, self.shares))

    def call(self, x: Reals, publics: Sequence[int], more: Sequence[Reals] = ()) -> Reals:
        """Dropped carries and dither shift the mean by -M/2 and +M/2 units: there is no bias."""
        opened = self._session.call(self._encode(x, more), publics)
        return decode(opened, self.runner.precision, len(x))

    def finish(self) -> None:
        self._session = Session()  # the program is dropped where it waits; it holds nothing but memory

    def _encode(self, x: Reals, more: Sequence[Reals]) -> list[ring.Vector]:
        """What a program reads from this party for one output: its vector, column after column, ..., its dither."""
        p = self.runner.precision
        with self.runner.sec_sum.link.clock("crypto"):
            vectors = [(x / self.runner.bound).T.reshape(-1), *more]
            encoded = [ring.from_float(vector, p.f_in, p.vector_bits) for vector in vectors]
            return [*encoded, ring.random_below(x.size, p.drop, p.vector_bits)]
