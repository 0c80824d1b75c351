"""A party's rows as they are factorised: less offsets, over scales, feature by feature; and the mean of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fits.centring import OFF, constant_features, deviations, mean, mean_seen, measure, scale_seen
from pdml_spdz.fits.functionals import suspected
from pdml_spdz.fits.limits import bound_of_centred, bound_of_scaled, check_rows
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import Names, positions
from pdml_spdz.rows.suspects import (
    TWO_VALUES,
    WHOLE_KIND,
    dominant_column,
    identifiers,
    kinds,
    rounded_integers,
    values,
    zeros_as_missing,
)
from pdml_spdz.run.context import PartyRun
from pdml_spdz.study.algorithm import GRAM
from pdml_spdz.study.model import Study
from pdml_spdz.study.sealed_checks import check_sealed_size
from pdml_spdz.transport.base import Link

KEPT_CENTRE = "centre.npz"
OTHER_ORDER = "is matched by position: its names stand in another order than those"
COUNT = "n, the number of all rows, to every party"


@dataclass(frozen=True)
class View:
    """X : the rows as they are factorised, less mu where it is open; scale : what they were divided by, if by SecSum

    n : rows of all parties, where that is known; sums : this party's column sums over sqrt(n), for a hidden mean
    bound : of the sums of S_m v, where it follows from what is public
    off : how far the covariance may be off, by the errors of mu and of what was filled in, over its largest eigenvalue
    observables : what finding all this has shown to every party
    warnings : what whoever relies on the result must know of all rows
    """

    X: Rows
    mu: Reals | None = None
    scale: Reals | None = None
    n: int | None = None
    sums: Reals | None = None
    bound: Bound | None = None
    observables: list[str] = field(default_factory=list)
    off: float = 0.0
    warnings: list[str] = field(default_factory=list)


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
        names = data.features or ()
        moved = names != study.features and sorted(names) == sorted(study.features)
        said = (f"{data.source} {OTHER_ORDER} that the study lists, and nothing is moved",) if moved else ()
        data = replace(data, features=study.features or None, warnings=(*data.warnings, *said))
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
    rows = as_factorised(data, study)
    return replace(rows, warnings=(*data.warnings, *suspects(data, rows, study)))


def suspects(data: Data, rows: Data, study: Study | None) -> list[str]:
    """What a party should know of its own rows, before a run and in it. rows : as they are factorised

    A run looks at each value of dense rows in memory only: of others that would be a pass of its own.
    """
    centred = study is None or ("centre" in study.spec.own and study.centre != "none")
    scaled = study is not None and study.scale != "agreed"
    dominant = [] if scaled else dominant_column(replace(rows, rows=rows.known), centred=centred)
    zeros = zeros_as_missing(data) if study is not None and study.nmf.weighted else []
    looked = [] if study is not None and (data.rows.lazy or data.rows.sparse) else values(data)
    # Agreed scales and offsets are public: values that are whole, or two, before them give as much.
    found = {*kinds(rows), *({TWO_VALUES, WHOLE_KIND} & kinds(data))}
    scale = suspected(study, found) if study is not None else []
    return [*identifiers(replace(data, rows=data.known)), *looked, *rounded_integers(data), *dominant, *zeros, *scale]


def as_factorised(data: Data, study: Study) -> Data:
    """(X - offsets) / scales, but for vectors."""
    return data if study.spec.vector else replace(data, rows=moved(data, study))


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
        check_rows(study, m, replace(data, rows=data.known))


def counted(study: Study) -> bool:
    """Whether n, and more of all rows, is found before the fit."""
    pca = "centre" in study.spec.own and (study.centre != "none" or study.variance)
    return pca or study.scale == "secsum"


def view(run: PartyRun, data: Data, link: Link, engine: Engine) -> View:
    """What the study wants to be known of all rows, and the rows as they are factorised.

    What a run that is resumed has opened is used as it is (`KeptNumbers`), by all parties or by none: they have agreed
    on it before.

    1. n <- SecSum(n_m), exactly, if anything below needs it
    2. mu <- SecSum(own column sums) / n, with `centre = "open"`
    3. scale <- sqrt(SecSum(own column sums of (x - mu)^2) / n), with `scale = "secsum"`; mu = 0 if it is not open

    Reveals: n, mu, scale, as far as the study asks for them, to 44 bits: mu below the bound of its sums, which shows
    what `centring.SIZES` says, or finer (`centring.mean`); with `scale = "secsum"` each of mu and scale below the scale
    itself, the scale in every turn of `centring.around`, each rounded anew. With `centre = "hidden"` n alone.
    Cost: SecSums of 1 and d numbers and the bound's, and for scale what `centring.around` takes.
    Ref: [PDML App. Extension to PCA]; as printed it subtracts a multiple of the party's own mean, which is not PCA.
    """
    study = run.study
    pca, by_sec_sum = "centre" in study.spec.own, study.scale == "secsum"
    if not counted(study):
        return View(data.rows, off=data.off)
    if (kept := run.kept.get(KEPT_CENTRE)) is not None:
        n, mu, scale, off = int(kept["n"]), kept["mu"], kept["scale"], float(kept["off"])
        constant = kept["constant"]
    else:
        n = engine.sec_sum.integer(data.n, "rows")
        run.show(COUNT)
        if n < 2 and pca:
            raise InputError(f"all parties together have {n} rows.", "two or more")
        mu, off = mean(run, data, n, engine, link) if pca and study.centre == "open" else (np.zeros(0), 0.0)
        scale, constant = np.zeros(0), np.zeros(0, np.bool_)
        if by_sec_sum:
            found = deviations(run, data, mu, n, engine)
            mu, scale, off, constant = found.mu, found.scale, found.off, found.constant
        run.kept.keep(KEPT_CENTRE, n=np.array(n), mu=mu, scale=scale, off=np.array(off), constant=constant)
    if off:
        run.note(OFF)
    Agreement(link).digest("centre", mu.tobytes() + scale.tobytes() + f"{n} {off}".encode())
    for name, value in (("rows", np.array([n])), ("mean", mu), ("scale", scale)):
        if value.size:
            run.see(name, value)
    seen = _seen(data, study, n, mu, scale, run.note)
    run.show(*seen.observables)
    warnings = constant_features(data, constant)
    for text in warnings:
        run.note(text)
    return replace(seen, bound=_bound(run, seen, data.d), off=off + data.off, warnings=warnings)


def announced_view(study: Study) -> list[str]:
    """What `view` will show to every party, in words."""
    if not counted(study):
        return []
    mu = np.zeros(int("centre" in study.spec.own and study.centre == "open"))
    seen = [COUNT, *(mean_seen(study) if mu.size else [])]
    return [*seen, scale_seen(mu)] if study.scale == "secsum" else seen


def _bound(run: PartyRun, rows: View, d: int) -> Bound | None:
    """Of the rows as they are factorised, if what all parties know says it."""
    if rows.scale is not None and rows.n is not None:
        return bound_of_scaled(rows.n, d)
    return bound_of_centred(run) if rows.mu is not None else None


def _seen(data: Data, study: Study, n: int, mu: Reals, scale: Reals, note: Callable[[str], None]) -> View:
    X, observables = data.rows, [COUNT]
    if mu.size:
        note(f"centring by the mean of {n:,} rows, which every party sees")
        observables += mean_seen(study)
    if scale.size:
        note(f"scaling by the {measure(mu)} of each feature, which every party sees")
        observables.append(scale_seen(mu))
        X, mu = X.over(scale), mu / scale if mu.size else mu
    sums = None
    if study.centre == "hidden":
        note(f"centring by the mean of {n:,} rows, which nobody sees")
        sums = X.column_sums() / np.sqrt(n)
    return View(X, mu if mu.size else None, scale if scale.size else None, n, sums, None, observables)
