"""Missing values: the mean of all parties' values of that feature, before the fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.centring import SIZES, around
from pdml_spdz.fits.fineness import MeanFound, Need, agreed_sum, finer, largest, off_by, rounding, rounding_of_sums
from pdml_spdz.fits.limits import bound_of_sums
from pdml_spdz.fits.prepare import offsets_and_scales
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column, listed
from pdml_spdz.rows.present import present
from pdml_spdz.rows.reading import MEAN
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link

COUNTS = "how many values of each feature all parties together have, to every party"
SUMS = "the sum of all parties' values of each feature, and so the mean that is filled in, to every party"
FINE = (
    "how finely the values' deviations need that mean, in bits, which of four limits it comes to beside the deviations "
    "and, if rows are not centred, beside the rows, and then also whether every party has the feature with the most "
    "values in half of its rows, if not, whether one has more rows than values, and by how many, in steps of 4 bits, "
    "to every party"
)
DEVIATIONS = "the deviation of each feature's values, as far as there are any, to every party"
FILLED = 2.0**-38  # of the deviations: what is filled in may be off by so much, which no bound has
FILLED_OFF = 2.0**-36, 2.0**-33, 2.0**-24  # the same, where the bound of vectors has it
TURNS_OF_FILL, STEP_BITS = 6, 5  # each leaves 2^-30 of the error, or what 46 bits of the parties' own sums leave
COARSE = (
    "missing values: what is filled in is known to {:.0e} of the largest deviation only, as there are few values, or "
    "far larger ones beside them; how far that may put vectors off is in krylov's bound alone"
)
KEPT_FILL = "missing.npz"
MOST_ROWS = 2.0**36  # of one party: a count is then off by less than a half, whatever M is, and so exact


@dataclass(frozen=True)
class Filling:
    """values : (d,) what is filled in, in the units of the fit; observables : what finding them has shown
    coarse : how well they are known, of the largest deviation; 0 if well enough
    off : how far they may put S off, over its largest eigenvalue; 0 if that does not matter
    """

    values: Reals
    coarse: float = 0.0
    off: float = 0.0
    observables: list[str] = field(default_factory=list)


def fit_filled(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """The study's fit, of rows in which nothing is missing."""
    if run.study.rows.missing != MEAN:
        fitted: Fitted = run.study.spec.fit(run, data, link, engine)
        return fitted
    found = filling(run, data, link, engine)
    rows = data.rows.filled(found.values) if data.holes else data.rows
    fitted = run.study.spec.fit(run, replace(data, rows=rows, holes=False, off=found.off), link, engine)
    if found.coarse:
        fitted.report["warnings"].append(COARSE.format(found.coarse))
    fitted.report["observables"] = [*found.observables, *fitted.report["observables"]]
    offsets, scales = offsets_and_scales(run.study, data)
    units = scales if scales.size else 1.0
    fitted.arrays["fill.npy"] = found.values * units + (offsets if offsets.size else 0.0)
    return fitted


def filling(run: PartyRun, data: Data, link: Link, engine: Engine) -> Filling:
    """The mean of all parties' values of each feature.

    1. c <- SecSum(how many values party m has of each feature), which is a whole number
    2. t <- SecSum(their sums), below a bound that follows from c and the quotas, or is found as that of a mean is
    3. v <- t / c; a feature of which nobody has a value ends the run
    4. v is exact to 44 bits of the largest feature, which for a small one may be nothing at all: it is made as exact as
       the values' deviations need it (`_fine`), with `scale = "secsum"` feature by feature (`centring.around`)

    Reveals: c; v, to 44 bits below the bound of t, which shows what `SIZES` says, or finer, and then what `FINE` says;
    with `scale = "secsum"` the deviation of each feature's values, which the fit shows too.
    Cost: two SecSums of d numbers and the bound's; 4 as of what it calls, and where rows are not loaded whole a pass.
    Ref: -
    """
    seen = announced_filling(run.study)
    if (kept := run.kept.get(KEPT_FILL)) is not None:
        found = Filling(kept["values"], float(kept["coarse"]), float(kept["off"]))
        run.show(*seen)
    else:
        there = (data.n - data.missing()).astype(np.float64)
        counts = np.rint(engine.sec_sum(there, MOST_ROWS, "counts"))
        run.show(COUNTS)
        _refuse_empty(counts, data)
        own = data.known.column_sums()
        bound = bound_of_sums(run, own, int(counts.max()), engine, link, "fill")
        run.show(*SIZES[run.study.bound_kind])
        values = agreed_sum(engine.sec_sum(own, bound.addend, "fill"), link) / counts
        run.show(SUMS)
        found = _fine(run, present(data, own), values, there, counts, bound.addend, engine, link)
        if not run.study.spec.signed:
            found = replace(found, values=np.maximum(found.values, 0.0))  # what opening has put below zero
        run.kept.keep(KEPT_FILL, values=found.values, coarse=np.array(found.coarse), off=np.array(found.off))
    Agreement(link).digest("fill", found.values.tobytes() + f"{found.coarse} {found.off}".encode())
    run.see("fill", found.values)
    run.note("missing values get the mean of all parties' values, which every party sees")
    return replace(found, observables=seen)


def _fine(
    run: PartyRun, data: Data, values: Reals, there: Reals, counts: Reals, bound: float, engine: Engine, link: Link
) -> Filling:
    """Step 4 of `filling`.

    Of m_j values that are missing beside c_j each is off by delta_j: rows are off by E, and S by 2 ||E|| / sqrt(lambda)
    + ||E||^2 / lambda, over lambda. Once the mean of all rows is taken off, ||E||^2 = sum_j delta_j^2 m_j c_j / (m_j +
    c_j) <= sum_j c_j delta_j^2. Where it stays, m_j is at most the number of rows (`_rows_at_most`).

    1. a party whose own values vary so much that this does not matter says so (`anywhere`); or nobody's values deviate
    2. until that is so: v <- `finer`, from where it has come to, in the end bit by bit
    3. where float64 has no more of it: how far off it is, beside the deviations and beside the rows as they are
       factorised, by such votes on three more limits; beyond, the run ends

    What is filled in is a float64 number, as the values are: that it is rounded to one does not count.

    Reveals: v, finer; what `FINE` says. Cost: a round of 16 bytes; for each turn of 2, mostly two, `finer` and that
    again; with step 3 a round of 64 bytes. Ref: -
    """
    # Rows that get a mean which is off by delta are off by delta, not by its square as if it were taken off all rows.
    enough = max(FILLED, 4.0 * rounding_of_sums(counts) * EPS) ** 2
    if run.study.scale == "secsum":
        return Filling(around(run, data, values, counts, engine, DEVIATIONS, enough)[0])
    run.show(FINE)
    centred = "centre" in run.study.spec.own and run.study.centre == "open"
    weight = counts if centred else np.full(data.d, _rows_at_most(there, data.n, counts, engine))
    rounded = rounding(values, rounding_of_sums(counts))
    known = MeanFound(values, counts, weight, engine.sec_sum.accuracy(bound).unit, counts, rounded)
    bits, made = STEP_BITS, 0
    for _ in range(TURNS_OF_FILL):
        variance = largest(data, known.mu)
        right, deviates = engine.sec_sum.anywhere([off_by(run, known, variance) <= enough, variance > 0], "fill")
        if right or not deviates:
            run.see("fill fineness", np.array([float(made), 0.0]))
            return Filling(known.mu)
        before, known = known, finer(run, data, known, engine, link, Need("fill", enough, 0.0, bits))
        made += known.steps * bits if known is not before else 0
        if known is before and bits == 1:
            break
        bits = bits if known is not before else 1
    limits = (FILLED, *FILLED_OFF)
    deviation = largest(data, known.mu)
    sizes = deviation, deviation if centred else max(deviation, largest(data, None))  # lambda is above both
    votes = [off_by(run, known, size) <= max(enough, limit**2) for size in sizes for limit in limits]
    within = engine.sec_sum.anywhere(votes, "fill")
    run.see("fill fineness", np.array([float(made), 1.0 + sum(within)]))
    if not any(within[: len(limits)]):
        raise _too_coarse()
    coarse, off = ((0.0, *FILLED_OFF)[found.index(True)] for found in (within[: len(limits)], within[len(limits) :]))
    return Filling(known.mu, coarse, 2.0 * off + off**2)


def _rows_at_most(there: Reals, n: int, counts: Reals, engine: Engine) -> float:
    """All parties' rows at most, which are not counted: twice the values of the feature that has the most of them, if
    every party has it in half of its rows (`anywhere`); otherwise all values, unless a party has more rows than values,
    some of which are empty then: 16 times as many, and so on, until no party has more than its part of them.

    Reveals: whether; and in steps of 4 bits how many. Cost: a round of 8 bytes for each vote. Ref: -
    """
    anywhere, M = engine.sec_sum.anywhere, engine.sec_sum.link.M
    if not anywhere([bool(n > 2 * there[int(np.argmax(counts))])], "fill")[0]:
        return float(2 * counts.max())
    most = float(counts.sum())
    if anywhere([bool(n > there.sum())], "fill")[0]:
        while anywhere([n > most / M], "fill")[0]:
            most *= 16.0
    return most


def announced_filling(study: Study) -> list[str]:
    """What `filling` will show to every party, in words."""
    if study.rows.missing != MEAN:
        return []
    return [COUNTS, *SIZES[study.bound_kind], SUMS, DEVIATIONS if study.scale == "secsum" else FINE]


def _refuse_empty(counts: Reals, data: Data) -> None:
    empty = [column(data.features, int(j)) for j in np.flatnonzero(counts < 1)]
    if empty:
        raise InputError(
            f"no party has a value of {listed(empty)}.",
            "at least one, at any of them, of which a mean can be made",
            "leave such columns out (`drop` in [rows] of the study)",
        )


def _too_coarse() -> InputError:
    return InputError(
        "float64 has too few digits of the means that would be filled in for missing values.",
        "means that are known to about 10^-7 of the largest deviation",
        "leave out features that are constant, or of which there are few values (`drop` in [rows] of the study); take "
        "off a number near the mean first (--offset)",
    )
