"""The opening `per-column`: every column by itself, as the paper has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pdml_spdz.engines.openings.base import (
    GO_ON,
    Execution,
    Opening,
    Runner,
    check_projection,
    dots,
    public_integers,
    rounded_directions,
)
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound, power_of_two
from pdml_spdz.primitives.normed_sum import NormedColumns, OwnMean, unit_columns

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec, OfflinePlan
    from pdml_spdz.programs.render import Program


class PerColumn:
    """One gated NormedSecSum for each column and call: the paper's way.

    1. party m inputs x_m / B, all k columns; g is public
    2. the program normed_sum opens y_i = s_i / |g_i.s_i| behind its gate
    3. |g_i.y_i| = 1 up to rounding, or the run ends; u_i = y_i / ||y_i||

    Reveals: u_i to f_out bits, and one bit for each column: in range or not.
    Cost (embedded): about 85 rounds; 26 bytes a number and peer online, 420 offline by OT; 110 triples a column. In
    the window about 170 rounds, 34 and 810 bytes, 240 triples.
    Ref: [PDML App. NormedSecSum], by projection.
    """

    def __init__(self, runner: Runner, program: Program, columns: int, *, stream: bool = False) -> None:
        self.runner, self.program, self.columns = runner, program, columns
        self._stream: Execution | None = runner.start(program) if stream else None

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        width = self.columns
        parts = [self._block(x[:, i : i + width], g[:, i : i + width]) for i in range(0, x.shape[1], width)]
        return NormedColumns(*unit_columns(np.column_stack(parts), self.runner.noise(len(x))), None)

    def _block(self, x: Reals, g: Reals) -> Reals:
        """y for as many columns as the program takes at once."""
        runner, (d, k) = self.runner, x.shape
        execution = self._stream or runner.start(self.program)
        f_g = runner.precision.f_g
        integers = public_integers(g, f_g)
        y = execution.call(x, [GO_ON, *integers])
        if execution is not self._stream:
            execution.finish()
        rounded = rounded_directions(integers, f_g, d, k)
        projected = np.abs(dots(rounded, y))
        # Each entry of y is off by at most one ulp (M units), and inv by 2^-f_inv relative.
        check_projection(projected, np.sum(np.abs(rounded), axis=0) * runner.ulp + 2.0 ** (2 - runner.precision.f_inv))
        return y


def _columns(engine: Engine, bound: Bound, plan: OfflinePlan, mean: OwnMean | None) -> PerColumn:
    layout = plan.layout
    return PerColumn(
        engine.programs(plan, power_of_two(bound.total)), layout.program, layout.columns, stream=layout.stream
    )


def seen(spec: EngineSpec) -> list[str]:
    return [
        "the direction of S v_i for every column i in every iteration, to f_out bits, to every party",
        "V_t in every iteration t, to every party",
    ]


PER_COLUMN = Opening("per-column", "normed", _columns, seen, template="normed_sum")
