"""A party's rows as they are factorised: less offsets, over scales, feature by feature; and the mean of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from pdml_spdz.data import Data
from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.job import PartyRun
from pdml_spdz.linalg import EPS, Rows, column_sums
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import bound_by_sec_sum
from pdml_spdz.storage import replaced
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link

SIZE = "the sum of the parties' norms of them, to every party"


@dataclass(frozen=True)
class View:
    """X : the rows as they are factorised, less mu where it is open; scale : what they were divided by, if by SecSum

    n : rows of all parties, where that is known; sums : this party's column sums over sqrt(n), for a hidden mean
    observables : what finding all this has shown to every party
    """

    X: Rows
    mu: Reals | None = None
    scale: Reals | None = None
    n: int | None = None
    sums: Reals | None = None
    observables: list[str] = field(default_factory=list)


def check_rank(rank: int, d: int, source: str) -> None:
    if rank > d:
        raise InputError(f"the rank asked for is {rank} and {source} has {d} columns.", "a rank of at most d")


def agreed(data: Data, study: Study) -> Data:
    """The rows less the study's offsets, over its scales: locally, before anything else."""
    if study.algorithm != "normed-sum":
        check_rank(study.rank, data.d, data.source)
    for name in ("offsets", "scales"):
        values = getattr(study, name)
        if values and len(values) != data.d:
            raise InputError(f"{data.source} has {data.d} columns and the study {len(values)} {name}.", "one for each")
    return replace(data, X=moved(data.X, np.array(study.offsets), np.array(study.scales), data.source))


def moved(X: Rows, offsets: Reals, scales: Reals, source: str = "this party's file") -> Rows:
    """(X - offsets) / scales, where there are any."""
    if np.any(offsets):
        if sp.issparse(X):
            raise InputError(
                f"{source} has sparse rows and the study has offsets, which would fill them.",
                "offsets of zero for sparse rows",
                "give the rows as a dense file, or leave the offsets out",
            )
        X = X - offsets
    return over(X, scales) if scales.size else X


def over(X: Rows, scale: Reals) -> Rows:
    """X / scale, column by column."""
    return sp.csr_array(X.multiply(1.0 / scale)) if sp.issparse(X) else X / scale


def original_mean(rows: View, study: Study, d: int) -> Reals:
    """What was taken off the rows, in their units as they came: mu and the offsets; mu is 0 where there is none."""
    scale = (rows.scale if rows.scale is not None else 1.0) * (np.array(study.scales) if study.scales else 1.0)
    mu = np.zeros(d) if rows.mu is None else rows.mu
    mean: Reals = mu * scale + (np.array(study.offsets) if study.offsets else 0.0)
    return mean


def view(run: PartyRun, data: Data, link: Link, engine: Engine) -> View:
    """What the study wants to be known of all rows, and the rows as they are factorised.

    1. n <- SecSum(n_m), exactly, if anything below needs it
    2. mu <- SecSum(own column sums) / n, with `centre = "open"`
    3. scale <- sqrt(SecSum(own column sums of (x - mu)^2) / n), with `scale = "secsum"`; mu = 0 if it is not open

    Reveals: n, mu, scale, as far as the study asks for them, to 44 bits: mu below the sum of the parties' norms of
    their column sums, which is also shown; with `scale = "secsum"` each of mu and scale below the scale itself. With
    `centre = "hidden"` n alone.
    Cost: SecSums of 1, 1 and d numbers, for scale two more of d numbers by `positive` and one of d.
    Ref: [PDML App. Extension to PCA]; as printed it subtracts a multiple of the party's own mean, which is not PCA.
    """
    study = run.study
    pca, by_sec_sum = study.algorithm == "pca", study.scale == "secsum"
    if not (pca and (study.centre != "none" or study.variance)) and not by_sec_sum:
        return View(data.X)
    kept = run.directory / "centre.npz"
    if run.resume and kept.is_file():
        # Computed again, it would be rounded anew, and two roundings show more than one.
        with np.load(kept) as archive:
            n, mu, scale = int(archive["n"]), archive["mu"], archive["scale"]
    else:
        n = engine.sec_sum.integer(data.n, "rows")
        if n < 2 and pca:
            raise InputError(f"all parties together have {n} rows.", "two or more")
        mu = _mean(data, n, engine, link) if pca and study.centre == "open" else np.zeros(0)
        mu, scale = _deviations(data, mu, n, engine) if by_sec_sum else (mu, np.zeros(0))
        with replaced(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, n=np.array(n), mu=mu, scale=scale)
    Agreement(link).digest("centre", mu.tobytes() + scale.tobytes() + str(n).encode())
    return _seen(data, study, n, mu, scale, run.note)


def _seen(data: Data, study: Study, n: int, mu: Reals, scale: Reals, note: Callable[[str], None]) -> View:
    X, observables = data.X, ["n, the number of all rows, to every party"]
    if mu.size:
        note(f"centring by the mean of {n:,} rows, which every party sees")
        observables.append(f"the mean of all rows, and for the sums of the parties' own rows {SIZE}")
    if scale.size:
        what = "deviation" if mu.size else "root mean square"
        note(f"scaling by the {what} of each feature, which every party sees")
        observables.append(f"the {what} of each feature over all rows, to every party")
        X, mu = over(X, scale), mu / scale if mu.size else mu
    sums = None
    if study.centre == "hidden":
        note(f"centring by the mean of {n:,} rows, which nobody sees")
        sums = column_sums(X) / np.sqrt(n)
    return View(X, mu if mu.size else None, scale if scale.size else None, n, sums, observables)


def _mean(data: Data, n: int, engine: Engine, link: Link) -> Reals:
    return _total(column_sums(data.X), "mean", engine, link) / n


def _deviations(data: Data, mu: Reals, n: int, engine: Engine) -> tuple[Reals, Reals]:
    """(mu, scale): root mean squares around mu, around zero where there is no mu; 1 for a feature that does not vary.

    1. q <- SecSum(own sums of (x - mu)^2), each to 44 bits of its own
    2. mu <- mu + SecSum(own sums of x - mu) / n, none of which is larger than sqrt(n q). Before, mu was exact to 44
       bits of the largest feature, which for a small one may be nothing at all; now it is to 88
    3. q <- SecSum(own sums of (x - mu)^2); scale <- sqrt(q / n)

    Without mu step 1 alone. Reveals, Cost: as `view` says. Ref: -
    """
    q = engine.sec_sum.positive(_squares(data, mu), "scales")
    if not mu.size:
        return mu, np.where(q > 0, np.sqrt(q / n), 1.0)
    size = np.sqrt(n * (q + 4 * n * EPS * mu**2))  # of the differences' sums; squares may be as far off as that
    shift = engine.sec_sum((column_sums(data.X) - data.n * mu) / np.where(size > 0, size, 1.0), 1.0, "shift")
    off = engine.sec_sum.accuracy(1.0).tolerance * size / n + 2 * EPS * np.abs(mu)
    mu = mu + shift * size / n
    q = engine.sec_sum.positive(_squares(data, mu), "scales")
    # Of a constant there is left what mu is off by, and what rounding makes of its squares.
    return mu, np.where(q > 2 * n * off**2 + 4 * n * EPS * mu**2, np.sqrt(q / n), 1.0)


def _squares(data: Data, mu: Reals) -> Reals:
    """This party's sums of (x - mu)^2, feature by feature."""
    X = data.X
    if not mu.size:
        return column_sums(X * X if not sp.issparse(X) else X.multiply(X))
    if not sp.issparse(X):
        return column_sums((X - mu) ** 2)
    # Rounding may leave a little below zero.
    return np.maximum(column_sums(X.multiply(X)) - mu * (2.0 * column_sums(X) - data.n * mu), 0.0)


def _total(own: Reals, purpose: str, engine: Engine, link: Link) -> Reals:
    """The sum over all parties in a format that fits it, the same bytes for all."""
    size = bound_by_sec_sum(max(float(np.linalg.norm(own)), 1e-300), engine.sec_sum)
    total = engine.sec_sum(own, size.addend, purpose)
    tolerance = np.array([1e-9 * max(1.0, float(np.abs(total).max()))])
    return Agreement(link)(total[:, None], (), tolerance)[0][:, 0]
