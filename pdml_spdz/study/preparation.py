"""What a study may say of the rows before they are factorised: centring, offsets, scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdml_spdz.rows.names import quoted
from pdml_spdz.study.algorithm import Want
from pdml_spdz.study.values import LARGEST, usable

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

CENTRES = ("open", "hidden", "none")
SCALES = ("agreed", "secsum")


def check_rows(study: Study, want: Want) -> None:
    """want(ok, found, wanted) raises unless ok"""
    want(study.scale == "agreed" or not study.scales, "`scale` is secsum and `scales` are given.", "one of the two")
    d = study.d or len(study.features)
    for name in ("offsets", "scales"):
        values = getattr(study, name)
        want(all(abs(v) <= LARGEST for v in values), f"`{name}` are not all finite and of a size to use.", "numbers")
        want(not (d and values) or len(values) == d, f"`{name}` are {len(values)} for d = {d}.", "one for each feature")
    want(all(map(usable, study.scales)), "`scales` are not all positive and of a size to use.", "positive numbers")
    _check_names(study, want)


def _check_names(study: Study, want: Want) -> None:
    """Names that the study lists are names, and those of offsets and scales are the same."""
    for name, values in (("offset_features", study.offsets), ("scale_features", study.scales)):
        listed = getattr(study, name)
        want(
            not listed or len(listed) == len(values),
            f"`{name}` has {len(listed)} names for {len(values)} numbers.",
            "as many",
        )
        differ = sorted(set(listed) ^ set(study.features)) if listed and study.features else []
        want(not differ, f"`{name}` and `features` differ in {quoted(differ)}.", "the same names, in any order")
    for name in ("features", "offset_features", "scale_features"):
        listed = getattr(study, name)
        want(len(set(listed)) == len(listed), f"`{name}` has a name twice.", "distinct names")
        want(all(n.strip() for n in listed), f"`{name}` has a name that is empty.", "a name for each feature")
