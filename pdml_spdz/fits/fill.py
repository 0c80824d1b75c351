"""Missing values: the mean of all parties' values of that feature, before the fit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.centring import SIZES, agreed_sum, around, finer, rounding_of_sums
from pdml_spdz.fits.limits import bound_of_sums
from pdml_spdz.fits.prepare import offsets_and_scales
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import column, listed
from pdml_spdz.rows.present import present
from pdml_spdz.rows.reading import MEAN
from pdml_spdz.run.context import KEPT_NUMBERS, PartyRun
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import reading, replaced
from pdml_spdz.transport.base import Link

COUNTS = "how many values of each feature all parties together have, to every party"
SUMS = "the sum of all parties' values of each feature, and so the mean that is filled in, to every party"
FINE = "how finely the values' deviations need that mean, in up to three steps of 10 bits, to every party"
DEVIATIONS = "the deviation of each feature's values, as far as there are any, to every party"
FILLED = 2.0**-38  # of the deviations: what is filled in may be off by so much
MOST_ROWS = 2.0**36  # of one party: a count is then off by less than a half, whatever M is, and so exact


@dataclass(frozen=True)
class Filling:
    """values : (d,) what is filled in, in the units of the fit; observables : what finding them has shown"""

    values: Reals
    observables: list[str] = field(default_factory=list)


def fit_filled(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """The study's fit, of rows in which nothing is missing."""
    if run.study.rows.missing != MEAN:
        fitted: Fitted = run.study.spec.fit(run, data, link, engine)
        return fitted
    found = filling(run, data, link, engine)
    rows = data.rows.filled(found.values) if data.holes else data.rows
    fitted = run.study.spec.fit(run, replace(data, rows=rows, holes=False), link, engine)
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
       the values' deviations need it (`centring.finer`), with `scale = "secsum"` feature by feature (`centring.around`)

    Reveals: c; v, to 44 bits below the bound of t, which shows what `SIZES` says, or finer, and then what `FINE` says;
    with `scale = "secsum"` the deviation of each feature's values, which the fit shows too.
    Cost: two SecSums of d numbers and the bound's; 4 as of what it calls, and where rows are not loaded whole a pass.
    Ref: -
    """
    kept, seen = run.directory / "missing.npz", announced_filling(run.study)
    if run.resume and kept.is_file():
        # Computed again, it would be rounded anew, and two roundings show more than one.
        with reading(kept, *KEPT_NUMBERS), np.load(kept, allow_pickle=False) as archive:
            values = archive["values"]
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
        values = _fine(run, present(data, own), values, counts, bound.addend, engine, link)
        if not run.study.spec.signed:
            values = np.maximum(values, 0.0)  # what opening has put below zero
        with replaced(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, values=values)
    Agreement(link).digest("fill", values.tobytes())
    run.see("fill", values)
    run.note("missing values get the mean of all parties' values, which every party sees")
    return Filling(values, seen)


def _fine(run: PartyRun, data: Data, values: Reals, counts: Reals, bound: float, engine: Engine, link: Link) -> Reals:
    """Step 4 of `filling`."""
    # Rows that get a mean which is off by delta are off by delta, not by its square as if it were taken off all rows.
    enough = max(FILLED, 4.0 * rounding_of_sums(counts) * EPS) ** 2
    if run.study.scale == "secsum":
        return around(run, data, values, counts, engine, DEVIATIONS, enough)[0]
    run.show(FINE)
    unit = engine.sec_sum.accuracy(bound).unit
    fine = finer(run, data, counts, engine, link, values, unit, enough, "fill")
    run.see("fill fineness", np.array([fine.steps + float(not fine.at_once)]))
    return fine.mu


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
