"""The opening `centred`: one secret scale for a fit, and the mean of all rows taken off under secret sharing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log2, sqrt
from typing import TYPE_CHECKING

import numpy as np

from pdml_spdz.engines.openings.base import Opening, Runner, check_symmetry
from pdml_spdz.engines.openings.one_scale import FixedScale, largest_rho
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound, power_of_four
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean, positive_at_first, rounding_of_rho

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec, OfflinePlan
    from pdml_spdz.programs.render import Program

WORTHLESS = 2.0**-4  # of the longest column: sums that are off by more have no direction worth opening further
MOST_NOISE = 2.0**10  # of all parties together: the program has room for ten bits above 1
SYMMETRIC = 4.0  # rounding that does not show, because it is symmetric, may be larger than what shows


class CentredScale(FixedScale):
    """The sums of C = S - t t^T / n under one secret scale, for t = sum_m t_m, the sums of all rows.

    1. first call: party m inputs t_m / sqrt(n B), and what rounding may have made of its part of rho = sum_i g_i.C v_i;
       the program scaled_sum_centred makes [c] = k / rho behind its gates, and [w] = -[c t / sqrt(n B)]. Rows that are
       all the same have a rho of at most twice that rounding; the second gate wants at least 2 (M + 1) times
    2. every call: party m inputs kappa_i S_m v_i / B and its addend of [a_i] = kappa_i t.v_i / sqrt(n B);
       y_i = [c] kappa_i S v_i / B + [a_i] [w], which is c kappa_i C v_i / B, is opened
    3. kappa, the check of symmetry and u_i as for FixedScale: C is symmetric too

    S_m v is rounded relative to S, and what is left of it is C v. How much smaller that is nobody may know; but
    rounding is not symmetric, so it shows in that check: what the opened bits do not explain counts as noise, with a
    warning. Directions too small for the opened bits beside the largest are not told from it: they are dropped.

    Reveals: y_i in every call, and two bits, once: in range or not, and deviations that float64 can tell or not.
    Neither t nor S: C alone.
    Cost (embedded): 2 rounds a call; 46 bytes a number and peer online, in the window 62; twice as many numbers
    offline as FixedScale. Once: about 50 rounds (in the window 85), 60 + d + k triples (115), and d deltas for w.
    Ref: [PDML App. Extension to PCA], with the mean of all rows.
    """

    def __init__(
        self,
        runner: Runner,
        program: Program,
        mean: OwnMean,
        warn: Callable[[str], None],
        lengths: Sequence[float] = (),
        columns: int = 0,
    ) -> None:
        super().__init__(runner, program, lengths, columns)
        self._own, self._mean, self._warn = mean, mean.sums / sqrt(runner.bound), warn
        self._level = 0.0  # noise in one direction of y_i / kappa_i beyond that of the opened bits
        self._said = False
        self._least = 0.0

    def _more(self, x: Reals, g: Reals, *, first: bool) -> Sequence[Reals]:
        along = (self._mean @ g) * self._kappa
        if not first:
            return (along,)
        self._least = 4 * self.runner.noise(len(x)) / float(np.min(self._kappa))
        p = self.runner.precision
        rounding = float(self._kappa @ rounding_of_rho(x, g, self._own)) / self.runner.bound
        noise = 2 * (p.M + 1) * rounding * 2.0**p.margin_bits
        if noise > MOST_NOISE / p.M:
            raise InputError(
                "rounding of this party's sums could pass for deviations: features, or sparse rows are too many for a "
                "hidden mean.",
                "some ten million sparse rows of a party at most",
                "use --centre open, or give the rows as a dense file",
            )
        return self._mean, along, np.array([noise])

    def _doubt(self) -> float:
        # What noise hid in the first call may be the rounding of S, which is as symmetric as C if S_m was formed once.
        return self._least

    def _rounding(self, y: Reals) -> Reals:
        # w is off by M units of f_inv in each entry, times kappa_i a_i with |a_i| <= 1.
        p, d = self.runner.precision, len(y)
        truncation = sqrt(d) * p.M * 2.0**-p.f_inv
        return super()._rounding(y) + (truncation + sqrt(d) * self._level) * self._kappa

    def _check(self, off: Reals, explained: Reals, rounding: Reals) -> Reals:
        d = len(self._mean)
        off = np.where(self._raised | self._raised[:, None], 0.0, off)
        # Where the longest column is off by so much there is no result; what is off by less counts as noise.
        check_symmetry(off, explained + WORTHLESS / float(np.min(self._kappa)))
        if np.any(shows := off > explained):
            self._level = max(self._level, SYMMETRIC * float(np.max(off[shows])))
            rounding = np.maximum(rounding, sqrt(d) * self._level * self._kappa)
            self._say(self._level * float(np.min(self._kappa)))
        # A column that had to be raised out of the noise of the opened bits may be the rounding of S, which is as
        # symmetric as C if S_m was formed once.
        return np.where(self._raised, np.inf, rounding)

    def _say(self, off: float) -> None:
        if not self._said:
            self._warn(
                f"the sums are exact to {max(0.0, -log2(off)):.0f} bits only, of {self.runner.precision.f_out}: the "
                "means of the features are large beside their deviations; agree on an offset near the mean for each "
                "feature (--offset), or use --centre open; or a party has changed its input in the run"
            )
            self._said = True


def _columns(engine: Engine, bound: Bound, plan: OfflinePlan, mean: OwnMean | None) -> NormedSum:
    if mean is None:
        raise EngineError("there is no mean to take off.", "what this party knows of it")
    # A power of four: its root, by which sums of rows are divided, is a power of two as well.
    runner, layout = engine.programs(plan, power_of_four(largest_rho(bound, plan.shape))), plan.layout
    columns = CentredScale(runner, layout.program, mean, engine.warn, plan.shape.lengths, layout.columns)
    return positive_at_first(columns, mean)


def _seen(spec: EngineSpec) -> list[str]:
    return [
        "c C V_t in every iteration t, to f_out bits, for one secret c that is fixed for the fit and C the covariance "
        "around the mean of all rows, which is not revealed, to every party",
        "V_t in every iteration t, to every party",
    ]


CENTRED = Opening("centred", "normed", _columns, _seen, template="scaled_sum_centred", loop=True, common_scale=True)
