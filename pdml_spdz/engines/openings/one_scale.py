"""The opening `one-scale`: S V up to one secret factor, the same for all columns of a fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pdml_spdz.engines.openings.base import (
    GO_ON,
    Execution,
    Opening,
    Runner,
    check_projection,
    check_symmetry,
    dots,
    public_integers,
    rounded_directions,
)
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.bound import Bound, power_of_two
from pdml_spdz.primitives.normed_sum import NormedColumns, NormedSum, OwnMean, positive_at_first, unit_columns

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec, OfflinePlan
    from pdml_spdz.programs.render import Program
    from pdml_spdz.study.algorithm import Shape

LENGTH = 2.0**5  # of what is opened, where its length is expected: 2^8 times that is still no wrap


class FixedScale:
    """PD-SVD's sums under one secret scale for the whole fit.

    1. first call: the program scaled_sum makes [c] = k / sum_i g_i.kappa_i s_i behind its gate; kappa_i = 1, or what
       makes the sums equally long where a run goes on whose sums have been seen
    2. every call: party m inputs kappa_i x_m,i / B; y_i = [c] kappa_i s_i is opened. Columns that the program takes
       and the caller has not are zero
    3. before the next call: kappa_i <- kappa_i / (g_i.y_i), with the new g = V; then g_j(old).y_i(next) / kappa_i(next)
       = y_j(old).g_i(next) / kappa_j(old) for all i and j because S is symmetric, which is checked. A caller that
       expects `lengths` checks more than that by itself: kappa_i <- 2^5 / lengths_i
    4. u_i = y_i / ||y_i||

    Reveals: y_i in every call. The ratios of all norms of a fit follow from the directions anyway (v.S w = w.S v);
    what stays hidden is their common scale. And one bit, once: in range or not.
    Cost (embedded): 2 rounds a call; 26 bytes a number and peer online, 420 offline by OT. Once: about 45 rounds, 55
    triples. In the window 34 and 810 bytes; 80 rounds, 109 triples.
    Ref: [PDML Alg. PD-SVD], with the norms of a fit tied together.
    """

    def __init__(self, runner: Runner, program: Program, lengths: Sequence[float] = (), columns: int = 0) -> None:
        self.runner, self.program, self.lengths = runner, program, lengths
        self.columns = columns  # of the program; 0: as many as in the first call
        self._kappa: Reals = np.zeros(0)
        self._raised = np.zeros(0, bool)
        self._execution: Execution | None = None
        self._before: tuple[Reals, Reals, Reals, Reals] | None = None  # g, y, kappa, rounding, a call ago

    def __call__(self, x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        runner, (d, given) = self.runner, x.shape
        k = self.columns = self.columns or given
        # Column by column, as programs read and write: nothing below strides over rows.
        x, g = (np.asfortranarray(_padded(a, k)) for a in (x, g))
        publics, before = [GO_ON], None
        if self._execution is None:
            self._execution = runner.start(self.program)
            self._kappa, self._raised = _padded(self._first_kappa(given), k, 1.0), np.zeros(k, bool)
            publics = public_integers(g, runner.precision.f_g)
        elif lengths is not None:
            self._kappa = _padded(LENGTH / lengths, k, 1.0)
        else:
            before = self._before
            self._retune(g)
        more = self._more(x, g, first=publics != [GO_ON])
        y = self._execution.call(np.multiply(x, self._kappa, order="F"), publics, more)
        rounding: Reals = self._rounding(y)
        if publics != [GO_ON]:
            # rho = sum_i g_i.s_i with the g that the program has, and y_i = k s_i / rho.
            rounded = rounded_directions(publics, runner.precision.f_g, d, k)
            mean = np.array([np.sum(rounded * y) / k])
            check_projection(mean, np.sum(np.abs(g)) * runner.ulp / k + 2.0 ** (2 - runner.precision.f_inv))
        if before is not None:
            rounding = self._check(*self._asymmetry(*before, g, y, rounding), rounding)
        self._before = g, y, self._kappa, rounding
        y, kappa, error = y[:, :given], self._kappa[:given], runner.noise(d) + rounding[:given]
        period = 2.0 ** (runner.precision.open_bits - runner.precision.f_out) / kappa
        return NormedColumns(*unit_columns(y, error), None, y / kappa, error / kappa, self._doubt(), period)

    def _first_kappa(self, k: int) -> Reals:
        """Long columns are made shorter, so that the sums stay within the bound; the gate keeps three quarters of its
        range: a blurred exponent may take half of it."""
        if not self.lengths:
            return np.ones(k)
        lengths = np.maximum(np.array(self.lengths), np.finfo(np.float64).tiny)
        shortest = max(float(lengths.min()), float(lengths.max()) * 2.0 ** -(self.runner.precision.R / 4))
        kappa: Reals = np.minimum(1.0, shortest / lengths)
        return kappa

    def _more(self, x: Reals, g: Reals, *, first: bool) -> Sequence[Reals]:
        """What the program reads besides the block."""
        return ()

    def _doubt(self) -> float:
        """How long a sum, over its kappa, may be by rounding alone, besides what float64 makes of any."""
        return 0.0

    def _rounding(self, y: Reals) -> Reals:
        """How far float64 may have put each y_i off.

        S_m v is off by some d EPS lambda_1, of which c kappa_i are in y_i, and c lambda_1 is at most the largest
        ||y_j||/kappa_j.
        """
        rounding: Reals = len(y) * EPS * np.max(np.linalg.norm(y, axis=0) / self._kappa) * self._kappa
        return rounding

    def _asymmetry(
        self, old_g: Reals, old_y: Reals, old_kappa: Reals, old_rounding: Reals, g: Reals, y: Reals, rounding: Reals
    ) -> tuple[Reals, Reals]:
        """(k, k) each: by how much g_j(old).y_i / kappa_i and y_j(old).g_i / kappa_j(old) differ, and may differ by the
        last places of both and float64's rounding: a party that has changed its S_m meanwhile shows here.
        """
        found = np.abs((old_g.T @ y) / self._kappa - (old_y.T @ g) / old_kappa[:, None])
        ulp, old = self.runner.ulp, np.sum(np.abs(old_g), axis=0)[:, None]
        places = ulp * (old / self._kappa + np.sum(np.abs(g), axis=0) / old_kappa[:, None])
        return found, places + 8 * (rounding / self._kappa + (old_rounding / old_kappa)[:, None])

    def _check(self, off: Reals, explained: Reals, rounding: Reals) -> Reals:
        """Returns how large float64's rounding is."""
        check_symmetry(off, explained)
        return rounding

    def _retune(self, g: Reals) -> None:
        """kappa for the next call."""
        if self._before is None:
            return
        _, y, _, rounding = self._before
        growth = dots(g, y)
        error = np.sum(np.abs(g), axis=0) * self.runner.ulp + rounding
        # A column that shows nothing but noise may be small beside the others: it is raised out of the noise, once. If
        # that does not help it has died, and its kappa stays.
        alive = growth > 4 * error
        factor = np.where(alive, growth, np.where(self._raised, 1.0, 4 * error))
        self._raised |= ~alive
        self._kappa = self._kappa / factor


def _padded(a: Reals, k: int, value: float = 0.0) -> Reals:
    """With k columns (numbers), of which the last have this value."""
    missing = k - a.shape[-1]
    return np.concatenate([a, np.full((*a.shape[:-1], missing), value)], axis=-1) if missing else a


def largest_rho(bound: Bound, shape: Shape) -> float:
    """rho = sum_i v_i.S v_i is at most sqrt(k) ||S||_F."""
    return bound.total * math.sqrt(shape.k)


def _columns(engine: Engine, bound: Bound, plan: OfflinePlan, mean: OwnMean | None) -> NormedSum:
    # A power of two, so that float64's rounding stays relative to the sums themselves.
    runner, layout = engine.programs(plan, power_of_two(largest_rho(bound, plan.shape))), plan.layout
    return positive_at_first(FixedScale(runner, layout.program, plan.shape.lengths, layout.columns))


def _seen(spec: EngineSpec) -> list[str]:
    return [
        "c S V_t in every iteration t, to f_out bits, for one secret c that is fixed for the fit, to every party",
        "V_t in every iteration t, to every party",
    ]


ONE_SCALE = Opening("one-scale", "normed", _columns, _seen, template="scaled_sum", loop=True, common_scale=True)
