"""What an opening says of itself, and what openings on secret shares have in common.

An opening is one `Opening` in a module of its own, and one line in `study/levels.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.programs.precision import Precision

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec
    from pdml_spdz.programs.render import Program


@dataclass(frozen=True)
class Opening:
    """
    name : as engines list it
    level : the level of reveal that it is part of
    columns : columns(engine, bound, plan, mean), the NormedSecSum of a fit; takes what it needs from the offline phase;
        the plan is None for an opening that runs no program
    seen : seen(engine's spec), what every party sees of one run's columns, in words
    template : of the program that it runs on secret shares; "" if it runs none
    loop : one execution of the program makes all columns of a fit
    common_scale : all columns of a fit are known up to one factor
    shows_norms : the norms of the sums follow from what is opened
    """

    name: str
    level: str
    columns: Callable[[Engine, Bound, Any, OwnMean | None], NormedSum]
    seen: Callable[[EngineSpec], list[str]]
    template: str = ""
    loop: bool = False
    common_scale: bool = False
    shows_norms: bool = False


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


@dataclass(frozen=True)
class Layout:
    """The program of a fit: how many columns it takes at once, how often it is executed, and whether one execution
    takes all calls."""

    program: Program
    columns: int
    executions: int
    stream: bool


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


def dots(a: Reals, b: Reals) -> Reals:
    """a_i.b_i for all columns i."""
    products: Reals = np.einsum("ij,ij->j", a, b)
    return products


def check_symmetry(off: Reals, most: Reals) -> None:
    """All that is opened is c S v of one symmetric S: a number that wrapped, or another input than before, is not."""
    if not np.all(off <= most):
        raise ProtocolError(
            "the opened sums do not fit together: c S is not symmetric.",
            "parties that follow the protocol, and sums within the agreed bound and head-room",
            "check that all parties run the same version; if they do, a party has changed its input in the middle of "
            "the run, and may know the secret scale: compare the logs before you start again",
        )


def check_projection(found: Reals, error: Reals | float) -> None:
    """found = 1 up to `error`, column by column: a wrapped number or a party that deviates shows here."""
    if not np.all(np.abs(found - 1.0) <= error):
        raise ProtocolError(
            "the opened sums do not fit together: their projection is not 1.",
            "parties that follow the protocol, and sums within the agreed bound and head-room",
            "check that all parties run the same version and that no party changed its rows; normed-sum: try again, or "
            "raise --range (a larger ring has more head-room)",
        )
