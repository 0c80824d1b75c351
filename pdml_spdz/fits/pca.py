"""One party's PD-PCA: PD-SVD of the rows less the mean of all rows."""

from __future__ import annotations

from pdml_spdz.engines.base import Engine
from pdml_spdz.fits import svd as fit_svd
from pdml_spdz.fits.prepare import original_mean, view
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.output import Fitted
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
    fitted = fit_svd.fit_view(run, data, link, engine, rows)
    report, arrays = fitted.report, fitted.arrays
    report["rows_all"], report["centre"] = rows.n, run.study.centre
    sigma = report["singular_values"]
    if sigma is not None and rows.n is not None:
        report.setdefault("explained_variance", [s * s / (rows.n - 1) for s in sigma])
    if run.study.centre != "hidden":
        arrays["mean.npy"] = original_mean(rows, run.study, data)
    return fitted
