"""A claim of the paper, and how an answer becomes a verdict."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.experiments.cells import Count
from benchmarks.privacy.claims import Answer

HOLDS, FALSE, MIXED, OPEN = "holds", "does not hold", "mixed", "cannot be judged"


@dataclass(frozen=True)
class Claim:
    """where : in the paper; basis : what it is judged on"""

    where: str
    claim: str
    verdict: str
    figures: str
    basis: str


def verdict_of(answer: Answer) -> str:
    """The answers of `benchmarks.privacy.claims`, in four words."""
    for begins, verdict in (("yes", HOLDS), ("not", OPEN), ("no difference", OPEN), ("no", FALSE)):
        if answer.answer.startswith(begins):
            return f"{verdict}, on reduced cells" if "on reduced cells" in answer.answer else verdict
    return MIXED


def so_far(verdict: str, count: Count) -> str:
    """A verdict that rests on less than half of the paper's grid is marked."""
    return f"{verdict}, so far" if verdict != OPEN and count.full < count.cells / 2 else verdict


def judged(where: str, answer: Answer, count: Count) -> Claim:
    return Claim(where, answer.claim, so_far(verdict_of(answer), count), answer.figures, count.text)
