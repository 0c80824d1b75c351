"""The mean and the deviations of all rows, by SecSum, as exact as the rows need them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.limits import MEAN_BLUR, bound_of_sums
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.base import added_up
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
MEAN_BITS = 46  # of a party's sums: what float64 makes of them is below (tests/properties/test_last_digits.py)
OFF = "the rows vary little beside their mean; how far that may put vectors off is in krylov's bound alone"
FINER, STEPS = 2.0**-10, 3
TURNS = 2  # in which a mean is found of features of any size
ROUNDED = 4.0  # times EPS: mu itself, over scales and back, and what is added to it
MEAN_OFF = 2.0**-36, 2.0**-30  # n ||delta||^2 over the largest eigenvalue, where the bound of vectors has it
SIZES = {  # what the bound of the parties' own column sums shows besides their mean
    "agreed": [],
    "window": [_EXPONENT],
    "exponent": [_EXPONENT],
    "secsum": ["the sum of the norms of the parties' own column sums, to every party"],
}


def mean(run: PartyRun, data: Data, n: int, engine: Engine, link: Link) -> tuple[Reals, float]:
    """mu of all rows, to 44 bits of the bound of the parties' own column sums; and as `_finer` says, but with
    `scale = "secsum"`, where `deviations` makes it finer, feature by feature.
    """
    own = data.rows.column_sums()
    bound = bound_of_sums(run, own, n, engine, link)
    run.show(*SIZES[run.study.bound_kind])
    total = engine.sec_sum(own, bound.addend, "mean")
    run.show(MEAN)
    mu = agreed_sum(total, link) / n
    unit = engine.sec_sum.accuracy(bound.addend).unit
    if run.study.scale == "secsum":
        return mu, 0.0
    return _finer(run, data, n, engine, link, mu, unit)


def _finer(
    run: PartyRun, data: Data, n: int, engine: Engine, link: Link, mu: Reals, unit: float
) -> tuple[Reals, float]:
    """mu as exact as the rows' deviations need it; and n ||mu - its true value||^2 at most, over the largest eigenvalue
    of S, if rounding of float64 has not room for it.

    Rows less a mean that is off by delta have a covariance that is n delta delta^T too large, which is symmetric:
    nothing later would show it.

    1. a party whose own covariance is so large that this does not matter says so (`anywhere`). Until one does: as if
       the last place were 2^10 times as fine, but no finer than 46 bits of any party's own sums of x - mu
    2. where it has to be finer: mu <- mu + SecSum(own sums of x - mu) / n, to that place; and how much float64 leaves,
       by such votes on two more limits

    Reveals: mu, finer; what `FINE` says: votes are disjunctions, of which all parties but one know the last party's
    part. Cost: a round of 8 bytes; with step 2 up to five of at most 24, and a SecSum. Ref: -
    """
    sec_sum, largest = engine.sec_sum, _largest(data, mu)
    rounded = float(added_up(n))

    def right(place: float, off: float) -> bool:
        """Whether this party's rows alone show that mu, to that place, is off by no more."""
        error = run.study.M * place + n * rounded * EPS * np.abs(mu)
        return bool(np.sum(error**2) / (4 * n) <= off * largest)

    run.show(FINE)
    if sec_sum.anywhere([right(unit, EPS)], "mean")[0]:
        run.see("fineness", np.zeros(2))
        return mu, 0.0
    rows, left = data.rows.less(mu)
    rest, steps = rows.column_sums() - data.n * left, 0
    coarse, rounded = rounded, 2.0  # of sums of x - mu no more is rounded than mu itself, and what is added to it
    while steps < STEPS and unit:
        place = unit * FINER ** (steps + 1)
        stop, good = sec_sum.anywhere([bool(np.any(np.abs(rest) > 2.0**MEAN_BITS * place)), right(place, EPS)], "mean")
        steps += not stop
        if stop or good:
            break
    place = unit * FINER**steps
    if steps or not unit:
        mu = mu + agreed_sum(sec_sum.rest(rest, place, "mean"), link, place) / n
        largest = _largest(data, mu)
    else:
        rounded = coarse
    within = sec_sum.anywhere([right(place, off) for off in (EPS, *MEAN_OFF)], "mean")
    run.see("fineness", np.array([1.0 + steps, float(sum(within))]))
    if not any(within):
        raise _constant()
    return mu, (0.0, *MEAN_OFF)[within.index(True)]


def _constant() -> InputError:
    return InputError(
        "the rows of all parties together do not vary, or by less than float64 has of their mean.",
        "features that vary",
        "leave out those that are constant; take off a number near the mean first (--offset)",
    )


def _largest(data: Data, mu: Reals) -> float:
    """The largest sum of (x - mu)^2 of a feature: no more than the largest eigenvalue of this party's covariance."""
    return float(data.rows.column_squares(mu).max(initial=0.0))


def mean_seen(study: Study) -> list[str]:
    return [*SIZES[study.bound_kind], MEAN, *([] if study.scale == "secsum" else [FINE])]


def measure(mu: Reals) -> str:
    return "deviation" if mu.size else "root mean square"


def scale_seen(mu: Reals) -> str:
    return f"the {measure(mu)} of each feature over all rows, to every party"


def deviations(run: PartyRun, data: Data, mu: Reals, n: int, engine: Engine) -> tuple[Reals, Reals, float]:
    """(mu, scale, off): root mean squares around mu, around zero where there is no mu; 1 for a feature that does not
    vary; and `View.off`.

    1. q <- SecSum(own sums of (x - mu)^2), each to 44 bits of its own
    2. mu <- mu + SecSum(own sums of x - mu) / n, none of which is larger than sqrt(n q). Before, mu was exact to 44
       bits of the largest feature, which for a small one may be nothing at all; now it is to 88
    3. q <- SecSum(own sums of (x - mu)^2)
    4. 2 and 3 once more for those features, if there are any, whose mu is still off by more than matters beside q, and
       by more than it is rounded
    5. scale <- sqrt(q / n)

    Without mu 1 and 5 alone. Reveals: as `view` says; 4 depends on what everybody has seen. Cost: as `view` says, and
    with 4 the SecSums of 2 and 3 again. Ref: -
    """
    q = engine.sec_sum.positive(data.rows.column_squares(mu if mu.size else None), "scales")
    run.show(scale_seen(mu))
    if not mu.size:
        return mu, np.where(q > 0, np.sqrt(q / n), 1.0), 0.0
    error, left = np.zeros(data.d), np.ones(data.d, np.bool_)
    for _ in range(TURNS):
        mu, q, error = mu.copy(), q.copy(), error.copy()
        mu[left], error[left] = _shifted(data, mu, q, n, engine, left)
        q[left] = engine.sec_sum.positive(data.rows.column_squares(mu)[left], "scales")
        left = n * error**2 > np.maximum(EPS * q / data.d, n * (ROUNDED * EPS * mu) ** 2)
        if not np.any(left):
            break
    error += ROUNDED * EPS * np.abs(mu)
    varies = q > 2 * n * error**2
    if not np.any(varies):
        raise _constant()
    # Of a constant there is left what mu is off by, which must not outweigh what does vary.
    scale = np.sqrt(np.where(varies, q / n, np.maximum(1.0, data.d * error**2 / EPS)))
    # Over their scales features that vary have squares of n, so that the largest eigenvalue is no less.
    off = (error / scale) ** 2
    if len(little := np.flatnonzero(off > MEAN_OFF[-1] / data.d)):
        names = listed(column(data.features, int(j)) for j in little)
        raise InputError(
            f"{names} of all parties' rows: float64 has too few digits of what deviates from the mean.",
            "deviations of more than about 10^-10 of the mean",
            "take off a number near the mean first (--offset), or leave these features out",
        )
    return mu, scale, total if (total := math.fsum(off)) > EPS else 0.0


def _shifted(data: Data, mu: Reals, q: Reals, n: int, engine: Engine, which: NDArray[np.bool_]) -> tuple[Reals, Reals]:
    """mu of some features after step 2 of `deviations`, and how far it may be off, but for its own rounding."""
    size = np.sqrt(n * (2 * q + n * (4 * ROUNDED * EPS * mu) ** 2))  # of the sums, with room for rounding of q
    rows, left = data.rows.less(mu)
    rest = (rows.column_sums() - data.n * left) / np.where(size > 0, size, 1.0)
    shift = engine.sec_sum(rest[which], 1.0, "shift")
    tolerance = engine.sec_sum.accuracy(1.0).tolerance + added_up(n) * EPS
    return mu[which] + shift * size[which] / n, tolerance * size[which] / n


def agreed_sum(total: Reals, link: Link, unit: float = 0.0) -> Reals:
    """A sum that all parties have, as the same bytes for all. unit : its last place, where it is small beside others"""
    tolerance = np.array([unit or 1e-9 * max(1.0, float(np.abs(total).max()))])
    return Agreement(link)(total[:, None], (), tolerance)[0][:, 0]
