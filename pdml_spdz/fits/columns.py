"""The columns of a fit, as its study has them opened."""

from __future__ import annotations

from collections.abc import Sequence

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.transcript import recorded
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.study.algorithm import Shape


def opened_columns(
    run: PartyRun, engine: Engine, bound: Bound, shape: Shape, mean: OwnMean | None = None, *, seen: Sequence[str]
) -> NormedSum:
    """The study's NormedSecSum on this engine; written down if a transcript is wanted.

    mean : what this party knows of the mean of all rows, where that is to be taken off
    seen : what every party has seen once there are columns, in words
    """
    study = run.study
    phase = study.engine_spec.offline if study.on_shares else None
    plan = phase.plan(study, shape, run.mp_spdz, run.note) if phase else None
    columns = study.opening.columns(engine, bound, plan, mean)
    if run.transcript is not None:
        columns = recorded(columns, run.transcript)
    return showing(columns, run, *seen)
