"""A solver of another package: so many steps of orthogonal iteration, and no more."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pdml_spdz.algorithms.solver import EXHAUSTED, GO_ON, Fitting, Solver, SvdResult, SvdSettings
from pdml_spdz.numerics.linalg import fix_signs, orthonormalise, qr_tolerance


@dataclass(frozen=True)
class Step:
    V: np.ndarray
    t: int = 0
    change: float = 1.0
    stop: int = GO_ON


def verdict(state: Step, settings: SvdSettings) -> int:
    return EXHAUSTED if state.t >= settings.tau else GO_ON


def solve(fitting: Fitting, state: Step, settings: SvdSettings) -> SvdResult:
    while state.stop == GO_ON:
        V, r = orthonormalise(fitting.normed_sum(fitting.S_m.times(state.V), state.V).U)
        V, _ = fitting.agree(V, (state.t,), qr_tolerance(r, len(V)))
        state = Step(V, state.t + 1)
        state = replace(state, stop=verdict(state, settings))
        fitting.done(state)
    return SvdResult(fix_signs(state.V), None, np.zeros(settings.k), state)


REASONS = {EXHAUSTED: "all steps were made"}
STEPS = Solver("steps", "so many steps.", solve, Step, verdict, REASONS, lambda V, numbers, arrays: Step(V, **numbers))
