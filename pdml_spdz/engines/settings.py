"""What a study says to engines that run programs: precision and shape."""

from __future__ import annotations

from dataclasses import replace

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import Study


def precision_of(study: Study) -> Precision:
    usual = Precision(study.M, study.precision.bits, study.range, f_g=study.engine_spec.f_g)
    if not study.spec.vector:
        return usual
    # For any vector and a random g: 1/(g.u) may be larger than between iterates, if the ring has room for it.
    wider = (replace(usual, H=h) for h in range(usual.H, 21))
    return max((p for p in wider if p.vector_bits == usual.vector_bits), key=lambda p: p.H)


def shape_of(study: Study) -> Shape:
    """The largest fit of the study, before there is any data."""
    d = study.d or len(study.features)
    if not d:
        raise StudyError(
            "the study does not say how many features there are.",
            "a number of features: the offline phase needs it before there is any data",
            "set `d` (or `features`) in the study (`init --dim D`), or pass --dim without a study",
        )
    return study.spec.shape(study, d)
