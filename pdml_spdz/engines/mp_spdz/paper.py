"""The opening `paper`: its own NormedSecSum, element by element. The baseline of benchmarks, not the one to use."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from pdml_spdz.engines.openings import per_column
from pdml_spdz.engines.openings.base import Opening
from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound, power_of_two
from pdml_spdz.primitives.normed_sum import NormedColumns, OwnMean, unit_columns

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
    from pdml_spdz.engines.spec import OfflinePlan
    from pdml_spdz.programs.render import Program

COARSE = "with inputs no finer than that, the norms too (docs/security.md)"


class PaperColumns:
    """The paper's NormedSecSum for each column and call.

    1. party m inputs x_m / B with f_out fraction bits
    2. the program normed_sum_paper adds, squares, adds up, takes the root, divides, and opens u_i
    3. ||u_i|| is about 1, or the run ends

    Reveals: u_i to f_out bits; inputs no finer than u_i let it give the norm away as well (docs/security.md).
    Cost: d squares, d divisions and a root for each column, one after the other.
    Ref: [PDML App. NormedSecSum].
    """

    def __init__(self, runner: MpSpdzRunner, program: Program, columns: int) -> None:
        self.runner, self.program, self.columns = runner, program, columns

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        width = self.columns
        u = np.column_stack([self._block(x[:, i : i + width]) for i in range(0, x.shape[1], width)])
        sizes = np.linalg.norm(u, axis=0)
        # Of a sum that is small beside the bound the square has no bits left, and the root of that is anything: of a
        # column that is not nearly as long as 1 no direction is left.
        if not np.all((sizes > 0.5) & (sizes < 2.0)):
            raise ProtocolError(
                "a sum is too small for the agreed bound: the paper's program has lost its length.",
                f"sums longer than some 2^-{self.runner.precision.f_out // 2 - 1} of the bound",
                "agree on a smaller --bound, or on more --bits; --program projection has a range",
            )
        # What is lost depends on the hidden norm: with d squares of f_out bits, half of them is what can be hoped for.
        error = np.sqrt(len(x)) * 2.0 ** -(self.runner.precision.f_out / 2)
        return NormedColumns(*unit_columns(u, error), None)

    def _block(self, x: Reals) -> Reals:
        f = self.runner.precision.f_out
        scaled = np.rint(np.ldexp(x / self.runner.bound, f))
        if not np.all(np.abs(scaled) <= 2.0**f):
            raise QuotaError("a number exceeds the agreed bound; it was not sent.", "numbers within the bound")
        execution = self.runner.start(self.program)
        inputs = scaled.T.reshape(-1).astype(np.int64).tolist()
        opened = np.frombuffer(execution.exchange([], inputs, x.size), "<i8")
        execution.finish()
        return np.ldexp(opened.astype(np.float64), -f).reshape(-1, len(x)).T


def _columns(engine: Engine, bound: Bound, plan: OfflinePlan, mean: OwnMean | None) -> PaperColumns:
    runner = cast("MpSpdzRunner", engine.programs(plan, power_of_two(bound.total)))
    return PaperColumns(runner, plan.layout.program, plan.layout.columns)


PAPER = Opening(
    "paper",
    "normed",
    _columns,
    lambda spec: [*per_column.seen(spec), COARSE],
    template="normed_sum_paper",
    shows_norms=True,
)
