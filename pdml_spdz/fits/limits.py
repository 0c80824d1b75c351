"""How large a run's numbers may be: checked before anything is opened, from public numbers where there are any."""

from __future__ import annotations

import math

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives import bound as bounds
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column
from pdml_spdz.rows.reading import MEAN
from pdml_spdz.run import own_secret
from pdml_spdz.run.context import PartyRun
from pdml_spdz.study.algorithm import GRAM, SQUARES
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link

NEARLY_ALL = 0.9
MEAN_BLUR = 8  # the mean itself is opened, and with it nearly all that its exponent says


def check_rows(study: Study, m: int, data: Data) -> None:
    """||X_m||_F^2 against the quota or the window, before the first sum.

    Centring makes the covariance of all rows no larger. The window has no say in rows that SecSum scales: their sums
    are below a bound by exponent, and the covariance below a public one.
    """
    if study.quotas is not None or (study.bound_kind == "window" and study.scale != "secsum"):
        known_bound(study, m, data.rows.squares(), SQUARES, data)


def known_bound(study: Study, m: int, norm: float, what: str, data: Data) -> Bound:
    """By the quotas or the window, if this party's rows keep to it."""

    def made() -> str:
        return "" if study.spec.vector else heaviest(data)

    if study.quotas is not None:
        return bounds.agreed_bound(norm, m, study.quotas, what, made)
    return bounds.window(norm, study.M, what, made)


def heaviest(data: Data) -> str:
    """The column that has nearly all of the sum of squares, in words; "" if none has."""
    squares = data.rows.column_squares()
    j = int(np.argmax(squares))
    return column(data.features, j) if data.d > 1 and squares[j] > NEARLY_ALL * squares.sum() else ""


def find_bound(run: PartyRun, norm: float, engine: Engine, link: Link, data: Data) -> Bound:
    """The bound of sums of S_m v, where this party has ||S_m||_F <= norm; the study says where it comes from.

    data : the rows that S_m is of
    """
    study = run.study
    either = _either(study)
    if study.quotas is not None or study.bound_kind == "window":
        found = known_bound(study, run.me, norm, either, data)
        if study.level.shows_sums and found.total < bounds.SMALLEST_FOUND:
            raise bounds.nothing_there()
        return found
    if study.bound_kind == "exponent":
        found = _by_exponent(run, norm, link, "fit", data.d, _exponent_of(study), bounds.BLUR)
    else:
        found = bounds.bound_by_sec_sum(norm, engine.sec_sum, either)
    run.show(*([found.observable] if found.observable else []))
    return found


def announced_bound(study: Study) -> str | None:
    """What finding the bound will show to every party."""
    if study.bound_kind == "exponent":
        return Bound(1.0, 1.0, "exponent", 0, _exponent_of(study)).observable
    return Bound(1.0, 1.0, study.bound_kind, norm=_either(study)).observable


def _either(study: Study) -> str:
    """By the form that S_m has."""
    what = study.spec.measure
    return f"{what}, or {SQUARES}" if what == GRAM else what


def blurs(study: Study) -> bool:
    """Whether a run may find an exponent, which this party's own secret blurs."""
    sums = study.rows.missing == MEAN or ("centre" in study.spec.own and study.centre == "open")
    return study.bound_kind == "exponent" or (study.bound_kind == "window" and sums)


def _exponent_of(study: Study) -> str:
    return study.spec.measure if study.spec.vector else SQUARES


def bound_of_sums(run: PartyRun, own: Reals, n: int, engine: Engine, link: Link, what: str = "mean") -> Bound:
    """The bound of the parties' own column sums t_m, for the mean of all n rows.

    With quotas from public numbers: ||t_m|| <= sqrt(n_m) ||X_m||_F <= sqrt(n max_m B_m).
    """
    study = run.study
    if study.quotas is not None:
        return Bound(most := math.sqrt(n * max(study.quotas)), study.M * most, "public")
    norm = float(np.linalg.norm(own))
    if study.bound_kind == "secsum":
        return bounds.bound_by_sec_sum(max(norm, 1e-300), engine.sec_sum)
    return _by_exponent(run, norm, link, what, len(own), "norm of the sums of its rows", MEAN_BLUR)


def bound_of_centred(run: PartyRun) -> Bound | None:
    """For rows less the mean of all rows, whose covariances add up to no more than those of the rows themselves.

    S_m <= sum_m S_m <= sum_m X_m^T X_m, all positive semidefinite, and ||X_m||_F^2 was checked. None: only data tell.
    """
    study = run.study
    if study.quotas is not None:
        return Bound(sum(study.quotas), sum(study.quotas), "agreed")
    return Bound(bounds.WINDOW, bounds.WINDOW, "window") if study.bound_kind == "window" else None


def bound_of_scaled(n: int, d: int) -> Bound:
    """For rows over their own deviations or root mean squares, which are known to 2^-20: tr S <= n d."""
    most = n * d * (1.0 + 2.0**-16)
    return Bound(most, most, "public")


def _by_exponent(run: PartyRun, norm: float, link: Link, what: str, d: int, of: str, width: int) -> Bound:
    found = bounds.bound_by_exponent(norm, link, _shift(run, what, d, width), of, width)
    run.see(f"exponent:{what}", np.array([float(found.exponent or 0)]))
    return found


def _shift(run: PartyRun, what: str, d: int, width: int) -> int:
    """Drawn from this party's secret: the same for the same kind of rows, whatever the study says.

    Not even of the names that it gives to columns, or of the party's number in it, may this depend: studies that differ
    in nothing else would each draw anew, and the least of what they show would be the exponent itself.
    """
    return bounds.shift_of(own_secret.load(run.own_secret), width, what, d)
