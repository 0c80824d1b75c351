"""The opening `sum`: the sums themselves, which all parties see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdml_spdz.engines.openings.base import Opening
from pdml_spdz.errors import EngineError
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import OwnMean, RevealedNorm

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec


def _columns(engine: Engine, bound: Bound, plan: None, mean: OwnMean | None) -> RevealedNorm:
    if mean is not None:
        raise EngineError("sums that all parties see cannot hide the mean.", "an opening on secret shares")
    return RevealedNorm(engine.sec_sum, bound.addend, engine.link.M)


def _seen(spec: EngineSpec) -> list[str]:
    if spec.in_the_clear:
        return ["every party's own S_m V_t in every iteration t, to every party", "V_t in every iteration t"]
    return ["S V_t in every iteration t, to every party (and so Sigma)", "V_t in every iteration t, to every party"]


SUM = Opening("sum", "sum", _columns, _seen, common_scale=True, shows_norms=True)
