"""One party's NormedSecSum of a single vector: the public primitive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.mp_spdz.paper import COARSE
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.loop import opened_columns
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.rows.data import Data
from pdml_spdz.run import repeats
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.output import Fitted, Outcome, run_report
from pdml_spdz.study.algorithm import Algorithm, Shape, Want
from pdml_spdz.study.checks import BOUNDS
from pdml_spdz.study.fields import shown
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """u = s/||s|| for s = sum_m x_m, where x_m is this party's one row.

    Of rows that are not loaded whole x_m is the sums of their columns.

    1. this use of x_m is counted, and refused beyond the limit
    2. g <- a direction from the run's public coin, which no party chose
    3. u <- NormedSecSum(x_m) along g

    Reveals: u to f_out bits, one bit (in range or not), and what the bound shows (`Bound.observable`); with
    `reveal = "sum"` s itself.
    Cost: that of one NormedSecSum. Ref: [PDML App. NormedSecSum].
    """
    x = data.rows.column_sums().reshape(-1, 1)  # of one row: the row itself
    uses = repeats.count(x.tobytes(), run.repeats)
    bound = find_bound(run, float(np.linalg.norm(x)), engine, link, data)
    coin = Agreement(link).coin()
    g = np.random.default_rng(int.from_bytes(coin, "little")).standard_normal((data.d, 1))
    normed_sum = opened_columns(run, engine, bound, Shape(data.d, 1, 1), seen=observables(run.study))
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
    if study.engine_spec.in_the_clear:
        return ["every party's own vector, to every party"]
    if study.level.shows_sums:
        return ["the sum of all parties' vectors, to every party"]
    seen = ["u, the direction of the sum of all parties' vectors, to f_out bits, to every party"]
    return [*seen, COARSE] if study.opening.shows_norms else seen


def check(study: Study, want: Want) -> None:
    want(not study.offsets, "`offsets` are given for a normed-sum.", "none")
    want(not (study.scales or study.scale == "secsum"), "scales are given for a normed-sum.", "none")
    want(
        not study.bound.startswith("rows:"),
        f"`bound` is {shown(study.bound)} for a normed-sum.",
        f"a number (the largest norm of any party's vector) or one of {', '.join(BOUNDS)}",
    )
    want(study.rank == 1, f"`rank` is {study.rank} for a normed-sum.", "1")


def reference(result: Any, files: list[Path]) -> dict[str, Any]:
    """The sum of the pooled vectors."""
    vectors = [result.rows_of_file(path).column_sums() for path in files]
    s = np.sum(vectors, axis=0)
    angle = sine((s / np.linalg.norm(s))[:, None], result.V[:, None])
    return {"reference": "the sum of the pooled vectors", "largest_angle_sine": angle}


HELP = """The direction s/||s|| of the sum s of one vector from each party, one party for each of FILES.

A file holds one vector: a .npy array of one dimension, or a table with a single row. Of a directory or pattern of
Parquet files, and of Zarr, it is the sums of the columns over all rows. Sums of small integers (counts) can be told
from their direction: see docs/security.md before using this on such vectors.

\b
Examples:
  pdml-spdz normed-sum a.npy b.npy c.npy --bound 1.0
  pdml-spdz normed-sum a.csv b.csv --bits 20 --json
"""

NORMED_SUM = Algorithm(
    "normed-sum",
    fit,
    result="u.npy",
    unit="vector",
    title="Direction of a sum",
    label="u",
    kept=(),
    starts=(),
    vector=True,
    idle=("solver", "memory", "iterations", "tol", "normalise", "online", "start", "offsets", "scales", "scale"),
    defaults={"rank": 1},
    measure="||x_m||",
    check=check,
    shape=lambda study, d: Shape(d, 1, 1),
    reveals=observables,
    of_two=lambda study: {"its vector": study.level.shows_sums},
    reference=reference,
    help=HELP,
)
