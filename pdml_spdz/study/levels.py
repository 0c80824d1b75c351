"""What a fit reveals, by name: the levels that a study chooses from, and the openings that they are made of.

Another package may bring more of both (`registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdml_spdz.registry import Line, Registry

if TYPE_CHECKING:
    from pdml_spdz.engines.openings.base import Opening
    from pdml_spdz.study.model import Study


@dataclass(frozen=True)
class Level:
    """How much every party sees of a fit besides its result.

    help : in a few words
    engine : for whoever names none
    opening : opening(study), the name of the opening with which the study's settings do it
    shows_sums : every party sees the sums themselves
    sealed : no column is opened before the last
    """

    name: str
    help: str
    engine: str
    opening: Callable[[Study], str]
    shows_sums: bool = False
    sealed: bool = False


def _of_directions(study: Study) -> str:
    if study.program == "paper":
        return "paper"
    if study.spec.vector or study.normalise == "per-column":
        return "per-column"
    return "centred" if study.centre == "hidden" else "one-scale"


NORMED = Level(
    "normed",
    "the covariance up to one factor, which other numbers may give (per column: directions).",
    "embedded",
    _of_directions,
)
SUM = Level("sum", "the sums, and so their norms.", "secsum", lambda study: "sum", shows_sums=True)


def _of_sealed(study: Study) -> str:
    return "sealed" if study.ratios == "open" else "sealed-hidden"


SEALED = Level(
    "sealed",
    "V, and of the way to it ratios of 2k numbers, or none, two bits and a blurred exponent.",
    "embedded",
    _of_sealed,
    sealed=True,
)
LEVELS: Registry[Level] = Registry(
    "level",
    {
        "normed": Line("pdml_spdz.study.levels:NORMED"),
        "sum": Line("pdml_spdz.study.levels:SUM"),
        "sealed": Line("pdml_spdz.study.levels:SEALED"),
    },
)
OPENINGS: Registry[Opening] = Registry(
    "opening",
    {
        "one-scale": Line("pdml_spdz.engines.openings.one_scale:ONE_SCALE"),
        "centred": Line("pdml_spdz.engines.openings.centred:CENTRED"),
        "per-column": Line("pdml_spdz.engines.openings.per_column:PER_COLUMN"),
        "paper": Line("pdml_spdz.engines.mp_spdz.paper:PAPER"),
        "sum": Line("pdml_spdz.engines.openings.sums:SUM"),
        "sealed": Line("pdml_spdz.engines.openings.sealed:SEALED"),
        "sealed-hidden": Line("pdml_spdz.engines.openings.sealed:SEALED_HIDDEN"),
    },
)
DEFAULT_LEVEL = next(iter(LEVELS.lines))
