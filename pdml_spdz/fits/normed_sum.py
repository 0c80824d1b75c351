"""One party's NormedSecSum of a single vector: the public primitive."""

from __future__ import annotations

import numpy as np

from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.engines.projection import COARSE
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.data import Data
from pdml_spdz.run import repeats
from pdml_spdz.run.checkpoint import Checkpoints
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.run.output import Fitted
from pdml_spdz.run.report import Outcome, run_report
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """u = s/||s|| for s = sum_m x_m, where x_m is this party's one row.

    1. this use of x_m is counted, and refused beyond the limit
    2. g <- a direction from the run's public coin, which no party chose
    3. u <- NormedSecSum(x_m) along g

    Reveals: u to f_out bits, one bit (in range or not), and what the bound shows (`Bound.observable`); with
    `reveal = "sum"` s itself.
    Cost: that of one NormedSecSum. Ref: [PDML App. NormedSecSum].
    """
    checkpoints = Checkpoints(run.directory / "checkpoint")
    if run.resume:
        checkpoints.common(link)  # there is none: one call has nothing to go on from
    run.remove_older()
    checkpoints.begin(run.study, data)
    x = data.rows.dense().reshape(-1, 1)
    uses = repeats.count(x.tobytes(), run.repeats)
    bound = find_bound(run, float(np.linalg.norm(x)), engine, link, data.d)
    coin = Agreement(link).coin()
    g = np.random.default_rng(int.from_bytes(coin, "little")).standard_normal((data.d, 1))
    normed_sum = showing(engine.normed_sum(bound, Shape(data.d, 1, 1)), run, *observables(run.study))
    columns = normed_sum(x, g / np.linalg.norm(g))
    engine.finish()
    u = columns.U[:, 0]
    digest = Agreement(link).digest("result", u.tobytes())
    warnings = (
        ["reveal sum: the sum, and with it its norm, is seen by every party"] if columns.norms is not None else []
    )
    warnings += [f"this vector has been given to normed-sum {uses} times"] if uses > 1 else []
    report = run_report(run.study, engine, link, bound, Outcome(data, digest, warnings, observables(run.study)))
    report["error_bound"] = float(columns.noise[0])
    report["norm"] = None if columns.norms is None else float(columns.norms[0])
    return Fitted(report, {"u.npy": u})


def observables(study: Study) -> list[str]:
    """What every party sees of a NormedSecSum of single vectors, in words."""
    if study.engine == "plain":
        return ["every party's own vector, to every party"]
    if study.reveal == "sum":
        return ["the sum of all parties' vectors, to every party"]
    seen = ["u, the direction of the sum of all parties' vectors, to f_out bits, to every party"]
    return [*seen, COARSE] if study.program == "paper" else seen
