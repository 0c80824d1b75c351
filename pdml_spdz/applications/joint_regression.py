"""Principal component regression of all parties of a study, over the network. [PDML §PCR]"""

from __future__ import annotations

import hashlib
from contextlib import closing

from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.applications.regression import Regression, Scales, fit_jointly
from pdml_spdz.errors import MismatchError, StudyError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import make_engine, meeting

LEAST_DIGITS = 2  # of coefficients: fewer are refused
SEEN = (
    "the second moments of all rows' coordinates in the components, summed over all parties",
    "the sum, over all rows, of the target times each coordinate, and of the target",
    "n, the number of all rows",
)


def regress_jointly(run: PartyRun, finished: FinishedRun, X: RowsLike, y: Reals, scales: Scales) -> Regression:
    """The same regression at every party of the run's study; party m's view.

    1. the parties meet, and compare digests of the components, of what is taken off rows and of the scales
    2. `fit_jointly`; what leaves fewer than LEAST_DIGITS digits is refused, at every party: all have the same sums

    Reveals: `SEEN`, to every party; with two parties each learns the other's part of it.
    Cost: the meeting, one round, and one SecSum of (k + 1)(k + 2)/2 + k + 1 numbers. Ref: -
    """
    V = finished.result / finished.unit[:, None]
    with meeting(run) as (link, session, identity):
        shift = b"" if finished.shift is None else finished.shift.tobytes()
        own = hashlib.sha256(V.tobytes() + shift + repr(scales).encode() + session).digest()
        for peer, theirs in link.all_to_all("regression", own, len(own)).items():
            if bytes(theirs) != own:
                raise MismatchError(
                    f"P{peer} regresses on other components, or with other scales, than this party.",
                    "the RUN of the same study, and equal --longest-row, --largest-target and --most-rows",
                    culprit=peer,
                )
        with closing(make_engine(run, link, session, identity)) as engine:
            regression = fit_jointly(X, y, V, finished.shift, engine.sec_sum, scales=scales)
            engine.finish()
    if (digits := regression.digits or 0) < LEAST_DIGITS:
        raise StudyError(
            f"the agreed limits leave {digits} digits of the coefficients.",
            f"{LEAST_DIGITS} or more: limits near the longest row, the largest target and the most rows; coordinates "
            "that vary, and do not depend on each other; a target that is not far from zero for its spread",
            "agree on smaller limits, take a constant off the target, or regress on a run of a smaller --rank",
        )
    return regression
