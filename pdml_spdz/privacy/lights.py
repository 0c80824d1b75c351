"""Red, amber, green and grey: what one kind of observer tells, and how an attack ended, for people who decide.

Colours never stand alone: each has a word, and a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pdml_spdz.privacy import measures

RED, AMBER, GREEN, GREY = "red", "amber", "green", "grey"
WEAK, FEW = "weak test", "few records"
MANY = 0.1  # of all records: if so many may be told, none of those that were looked at is not enough for green
SHARP = 0.8  # a test that finds records with this AUC is good enough for green, if it found none
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Light:
    colour: str
    word: str
    why: str


def of_view(view: Mapping[str, Any] | None, rows: int | None = None, chosen: str | None = None) -> Light:
    """view : an `Observer` as JSON, None if nobody looked; rows, chosen : as of `share`"""
    if view is None:
        return Light(GREY, "not tested", "")
    least = view["detectable"]["auc"]
    if view["flagged"]:
        clearest = max(r["auc"] for r in view["records"] if r["document"] in view["flagged"])
        return Light(RED, "distinguishable", f"the clearest of them in {_of_100(clearest)} of 100 tries")
    if least is None:
        return Light(GREY, "not tested", "so few data sets could not have shown anything")
    if least > SHARP:
        return Light(AMBER, WEAK, f"none found; records told in up to {_of_100(least)} of 100 tries may be there")
    of = len(view["records"])
    if _is_sample(of, rows, chosen) and (most := _interval(0, of)[1]) > MANY:
        return Light(AMBER, FEW, f"none among {of}, but up to {_percent(most)} of all records may be told")
    if view["mean_min_p"] < view["by_chance"]:
        return Light(AMBER, "no single one", "none can be named, but all together differ more than chance lets expect")
    return Light(
        GREEN, "none found", f"a record told in {_of_100(least)} of 100 tries would most likely have been found"
    )


LEGEND = (
    (RED, "distinguishable", "at least one record: whoever sees this can tell whether it took part"),
    (
        AMBER,
        "unclear",
        "none can be named, but the test was weak or of few records, or all of them together look unlike chance",
    ),
    (GREEN, "none found", f"by a test that finds records told in {round(100 * SHARP)} of 100 tries; no proof"),
    (GREY, "not tested", "nothing is said, good or bad"),
)


def of_attack(finding: Mapping[str, Any] | None) -> Light:
    """finding : a `Finding` as JSON, None if nobody tried."""
    if finding is None or not finding.get("tried", True):
        return Light(GREY, "not tested", "")
    if finding["success"]:
        return Light(RED, "succeeded", "")
    if finding.get("partly", False):
        return Light(AMBER, "in part", "")
    return Light(GREEN, "got nothing", "")


def power(view: Mapping[str, Any]) -> str:
    """What the test could have found, in words."""
    least = view["detectable"]
    if least["auc"] is None:
        return "Nothing: after the correction for so many tests, so few data sets cannot show anything."
    return (
        f"In 8 of 10 cases a record that an observer, shown what it sees with the record and without it, tells in "
        f"{_of_100(least['auc'])} of 100 tries (50 is guessing). Records that show less may have gone unnoticed."
    )


def share(told: int, of: int, rows: int | None, chosen: str | None) -> str:
    """What `told` of `of` records, chosen at random, say of all the party's records, in words; "" if nothing.

    rows : how many there are, None if nobody knows; chosen : "random" or "named"
    """
    if rows is None or not _is_sample(of, rows, chosen):
        return ""
    low, high = _interval(told, of)
    low, high = max(low, told / rows), min(high, 1.0 - (of - told) / rows)  # those that were looked at are certain
    return f"so {_percent(low)} to {_percent(high)} of all {rows:,} records"


def _is_sample(of: int, rows: int | None, chosen: str | None) -> bool:
    return chosen == "random" and rows is not None and rows > of


def _interval(told: int, of: int) -> tuple[float, float]:
    low, high = measures.clopper_pearson(of, (1.0 - CONFIDENCE) / 2)
    return float(low[told]), float(high[told])


def _of_100(auc: float) -> int:
    return round(100 * auc)


def _percent(x: float) -> str:
    return f"{100 * x:.0f} %"
