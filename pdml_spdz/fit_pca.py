"""One party's PD-PCA: PD-SVD of the rows less the mean of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdml_spdz import fit_svd
from pdml_spdz.data import Data
from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.job import PartyRun
from pdml_spdz.linalg import column_sums
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import bound_by_sec_sum
from pdml_spdz.storage import replaced, save_array, save_json
from pdml_spdz.transport.base import Link

OBSERVABLES = [
    "n, the number of all rows, to every party",
    "the mean of all rows, and a number between one and two times the sum of the norms of n_m mu_m, to every party",
]


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> dict[str, Any]:
    """Principal components of all rows, party m's view.

    1. n <- SecSum(n_m); mu <- SecSum(sum of own rows) / n
    2. PD-SVD(X_m - mu)

    Reveals: n and mu to every party, and what PD-SVD reveals of the centred rows.
    Cost: two SecSums of 1 and d numbers, and PD-SVD.
    Ref: [PDML App. Extension to PCA]; as printed it subtracts a multiple of the party's own mean, which is not PCA.
    """
    kept = run.directory / "centre.npz"
    if run.resume and kept.is_file():
        # Computed again, it would show the parties' sizes through another random factor.
        with np.load(kept) as archive:
            n, mu = int(archive["n"]), archive["mu"]
    else:
        n = round(engine.sec_sum.exact(float(data.n), "rows"))
        if n < 2:
            raise InputError(f"all parties together have {n} rows.", "two or more")
        mu = _mean(data, n, engine)
        mu = Agreement(link)(mu[:, None], (), np.array([1e-9 * max(1.0, float(np.abs(mu).max()))]))[0][:, 0]
        with replaced(kept) as temporary, temporary.open("wb") as file:
            np.savez(file, n=np.array(n), mu=mu)
    Agreement(link).digest("mean", mu.tobytes() + str(n).encode())
    run.note(f"centring by the mean of {n:,} rows, which every party sees")
    report = fit_svd.fit(run, data, link, engine, mu)
    report["observables"] = [*OBSERVABLES, *report["observables"]]
    report["rows_all"] = n
    save_array(run.directory / "mean.npy", mu)
    save_json(run.directory / "report.json", report)
    return report


def _mean(data: Data, n: int, engine: Engine) -> Reals:
    """The columns' sums over all rows, in a format that fits them, divided by n."""
    sums = column_sums(data.X)
    scale = bound_by_sec_sum(max(float(np.linalg.norm(sums)), 1e-300), engine.sec_sum.exact)
    return engine.sec_sum(sums, scale.addend, "mean") / n
