"""What a study may say of the rows before they are factorised: centring, offsets, scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pdml_spdz.errors import StudyError
from pdml_spdz.rows.names import quoted
from pdml_spdz.study.engines import engines_that
from pdml_spdz.study.values import LARGEST, usable

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

CENTRES = ("open", "hidden", "none")
SCALES = ("agreed", "secsum")


def check_rows(study: Study, want: Callable[..., None], *, shares: bool) -> None:
    """want(ok, found, wanted) raises unless ok; shares : the engine computes on secret shares"""
    for name in ("centre", "variance"):
        usual = study.__dataclass_fields__[name].default
        want(
            study.algorithm == "pca" or getattr(study, name) == usual,
            f"`{name}` is {getattr(study, name)!r} for {study.algorithm}.",
            "the algorithm pca with it",
        )
    hidden = study.centre == "hidden"
    loop = shares and study.normalise == "fit" and study.program == "projection"
    if hidden and not loop:
        engines = engines_that(lambda e: e.shares)
        raise StudyError(
            f"`centre` is hidden with engine {study.engine!r}, normalise {study.normalise!r}, program "
            f"{study.program!r}.",
            f"engine {engines}, normalise fit, program projection",
        )
    want(
        not (hidden and study.variance),
        "`variance` is true and `centre` is hidden.",
        "open: by SecSum the variance along v shows the mean along v",
    )
    want(
        not (hidden and study.scale == "secsum"),
        "`scale` is secsum and `centre` is hidden.",
        "agreed scales: deviations by SecSum show the mean",
    )
    want(study.scale == "agreed" or not study.scales, "`scale` is secsum and `scales` are given.", "one of the two")
    want(not study.offsets or study.algorithm != "normed-sum", "`offsets` are given for a normed-sum.", "none")
    want(
        not (study.scales or study.scale == "secsum") or study.algorithm != "normed-sum",
        "scales are given for a normed-sum.",
        "none",
    )
    want(
        study.algorithm != "nmf" or not any(study.offsets),
        "`offsets` are given for nmf.",
        "scales only: rows less an offset have negative entries",
    )
    d = study.d or len(study.features)
    for name in ("offsets", "scales"):
        values = getattr(study, name)
        want(all(abs(v) <= LARGEST for v in values), f"`{name}` are not all finite and of a size to use.", "numbers")
        want(not (d and values) or len(values) == d, f"`{name}` are {len(values)} for d = {d}.", "one for each feature")
    want(all(map(usable, study.scales)), "`scales` are not all positive and of a size to use.", "positive numbers")
    _check_names(study, want)


def _check_names(study: Study, want: Callable[..., None]) -> None:
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
