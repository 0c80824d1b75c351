"""What a study may say of how large numbers are: a bound, where it comes from, and how far below it sums may lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.study.values import LARGEST, SMALLEST, Want, shown, usable

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

BOUNDS = ("auto", "window", "exponent", "secsum")  # or a number, or rows:R,N
WIDE_RANGE, USUAL_RANGE = 96, 40  # bits: of the window, which suits all ordinary data, and below a bound that is known
EXPONENT_RANGE = 30  # at least: a blurred exponent may be 16 too large, and a sum is smaller than the bound by itself
MEASURES = {"nmf": "||X_m||_F^2", "normed-sum": "||x_m||"}  # what a quota bounds; "||X_m^T X_m||_F" of the others
RANGES = {"mp-spdz": 44}  # the most that an engine's numbers have room for: its primes have 256 bits


def measure_of(study: Study) -> str:
    """What a party's quota bounds, in letters."""
    return MEASURES.get(study.algorithm, "||X_m^T X_m||_F")


def kind_of(study: Study) -> str:
    """Where the bound comes from: "agreed", "window", "exponent" or "secsum"."""
    if study.quotas is not None:
        return "agreed"
    if study.bound != "auto":
        return study.bound
    if study.reveal == "sum" or study.program == "paper":
        return "secsum"  # the sums, or the paper's coarse inputs, show the norms anyway
    # MP-SPDZ's numbers have no room for the window.
    return "exponent" if study.engine == "mp-spdz" else "window"


def check_bound(study: Study, want: Want) -> None:
    """want(ok, found, wanted) raises unless ok"""
    some = [p.quota > 0 for p in study.parties]
    want(
        parse_bound(study.bound) is not None or all(some) or not any(some),
        f"some parties have a quota, others have none, and `bound` is {study.bound}.",
        "a quota for every party, or a `bound` that holds for the others",
    )
    want(
        study.algorithm != "normed-sum" or not study.bound.startswith("rows:"),
        f"`bound` is {shown(study.bound)} for a normed-sum.",
        f"a number (the largest norm of any party's vector) or one of {', '.join(BOUNDS)}",
    )
    want(
        study.bound_kind != "window" or study.engine == "embedded",
        f"`bound` is window with engine {study.engine!r}.",
        "the engine embedded with it; exponent with mp-spdz; secsum with reveal sum, which shows the norms anyway",
    )
    want(
        study.bound_kind != "exponent" or study.range >= EXPONENT_RANGE,
        f"`precision.range` is {study.range} and `bound` is {study.bound}, which a blurred exponent finds.",
        f"at least {EXPONENT_RANGE}, or a bound that the parties agree on",
    )
    most = RANGES.get(study.engine, WIDE_RANGE)
    want(study.range <= most, f"`precision.range` is {study.range} with engine {study.engine!r}.", f"at most {most}")


def parse_bound(bound: str) -> float | None:
    """The quota that `bound` gives to every party: B_m itself, or N R^2 for "rows:R,N"; None if it gives none."""
    if bound in BOUNDS:
        return None
    text = bound.removeprefix("rows:")
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    wanted = 2 if bound.startswith("rows:") else 1
    value = math.prod((*numbers[: wanted - 1], *numbers))  # never an OverflowError, as a power is
    if len(numbers) != wanted or not all(0 < x < math.inf for x in numbers) or not usable(value):
        raise StudyError(
            f"`bound` is {shown(bound)}.",
            "a number (the largest ||X_m^T X_m||_F of any party), rows:R,N (no row longer than R, no party with "
            f"more than N rows), or one of {', '.join(BOUNDS)}; numbers and N R^2 from {SMALLEST:.0e} to {LARGEST:.0e}",
            did_you_mean(bound, BOUNDS),
        )
    return value
