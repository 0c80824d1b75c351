"""What a study says to engines that run programs: precision and shape."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2

from pdml_spdz.engines.openings.base import Shape
from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.sealed_precision import SealedPrecision, iterations_for
from pdml_spdz.study.model import Study, check_sealed_size


def precision_of(study: Study) -> Precision:
    usual = Precision(study.M, study.precision.bits, study.range, f_g=study.engine_spec.f_g)
    if not study.spec.vector:
        return usual
    # For any vector and a random g: 1/(g.u) may be larger than between iterates, if the ring has room for it.
    wider = (replace(usual, H=h) for h in range(usual.H, 21))
    return max((p for p in wider if p.vector_bits == usual.vector_bits), key=lambda p: p.H)


def sealed_precision_of(study: Study, d: int) -> SealedPrecision:
    """What the study's public numbers make of a sealed fit of d features."""
    check_sealed_size(d, study.rank)
    return SealedPrecision(
        M=study.M,
        d=d,
        rank=study.rank,
        columns=min(d, study.block or 2 * study.rank),
        goal_bits=ceil(-log2(study.accuracy_goal)),
        iterations=iterations_for(study.accuracy_goal, study.decay),
        hidden_mean="centre" in study.spec.own and study.centre == "hidden",
    )


def iterations_of(study: Study) -> int:
    return study.spec.calls(study)[1]


def shape_of(study: Study) -> Shape:
    """The largest fit of the study, before there is any data."""
    d = study.d or len(study.features)
    if not d:
        raise StudyError(
            "the study does not say how many features there are.",
            "a number of features: the offline phase needs it before there is any data",
            "set `d` (or `features`) in the study (`init --dim D`), or pass --dim without a study",
        )
    return Shape(d, *study.spec.calls(study))
