"""One party's PD-PCA: PD-SVD of the rows less the mean of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.openings.centred import CENTRED
from pdml_spdz.errors import StudyError
from pdml_spdz.fits import svd
from pdml_spdz.fits.prepare import accept, original_mean, view
from pdml_spdz.fits.svd import fit_rows
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.algorithm import Algorithm, Want
from pdml_spdz.study.engines import engines_that
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """Principal components of all rows, party m's view.

    open:    1. n <- SecSum(n_m); mu <- SecSum(sum of own rows) / n
             2. PD-SVD(X_m - mu)
    hidden:  1. n <- SecSum(n_m)
             2. PD-SVD(X_m), whose sums lose under secret sharing what the mean has in them (`CentredScale`)
    none:    PD-SVD(X_m)

    Reveals: n and (open) mu to every party, and what PD-SVD reveals of the centred rows.
    Cost: that of `prepare.view`, and PD-SVD; hidden, another product of the same size in each of its iterations.
    Ref: [PDML App. Extension to PCA]; as printed it subtracts a multiple of the party's own mean, which is not PCA.
    """
    rows = view(run, data, link, engine)
    fitted = fit_rows(run, data, link, engine, rows)
    report, arrays = fitted.report, fitted.arrays
    report["rows_all"], report["centre"] = rows.n, run.study.centre
    sigma = report["singular_values"]
    if sigma is not None and rows.n is not None:
        report.setdefault("explained_variance", [s * s / (rows.n - 1) for s in sigma])
    if run.study.centre != "hidden":
        arrays["mean.npy"] = original_mean(rows, run.study, data)
    return fitted


def check(study: Study, want: Want) -> None:
    hidden = study.centre == "hidden"
    if hidden and study.opening is not CENTRED and not study.level.sealed:
        raise StudyError(
            f"`centre` is hidden with engine {study.engine!r}, reveal {study.reveal!r}, normalise "
            f"{study.normalise!r}, program {study.program!r}.",
            f"engine {engines_that(lambda e: CENTRED.name in e.openings)}, reveal normed or sealed, normalise fit, "
            "program projection",
        )
    want(
        not (hidden and study.variance),
        "`variance` is true and `centre` is hidden.",
        "open: by SecSum the variance along v shows the mean along v",
    )
    want(
        not (hidden and study.scale == "secsum"),
        "`scale` is secsum and `centre` is hidden.",
        "agreed scales: deviations by SecSum show the mean",
    )


def of_two(study: Study) -> dict[str, bool]:
    """What opened sums show of the other party, where there are two."""
    return {
        "the number of its rows": study.centre != "none" or study.variance,
        "their mean": study.centre == "open",
        "the variance of its rows along each component": study.variance,
        **svd.of_two(study),
    }


def reference(result: Any, files: list[Path]) -> dict[str, Any]:
    """PCA of the pooled files."""
    from pdml_spdz.fits.accuracy import accuracy  # only where one machine has all files

    return accuracy(result.V, files, centre=result.study.centre != "none", rows=result.rows_of_file)


HELP = """The principal components of the rows of all FILES, one party for each file.

--centre open: the number of all rows and their mean are computed by SecSum and seen by every party (mean.npy); then
as `svd` on the centred rows. --centre hidden: the number of rows is seen, the mean is not; it is taken off the
secret-shared sums (engines embedded and mp-spdz). Where means are a thousand times the deviations or more, give an
--offset near them: rounding would show. --centre none: as `svd`.

\b
Examples:
  pdml-spdz pca a.csv b.csv c.csv --rank 2
  pdml-spdz pca a.csv b.csv c.csv --rank 2 --centre hidden
  pdml-spdz pca a.csv b.csv --rank 2 --centre hidden --offset near-the-means.csv --scale units.csv
  pdml-spdz pca a.csv b.csv --rank 2 --scale secsum --variance       of the correlation matrix
  pdml-spdz pca a.npz b.npz --rank 2 --reveal sum --json | jq .explained_variance
"""

PCA = Algorithm(
    "pca",
    fit,
    result="V.npy",
    unit="principal components",
    title="Principal components",
    label="PC",
    kept=("mean.npy", "scale.npy", "fill.npy"),
    starts=("centre.npz", "missing.npz", "V0.npy"),
    own=("centre", "variance"),
    check=check,
    accept=accept,
    reveals=svd.reveals,
    of_two=of_two,
    reference=reference,
    help=HELP,
)
