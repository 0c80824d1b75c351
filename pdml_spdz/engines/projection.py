"""NormedSecSum by projection, whatever runs the programs: per column, and with one secret scale for a fit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.engines.base import Shape
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.bound import Bound, power_of_four, power_of_two
from pdml_spdz.primitives.normed_sum import NormedColumns, unit_columns
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program


class Execution(ABC):
    """A program that runs: it takes this party's block x, and what is public, and gives the opened y."""

    @abstractmethod
    def call(self, x: Reals, publics: Sequence[int], more: Sequence[Reals] = ()) -> Reals:
        """y of shape (d, k), for x of that shape. more : what else the program reads, relative to the bound already"""

    @abstractmethod
    def finish(self) -> None:
        """No further call: the program terminates successfully at every party."""


class Runner(ABC):
    """Starts programs for sums within `bound`."""

    def __init__(self, precision: Precision, bound: float) -> None:
        self.precision, self.bound = precision, bound

    @abstractmethod
    def start(self, program: Program) -> Execution: ...

    @property
    def ulp(self) -> float:
        """How far an entry of y may be from the exact one: M units of its last place."""
        return self.precision.M * 2.0**-self.precision.f_out

    def noise(self, d: int) -> float:
        """How far a column of y is from the exact one in l2, but for one case in about 3000.

        An entry is off by M uniform dithers and M - 1 lost carries, together a variance of at most M/6 units^2.
        """
        unit = 2.0**-self.precision.f_out
        return min(math.sqrt(d) * self.ulp, math.sqrt(self.precision.M / 6) * unit * (math.sqrt(d) + 4.0))


def decode(opened: NDArray[np.uint64], precision: Precision, d: int, bias: float = 0.0) -> Reals:
    """y of shape (d, k) from what a program puts out: positive numbers of open_bits bits, `bias` units too large."""
    shift = np.uint64(64 - precision.open_bits)
    centred = (opened - np.uint64(1 << precision.open_bits - 1)) << shift
    signed = (centred.view(np.int64) >> np.int64(shift)).astype(np.float64)
    return np.ldexp(signed - bias if bias else signed, -precision.f_out).reshape(-1, d).T


GO_ON = 0  # before an iteration; 1 would end the program


def public_integers(g: Reals, f_g: int) -> list[int]:
    """g with f_g fraction bits, column after column."""
    integers: list[int] = np.rint(np.ldexp(g.T.reshape(-1), f_g)).astype(np.int64).tolist()
    return integers


def rounded_directions(integers: Sequence[int], f_g: int, d: int, k: int) -> Reals:
    """g as a program has it, of shape (d, k)."""
    return np.ldexp(np.array(integers, np.float64), -f_g).reshape(k, d).T


def scale_for(bound: Bound, shape: Shape, *, fit: bool, hidden: bool = False) -> float:
    """What inputs are divided by: a power of two, so that float64's rounding stays relative to the sums themselves.

    fit : one scale for all columns: rho = sum_i v_i.S v_i is at most sqrt(k) ||S||_F; hidden : its root is wanted too
    """
    largest = bound.total * (math.sqrt(shape.k) if fit else 1.0)
    return power_of_four(largest) if hidden else power_of_two(largest)


class PerColumn:
    """One gated NormedSecSum for each column and call: the paper's way.

    1. party m inputs x_m / B, all k columns; g is public
    2. the program normed_sum opens y_i = s_i / |g_i.s_i| behind its gate
    3. |g_i.y_i| = 1 up to rounding, or the run ends; u_i = y_i / ||y_i||

    Reveals: u_i to f_out bits, and one bit for each column: in range or not.
    Cost (embedded): about 180 rounds; 26 bytes a number and peer online, 420 offline by OT; 130 triples a column. In
    the window about 370 rounds, 34 and 810 bytes, 270 triples.
    Ref: [PDML App. NormedSecSum], by projection.
    """

    def __init__(self, runner: Runner, program: Program, columns: int, *, stream: bool = False) -> None:
        self.runner, self.program, self.columns = runner, program, columns
        self._stream: Execution | None = runner.start(program) if stream else None

    def __call__(self, x: Reals, g: Reals) -> NormedColumns:
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
        projected = np.abs(_dots(rounded, y))
        # Each entry of y is off by at most one ulp (M units), and inv by 2^-f_inv relative.
        check_projection(projected, np.sum(np.abs(rounded), axis=0) * runner.ulp + 2.0 ** (2 - runner.precision.f_inv))
        return y


class FixedScale:
    """PD-SVD's sums under one secret scale for the whole fit.

    1. first call: the program scaled_sum makes [c] = k / sum_i g_i.kappa_i s_i behind its gate; kappa_i = 1, or what
       makes the sums equally long where a run goes on whose sums have been seen
    2. every call: party m inputs kappa_i x_m,i / B; y_i = [c] kappa_i s_i is opened
    3. before the next call: kappa_i <- kappa_i / (g_i.y_i), with the new g = V; then g_i(old).y_i(next) = 1 because
       S is symmetric, which is checked
    4. u_i = y_i / ||y_i||

    Reveals: y_i in every call. The ratios of all norms of a fit follow from the directions anyway (v.S w = w.S v);
    what stays hidden is their common scale. And one bit, once: in range or not.
    Cost (embedded): 2 rounds a call; 26 bytes a number and peer online, 420 offline by OT. Once: about 70 rounds, 64
    triples. In the window 34 and 810 bytes; 130 rounds, 126 triples.
    Ref: [PDML Alg. PD-SVD], with the norms of a fit tied together.
    """

    def __init__(self, runner: Runner, program: Program, lengths: Sequence[float] = ()) -> None:
        self.runner, self.program, self.lengths = runner, program, lengths
        self._kappa: Reals = np.zeros(0)
        self._raised = np.zeros(0, bool)
        self._execution: Execution | None = None
        self._before: tuple[Reals, Reals, Reals] | None = None  # g, y and its rounding errors, of the call before

    def __call__(self, x: Reals, g: Reals) -> NormedColumns:
        runner, (d, k) = self.runner, x.shape
        g = np.asfortranarray(g)  # column by column, as programs read and write: nothing below strides over rows
        publics = [GO_ON]
        if self._execution is None:
            self._execution = runner.start(self.program)
            self._kappa, self._raised = self._first_kappa(k), np.zeros(k, bool)
            publics = public_integers(g, runner.precision.f_g)
        expected = self._retune(g)
        more = self._more(x, g, first=publics != [GO_ON])
        y = self._execution.call(np.multiply(x, self._kappa, order="F"), publics, more)
        rounding = self._rounding(y)
        if publics != [GO_ON]:
            # rho = sum_i g_i.s_i with the g that the program has, and y_i = k s_i / rho.
            rounded = rounded_directions(publics, runner.precision.f_g, d, k)
            mean = np.sum(rounded * y, keepdims=True) / k
            check_projection(mean[0], np.sum(np.abs(g)) * runner.ulp / k + 2.0 ** (2 - runner.precision.f_inv))
        if expected is not None:
            old_g, error = expected
            rounding = self._check(_dots(old_g, y), error, rounding)
        self._before = g, y, rounding
        return NormedColumns(*unit_columns(y, runner.noise(d) + rounding), None, y / self._kappa)

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

    def _rounding(self, y: Reals) -> Reals:
        """How far float64 may have put each y_i off.

        S_m v is off by some d EPS lambda_1, of which c kappa_i are in y_i, and c lambda_1 is at most the largest
        ||y_j||/kappa_j.
        """
        rounding: Reals = len(y) * EPS * np.max(np.linalg.norm(y, axis=0) / self._kappa) * self._kappa
        return rounding

    def _check(self, found: Reals, error: Reals, rounding: Reals) -> Reals:
        """g(old).y = 1 up to `error` and float64's rounding; returns how large that is."""
        check_projection(found, error + 8 * rounding)
        return rounding

    def _retune(self, g: Reals) -> tuple[Reals, Reals] | None:
        """kappa for the next call; returns the old g and how far old g . next y may be from 1."""
        if self._before is None:
            return None
        old_g, y, rounding = self._before
        growth = _dots(g, y)
        error = np.sum(np.abs(g), axis=0) * self.runner.ulp + rounding
        # A column that shows nothing but noise may be small beside the others: it is raised out of the noise, once. If
        # that does not help it has died; its kappa stays, and its check means nothing.
        alive = growth > 4 * error
        factor = np.where(alive, growth, np.where(self._raised, 1.0, 4 * error))
        self._raised |= ~alive
        self._kappa = self._kappa / factor
        slack = np.sum(np.abs(old_g), axis=0) * self.runner.ulp + 2 * error / factor
        return old_g, np.where(alive, slack, np.inf)


def _dots(a: Reals, b: Reals) -> Reals:
    """a_i.b_i for all columns i."""
    dots: Reals = np.einsum("ij,ij->j", a, b)
    return dots


def check_projection(found: Reals, error: Reals | float) -> None:
    """found = 1 up to `error`, column by column: a wrapped number or a party that deviates shows here."""
    if not np.all(np.abs(found - 1.0) <= error):
        raise ProtocolError(
            "the opened sums do not fit together: their projection is not 1.",
            "parties that follow the protocol, and sums within the agreed bound and head-room",
            "check that all parties run the same version and that no party changed its rows; normed-sum: try again, or "
            "raise --range (a larger ring has more head-room)",
        )


COARSE = "with inputs no finer than that, the norms too (docs/security.md)"  # of the paper's own program


def observables(normalise: str, *, hidden: bool = False) -> list[str]:
    """What the other parties see of one run's columns, in words. hidden : with the mean of all rows taken off"""
    if hidden:
        return [
            "c C V_t in every iteration t, to f_out bits, for one secret c that is fixed for the fit and C the "
            "covariance around the mean of all rows, which is not revealed, to every party",
            "V_t in every iteration t, to every party",
        ]
    if normalise == "per-column":
        return [
            "the direction of S v_i for every column i in every iteration, to f_out bits, to every party",
            "V_t in every iteration t, to every party",
        ]
    return [
        "c S V_t in every iteration t, to f_out bits, for one secret c that is fixed for the fit, to every party",
        "V_t in every iteration t, to every party",
    ]
