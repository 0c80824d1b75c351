"""What is known of S, all rows' covariance, besides c S: one number of it that is not zero gives the factor c, and all
of S with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pdml_spdz.rows.suspects import CONSTANT_KIND, EQUAL_SUMS, TWO_VALUES, UNIT_ROWS, WHOLE_KIND
from pdml_spdz.study.model import Study

CATEGORIES = "categories"  # that the study encodes: zeros and ones


@dataclass(frozen=True)
class Functional:
    """of : what is known of S, in words
    known : known(study, kinds), whether it is: from the study, and from the kinds of features that there are
    """

    of: str
    known: Callable[[Study, Collection[str]], bool]


def _open_mean(study: Study) -> bool:
    return "centre" in study.spec.own and study.centre == "open"


def _uncentred(study: Study) -> bool:
    return "centre" not in study.spec.own or study.centre == "none"


FUNCTIONALS = (
    Functional("every feature has a sum of squares of n after --scale secsum", lambda s, kinds: s.scale == "secsum"),
    Functional("--variance opens some of its numbers", lambda s, kinds: s.variance),
    Functional(
        "features of two values have sums of squares that follow from n and their mean",
        lambda s, kinds: TWO_VALUES in kinds and _open_mean(s) and s.scale != "secsum",
    ),
    Functional(
        "features of whole numbers, or few decimals, have products on a grid (n times finer around a mean), and give c",
        lambda s, kinds: bool({CATEGORIES, WHOLE_KIND} & {*kinds}) and s.scale != "secsum",
    ),
    Functional(
        "rows of one length have a trace of n times its square, minus n times that of an open mean",
        lambda s, kinds: UNIT_ROWS in kinds and (_uncentred(s) or _open_mean(s)) and s.scale != "secsum",
    ),
    Functional(
        "with n, which may be known, a constant feature has n times its square",
        lambda s, kinds: CONSTANT_KIND in kinds and _uncentred(s) and s.scale != "secsum",
    ),
    Functional(
        "with n, which may be known, rows of one sum have n times its square as the sum of all numbers of S",
        lambda s, kinds: EQUAL_SUMS in kinds and _uncentred(s) and s.scale != "secsum",
    ),
)


def follows(study: Study, kinds: Collection[str] = ()) -> list[str]:
    """Of what c follows, in words; empty where the study has no c, or nothing of S is known.

    kinds : of features, as far as they are known; categories that the study encodes are zeros and ones
    """
    if not study.on_shares or study.level.sealed or study.spec.vector:
        return []
    all_kinds = {*kinds, *([TWO_VALUES, CATEGORIES] if study.rows.encode else [])}
    return [one.of for one in FUNCTIONALS if one.known(study, all_kinds)]


def scale_seen(study: Study) -> list[str]:
    """What every party sees of a fit of this study for that reason, whatever the rows are."""
    found = follows(study)
    return [f"c, and so S and its singular values as at level sum: {'; '.join(found)}, to every party"] if found else []


def suspected(study: Study, kinds: Collection[str]) -> list[str]:
    """A note for a party whose rows are of these kinds: the scale follows if the others' are, too."""
    found = [reason for reason in follows(study, kinds) if reason not in follows(study)]
    text = "where the other parties' columns are like these, level normed does not hide the scale, and is as sum"
    return [f"{text}: {'; '.join(found)}"] if found else []
