"""The openings `sealed` and `sealed-hidden`: no column is opened but those of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdml_spdz.engines.openings.base import Opening
from pdml_spdz.errors import EngineError
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.programs.sealed_precision import SEALED_PROGRAM

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.engines.spec import EngineSpec

SCALE = (
    "at each checkpoint that was reached one bit: whether S and V^T S V are large enough beside the bound to be "
    "normalised, to every party"
)
RITZ = (
    "at each checkpoint that was reached the eigenvalues of V^T S V, over their sum, to 43 bits: b Ritz values, of "
    "which those far below the k-th, or below 2^-6 of ||S||_F, are shortened by a function of their ratios, to every "
    "party"
)
GATE = "at each checkpoint that was reached one bit: whether the residuals are small enough, to every party"
RESULT = "V, to the bits of the accuracy goal, to every party"


def _columns(engine: Engine, bound: Bound, plan: Any, mean: OwnMean | None) -> NormedSum:
    raise EngineError(
        "a sealed fit opens no columns on its way.", "a solver that works on columns that all parties see"
    )


def seen(*, hidden_ratios: bool) -> list[str]:
    """What every party sees of a sealed fit, in words."""
    return [SCALE, *([] if hidden_ratios else [RITZ]), GATE, RESULT]


def _opening(name: str, *, hidden_ratios: bool) -> Opening:
    def shown(spec: EngineSpec) -> list[str]:
        return seen(hidden_ratios=hidden_ratios)

    return Opening(name, "sealed", _columns, shown, template=SEALED_PROGRAM, loop=True, common_scale=True)


SEALED = _opening("sealed", hidden_ratios=False)
SEALED_HIDDEN = _opening("sealed-hidden", hidden_ratios=True)
