"""The paper's own NormedSecSum, element by element: the baseline of benchmarks, not the program to use."""

from __future__ import annotations

import numpy as np

from pdml_spdz.engines.mp_spdz.execution import MpSpdzRunner
from pdml_spdz.errors import QuotaError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import NormedColumns, unit_columns
from pdml_spdz.programs.render import Program


class PaperColumns:
    """The paper's NormedSecSum for each column and call.

    1. party m inputs x_m / B with f_out fraction bits
    2. the program normed_sum_paper adds, squares, adds up, takes the root, divides, and opens u_i

    Reveals: u_i to f_out bits; inputs no finer than u_i let it give the norm away as well (docs/security.md).
    Cost: d squares, d divisions and a root for each column, one after the other.
    Ref: [PDML App. NormedSecSum].
    """

    def __init__(self, runner: MpSpdzRunner, program: Program, columns: int) -> None:
        self.runner, self.program, self.columns = runner, program, columns

    def __call__(self, x: Reals, g: Reals) -> NormedColumns:
        width = self.columns
        u = np.column_stack([self._block(x[:, i : i + width]) for i in range(0, x.shape[1], width)])
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
