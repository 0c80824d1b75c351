"""The mean and the deviations of all rows, by SecSum, as exact as the rows need them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.fineness import (
    MOVED,
    Counted,
    MeanFound,
    Need,
    agreed_sum,
    finer,
    largest,
    off_by,
    rounding,
    rounding_of_sums,
)
from pdml_spdz.fits.limits import MEAN_BLUR, bound_of_sums
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column, listed
from pdml_spdz.run.context import PartyRun
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link

MEAN = "the mean of all rows, to every party"
FINE = "how finely the rows' deviations need the mean, in up to three steps of 10 bits and two more, to every party"
_EXPONENT = (
    f"an exponent up to {MEAN_BLUR - 1} above that of the largest norm of a party's own column sums, to every party"
)
OFF = "the rows vary little beside their mean; how far that may put vectors off is in krylov's bound alone"
TURNS = 40  # in which a mean is found of features of any size: each leaves 2^-88 of the squares, at most
ROUNDED = 4.0  # times EPS: mu itself, over scales and back, and what is added to it
LAST = 1.5  # times EPS: mu itself
SMALL, LEAST = 1e-130, 1e-270  # of a number, and of a sum of squares, that has all its digits
CONSTANT = (
    "{} of all parties' rows: constant, as far as float64 has digits at that size, and so of no weight; if that is not "
    "so, take off a number near the mean first (--offset)"
)
MEAN_OFF = 2.0**-36, 2.0**-30  # n ||delta||^2 over the largest eigenvalue, where the bound of vectors has it
SIZES = {  # what the bound of the parties' own column sums shows besides their mean
    "agreed": [],
    "window": [_EXPONENT],
    "exponent": [_EXPONENT],
    "secsum": ["the sum of the norms of the parties' own column sums, to every party"],
}


def mean(run: PartyRun, data: Data, n: int, engine: Engine, link: Link) -> tuple[Reals, float]:
    """mu of all rows, to 44 bits of the bound of the parties' own column sums; and as `_fine_mean` says, but with
    `scale = "secsum"`, where `deviations` makes it finer, feature by feature.
    """
    own = data.rows.column_sums()
    bound = bound_of_sums(run, own, n, engine, link)
    run.show(*SIZES[run.study.bound_kind])
    total = engine.sec_sum(own, bound.addend, "mean")
    run.show(MEAN)
    mu = agreed_sum(total, link) / n
    if run.study.scale == "secsum":
        return mu, 0.0
    return _fine_mean(run, data, n, engine, link, mu, engine.sec_sum.accuracy(bound.addend).unit)


def _fine_mean(
    run: PartyRun, data: Data, n: int, engine: Engine, link: Link, mu: Reals, unit: float
) -> tuple[Reals, float]:
    """mu as exact as the rows' deviations need it; and n ||mu - its true value||^2 at most, over the largest eigenvalue
    of S, if rounding of float64 has not room for it.

    Rows less a mean that is off by delta have a covariance that is n delta delta^T too large, which is symmetric:
    nothing later would show it.

    1. a party whose own rows vary so much that the error of mu does not matter says so (`anywhere`)
    2. if none does: mu <- `finer`; how much float64 leaves is found by such votes on two more limits

    Reveals: mu, finer; what `FINE` says. Cost: a round of 8 bytes; with step 2 one of 24, and `finer`. Ref: -
    """
    run.show(FINE)
    known = MeanFound(mu, n, n, unit, n, rounding(mu, rounding_of_sums(n)))
    if engine.sec_sum.anywhere([off_by(run, known, largest(data, mu)) <= EPS], "mean")[0]:
        run.see("fineness", np.zeros(2))
        return mu, 0.0
    known = finer(run, data, known, engine, link, Need("mean", EPS, MOVED))
    variance, limits = largest(data, known.mu), (EPS, *MEAN_OFF)
    within = engine.sec_sum.anywhere([off_by(run, known, variance) <= off for off in limits], "mean")
    run.see("fineness", np.array([1.0 + known.steps, float(sum(within))]))
    if not any(within):
        raise _constant()
    return known.mu, (0.0, *MEAN_OFF)[within.index(True)]


def _constant() -> InputError:
    return InputError(
        "the rows of all parties together do not vary, or by less than float64 has of their mean.",
        "features that vary",
        "leave out those that are constant; take off a number near the mean first (--offset)",
    )


def mean_seen(study: Study) -> list[str]:
    return [*SIZES[study.bound_kind], MEAN, *([] if study.scale == "secsum" else [FINE])]


def measure(mu: Reals) -> str:
    return "deviation" if mu.size else "root mean square"


def scale_seen(mu: Reals) -> str:
    return f"the {measure(mu)} of each feature over all rows, to every party"


@dataclass(frozen=True)
class Deviations:
    """scale : (d,) root mean squares around mu, around zero where there is no mu; 1 for a feature that does not vary

    off : as `View.off`; constant : (d,), which features are taken to be constant
    """

    mu: Reals
    scale: Reals
    off: float
    constant: NDArray[np.bool_]


def deviations(run: PartyRun, data: Data, mu: Reals, n: int, engine: Engine) -> Deviations:
    """The deviations of all rows.

    1. mu, q <- `around`
    2. scale <- sqrt(q / n)

    Without mu q <- SecSum(own sums of x^2), each to 44 bits of its own. Numbers so small that their squares are lost
    end the run. Reveals: as `around`. Cost: as of `around`; without mu a round of 8 bytes a feature, and `positive`.
    Ref: -
    """
    if not mu.size:
        live = _live(data, engine)
        q = engine.sec_sum.positive(data.rows.column_squares(), "scales")
        run.show(scale_seen(mu))
        _refuse_lost(data, live & (q < LEAST))
        return Deviations(mu, np.where(q > 0, np.sqrt(q / n), 1.0), 0.0, np.zeros(data.d, np.bool_))
    mu, q, error = around(run, data, mu, n, engine, scale_seen(mu), EPS / data.d)
    # Of a constant there is left what mu is off by: rounded to the nearest number, and that is all.
    constant = q <= n * (error + LAST * EPS * np.abs(mu)) ** 2
    error += ROUNDED * EPS * np.abs(mu)
    if np.all(constant):
        raise _constant()
    if len(doubtful := np.flatnonzero(~constant & (q <= 2 * n * error**2))):
        raise _too_few_digits(data, doubtful)
    # What is left of a constant must not outweigh what does vary.
    scale = np.sqrt(np.where(constant, np.maximum(1.0, data.d * error**2 / EPS), q / n))
    # Over their scales features that vary have squares of n, so that the largest eigenvalue is no less.
    off = (error / scale) ** 2
    if len(little := np.flatnonzero(off > MEAN_OFF[-1] / data.d)):
        raise _too_few_digits(data, little)
    return Deviations(mu, scale, total if (total := math.fsum(off)) > EPS else 0.0, constant)


def constant_features(data: Data, constant: NDArray[np.bool_]) -> list[str]:
    """A warning that names them, if there are any."""
    names = [column(data.features, int(j)) for j in np.flatnonzero(constant)]
    return [CONSTANT.format(listed(names))] if names else []


def _too_few_digits(data: Data, which: NDArray[np.int64]) -> InputError:
    names = listed(column(data.features, int(j)) for j in which)
    return InputError(
        f"{names} of all parties' rows: float64 has too few digits of what deviates from the mean.",
        "deviations of more than about 10^-10 of the mean",
        "take off a number near the mean first (--offset), or leave these features out",
    )


def around(
    run: PartyRun, data: Data, mu: Reals, n: Counted, engine: Engine, shown: str, enough: float
) -> tuple[Reals, Reals, Reals]:
    """(mu, q, error): the mean of each feature, the sum of squares around it, and how far mu may be off, but for its
    own rounding. n : rows, or the values of each feature that there are; enough : n error^2 over q

    1. mu <- 0 for a feature that is zero in all rows (`anywhere`); q <- SecSum(own sums of (x - mu)^2), each to 44 bits
       of its own
    2. mu <- mu + SecSum(own sums of x - mu) / n, none of which is larger than sqrt(n q). Before, mu was exact to 44
       bits of the largest feature, which for a small one may be nothing at all; now it is to 88
    3. q <- SecSum(own sums of (x - mu)^2)
    4. 2 and 3 again for those features, if there are any, whose mu is still off by more than matters beside q, and by
       more than it is rounded

    Reveals: mu and q, each to 44 bits, in every turn; 4 depends on what everybody has seen. Which features are zero in
    all rows, as their q shows too. Cost: a round of 8 bytes a feature, three SecSums, of which two are `positive`, and
    two for each turn more. Ref: -
    """
    live = _live(data, engine)
    mu = np.where(live, mu, 0.0)
    q = engine.sec_sum.positive(data.rows.column_squares(mu), "scales")
    run.show(shown)
    error, left = np.zeros(data.d), np.ones(data.d, np.bool_)
    for _ in range(TURNS):
        mu, q, error = mu.copy(), q.copy(), error.copy()
        mu[left], error[left] = _shifted(data, mu, q, n, engine, left)
        q[left] = engine.sec_sum.positive(data.rows.column_squares(mu)[left], "scales")
        left = n * error**2 > np.maximum(enough * q, n * (ROUNDED * EPS * mu) ** 2)
        if not np.any(left):
            _refuse_lost(data, live & (q < LEAST) & (np.abs(mu) < SMALL))
            return mu, q, error
    raise _too_few_digits(data, np.flatnonzero(left))


def _live(data: Data, engine: Engine) -> NDArray[np.bool_]:
    """(d,): which features are not zero in all rows, even if their squares are."""
    own = (data.rows.column_squares() > 0) | (data.rows.column_sums() != 0)
    return np.array(engine.sec_sum.anywhere([*own], "scales"))


def _refuse_lost(data: Data, lost: NDArray[np.bool_]) -> None:
    if np.any(lost):
        names = listed(column(data.features, int(j)) for j in np.flatnonzero(lost))
        raise InputError(
            f"{names} of all parties' rows: numbers so small that float64 has no squares of them.",
            "numbers above 1e-135",
            "write these features in other units",
        )


def _shifted(
    data: Data, mu: Reals, q: Reals, n: Counted, engine: Engine, which: NDArray[np.bool_]
) -> tuple[Reals, Reals]:
    """mu of some features after step 2 of `around`, and how far it may be off, but for its own rounding."""
    size = np.sqrt(n * (2 * q + n * (4 * ROUNDED * EPS * mu) ** 2))  # of the sums, with room for rounding of q
    rest = data.rows.sums_less(mu) / np.where(size > 0, size, 1.0)
    shift = engine.sec_sum(rest[which], 1.0, "shift")
    tolerance = engine.sec_sum.accuracy(1.0).tolerance + rounding_of_sums(n) * EPS
    over = (size / n)[which]
    return mu[which] + shift * over, tolerance * over
