"""A party's rows as they are factorised: less offsets, over scales, feature by feature; and the mean of all rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.limits import (
    MEAN_BLUR,
    bound_of_centred,
    bound_of_scaled,
    bound_of_sums,
    check_rows,
)
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows.base import Rows, added_up
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import Names, column, listed, positions
from pdml_spdz.rows.suspects import dominant_column, identifiers, zeros_as_missing
from pdml_spdz.run.context import KEPT_NUMBERS, PartyRun
from pdml_spdz.study.algorithm import GRAM
from pdml_spdz.study.model import Study
from pdml_spdz.study.sealed_checks import check_sealed_size
from pdml_spdz.system.files import reading, replaced
from pdml_spdz.transport.base import Link

COUNT = "n, the number of all rows, to every party"
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


@dataclass(frozen=True)
class View:
    """X : the rows as they are factorised, less mu where it is open; scale : what they were divided by, if by SecSum

    n : rows of all parties, where that is known; sums : this party's column sums over sqrt(n), for a hidden mean
    bound : of the sums of S_m v, where it follows from what is public
    off : how much too large the covariance may be, by the error of mu, over its largest eigenvalue
    observables : what finding all this has shown to every party
    """

    X: Rows
    mu: Reals | None = None
    scale: Reals | None = None
    n: int | None = None
    sums: Reals | None = None
    bound: Bound | None = None
    observables: list[str] = field(default_factory=list)
    off: float = 0.0


def check_rank(rank: int, d: int, source: str) -> None:
    if rank > d:
        raise InputError(f"the rank asked for is {rank} and {source} has {d} columns.", "a rank of at most d")


def fitting(data: Data, study: Study, order: Names | None = None) -> Data:
    """The rows, if they are what the study is about, in the order of its features; by position, with its names or none.

    order : of the columns in a run that is resumed; the same names are brought into it
    """
    if study.columns == "name" and study.features and data.features is None:
        raise InputError(
            f"{data.source} has no names for its columns, and the study lists {len(study.features)} features.",
            "the names that the study lists",
            'give the columns names, or agree on `columns = "position"` (--columns-by position)',
        )
    if study.columns == "name" and study.features:
        data = data.in_order(study.features, "the study")
    elif study.columns == "name" and order and set(order) == set(data.features or ()):
        data = data.in_order(order, "the run that is resumed")
    if study.columns == "position":
        # Before anything is made of the rows: a run that is resumed knows them by what they were called in it.
        data = replace(data, features=study.features or None)
    d = study.d or len(study.features)
    if d and data.d != d:
        raise InputError(f"{data.source} has {data.d} columns.", f"the study's {d} features")
    if not study.spec.vector:
        check_rank(study.rank, data.d, data.source)
    if study.level.sealed:  # here, before a mean is opened for nothing
        check_sealed_size(data.d, study.rank)
    offsets, _ = offsets_and_scales(study, data)
    if np.any(offsets) and data.rows.sparse:
        raise InputError(
            f"{data.source} has sparse rows and the study has offsets, which would fill them.",
            "offsets of zero for sparse rows",
            "give the rows as a dense file, or leave the offsets out",
        )
    return data


def expect(data: Data, study: Study) -> None:
    """How often the rows will be gone through: for those who then decide what one pass is to find."""
    if study.spec.measure == GRAM:
        solver = study.solver_spec
        data.rows.expect(solver.columns(study.rank, data.d), min(study.iterations, solver.expected))


def agreed(data: Data, study: Study) -> Data:
    """The rows less the study's offsets, over its scales, and what their party should know of them: all of it local."""
    if study.spec.vector:
        return data
    rows = replace(data, rows=moved(data, study))
    centred = "centre" in study.spec.own and study.centre != "none"
    dominant = dominant_column(replace(rows, rows=rows.known), centred=centred) if study.scale == "agreed" else []
    found = [*identifiers(replace(data, rows=data.known)), *dominant, *suspected_zeros(data, study)]
    return replace(rows, warnings=(*data.warnings, *found))


def suspected_zeros(data: Data, study: Study) -> list[str]:
    """A warning, if the study is about entries that are there and these rows do not say which."""
    return zeros_as_missing(data) if study.nmf.weighted else []


def offsets_and_scales(study: Study, data: Data) -> tuple[Reals, Reals]:
    """The study's, in the order of the rows' columns; empty where it has none."""
    named = (("offsets", study.offset_features), ("scales", study.scale_features))
    offsets, scales = (_in_order(study, name, listed, data) for name, listed in named)
    return offsets, scales


def _in_order(study: Study, name: str, listed: Names, data: Data) -> Reals:
    values = np.array(getattr(study, name), np.float64)
    if values.size and len(values) != data.d:
        raise InputError(f"{data.source} has {data.d} columns and the study {len(values)} {name}.", "one for each")
    if not listed or study.columns == "position":
        return values
    if data.features is None:
        raise InputError(
            f"the study's {name} have names, and the columns of {data.source} have none.",
            "names in both, or in neither",
            'give the columns names, or agree on `columns = "position"` (--columns-by position)',
        )
    return values[positions(listed, data.features, f"the list of the study's {name}", data.source)]


def moved(data: Data, study: Study) -> Rows:
    """(X - offsets) / scales, where there are any."""
    offsets, scales = offsets_and_scales(study, data)
    X = data.rows.shifted(offsets) if np.any(offsets) else data.rows
    return X.over(scales) if scales.size else X


def original_mean(rows: View, study: Study, data: Data) -> Reals:
    """What was taken off the rows, in their units as they came: mu and the offsets; mu is 0 where there is none."""
    offsets, scales = offsets_and_scales(study, data)
    scale = (rows.scale if rows.scale is not None else 1.0) * (scales if scales.size else 1.0)
    mu = np.zeros(data.d) if rows.mu is None else rows.mu
    mean: Reals = mu * scale + (offsets if offsets.size else 0.0)
    return mean


def accept(study: Study, m: int, data: Data) -> None:
    """A quota is checked before the first sum, if what is opened before the fit depends on rows that exceed it."""
    if counted(study):
        check_rows(study, m, data.known)


def counted(study: Study) -> bool:
    """Whether n, and more of all rows, is found before the fit."""
    pca = "centre" in study.spec.own and (study.centre != "none" or study.variance)
    return pca or study.scale == "secsum"


def view(run: PartyRun, data: Data, link: Link, engine: Engine) -> View:
    """What the study wants to be known of all rows, and the rows as they are factorised.

    The run begins here: of an older one in the same directory nothing is left, unless it is resumed.

    1. n <- SecSum(n_m), exactly, if anything below needs it
    2. mu <- SecSum(own column sums) / n, with `centre = "open"`
    3. scale <- sqrt(SecSum(own column sums of (x - mu)^2) / n), with `scale = "secsum"`; mu = 0 if it is not open

    Reveals: n, mu, scale, as far as the study asks for them, to 44 bits: mu below the bound of its sums, which shows
    what `SIZES` says, or finer (`_mean`); with `scale = "secsum"` each of mu and scale below the scale itself, the
    scale two or three times, each rounded anew (`_deviations`). With `centre = "hidden"` n alone.
    Cost: SecSums of 1 and d numbers and the bound's, for scale two more of d numbers by `positive` and one of d, and
    where features are far smaller than others one more of each, of those.
    Ref: [PDML App. Extension to PCA]; as printed it subtracts a multiple of the party's own mean, which is not PCA.
    """
    study = run.study
    pca, by_sec_sum = "centre" in study.spec.own, study.scale == "secsum"
    if not counted(study):
        return View(data.rows)
    kept = run.directory / "centre.npz"
    if run.resume and kept.is_file():
        # Computed again, it would be rounded anew, and two roundings show more than one.
        with reading(kept, *KEPT_NUMBERS), np.load(kept, allow_pickle=False) as archive:
            n, mu, scale, off = int(archive["n"]), archive["mu"], archive["scale"], float(archive["off"])
    else:
        n = engine.sec_sum.integer(data.n, "rows")
        run.show(COUNT)
        if n < 2 and pca:
            raise InputError(f"all parties together have {n} rows.", "two or more")
        mu, off = _mean(run, data, n, engine, link) if pca and study.centre == "open" else (np.zeros(0), 0.0)
        scale = np.zeros(0)
        if by_sec_sum:
            mu, scale, off = _deviations(run, data, mu, n, engine)
        with replaced(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, n=np.array(n), mu=mu, scale=scale, off=np.array(off))
    if off:
        run.note(OFF)
    Agreement(link).digest("centre", mu.tobytes() + scale.tobytes() + f"{n} {off}".encode())
    for name, value in (("rows", np.array([n])), ("mean", mu), ("scale", scale)):
        if value.size:
            run.see(name, value)
    seen = _seen(data, study, n, mu, scale, run.note)
    run.show(*seen.observables)
    return replace(seen, bound=_bound(run, seen, data.d), off=off)


def announced_view(study: Study) -> list[str]:
    """What `view` will show to every party, in words."""
    if not counted(study):
        return []
    mu = np.zeros(int("centre" in study.spec.own and study.centre == "open"))
    seen = [COUNT, *(_mean_seen(study) if mu.size else [])]
    return [*seen, _scale_seen(mu)] if study.scale == "secsum" else seen


def _bound(run: PartyRun, rows: View, d: int) -> Bound | None:
    """Of the rows as they are factorised, if what all parties know says it."""
    if rows.scale is not None and rows.n is not None:
        return bound_of_scaled(rows.n, d)
    return bound_of_centred(run) if rows.mu is not None else None


def _seen(data: Data, study: Study, n: int, mu: Reals, scale: Reals, note: Callable[[str], None]) -> View:
    X, observables = data.rows, [COUNT]
    if mu.size:
        note(f"centring by the mean of {n:,} rows, which every party sees")
        observables += _mean_seen(study)
    if scale.size:
        note(f"scaling by the {_measure(mu)} of each feature, which every party sees")
        observables.append(_scale_seen(mu))
        X, mu = X.over(scale), mu / scale if mu.size else mu
    sums = None
    if study.centre == "hidden":
        note(f"centring by the mean of {n:,} rows, which nobody sees")
        sums = X.column_sums() / np.sqrt(n)
    return View(X, mu if mu.size else None, scale if scale.size else None, n, sums, None, observables)


def _mean(run: PartyRun, data: Data, n: int, engine: Engine, link: Link) -> tuple[Reals, float]:
    """mu of all rows, to 44 bits of the bound of the parties' own column sums; and as `_finer` says, but with
    `scale = "secsum"`, where `_deviations` makes it finer, feature by feature.
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


def _mean_seen(study: Study) -> list[str]:
    return [*SIZES[study.bound_kind], MEAN, *([] if study.scale == "secsum" else [FINE])]


def _measure(mu: Reals) -> str:
    return "deviation" if mu.size else "root mean square"


def _scale_seen(mu: Reals) -> str:
    return f"the {_measure(mu)} of each feature over all rows, to every party"


def _deviations(run: PartyRun, data: Data, mu: Reals, n: int, engine: Engine) -> tuple[Reals, Reals, float]:
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
    run.show(_scale_seen(mu))
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
    """mu of some features after step 2 of `_deviations`, and how far it may be off, but for its own rounding."""
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
