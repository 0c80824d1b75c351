"""What a study may say of how large numbers are: a bound, where it comes from, and how far below it sums may lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.study.algorithm import Want
from pdml_spdz.study.engines import engines_that
from pdml_spdz.study.values import LARGEST, SMALLEST, shown, usable

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

BOUNDS = ("auto", "window", "exponent", "secsum")  # or a number, or rows:R,N
WIDE_RANGE, USUAL_RANGE = 96, 40  # bits: of the window, which suits all ordinary data, and below a bound that is known
EXPONENT_RANGE = 30  # at least: a blurred exponent may be 16 too large, and a sum is smaller than the bound by itself


def kind_of(study: Study) -> str:
    """Where the bound comes from: "agreed", "window", "exponent" or "secsum"."""
    if study.quotas is not None:
        return "agreed"
    if study.bound != "auto":
        return study.bound
    if study.opening.shows_norms:
        return "secsum"
    return "window" if study.engine_spec.has_window else "exponent"


def check_bound(study: Study, want: Want) -> None:
    """want(ok, found, wanted) raises unless ok"""
    some = [p.quota > 0 for p in study.parties]
    want(
        parse_bound(study.bound) is not None or all(some) or not any(some),
        f"some parties have a quota, others have none, and `bound` is {study.bound}.",
        "a quota for every party, or a `bound` that holds for the others",
    )
    spec = study.engine_spec
    if study.bound_kind == "window" and not (spec.has_window and study.on_shares):
        wide = engines_that(lambda e: e.has_window)
        narrow = engines_that(lambda e: e.shares and not e.has_window)
        raise StudyError(
            f"`bound` is window with engine {study.engine!r} and reveal {study.reveal!r}.",
            f"the engine {wide} with it; exponent with {narrow}; secsum with reveal sum, which shows the norms anyway",
        )
    want(
        study.bound_kind != "exponent" or study.range >= EXPONENT_RANGE,
        f"`precision.range` is {study.range} and `bound` is {study.bound}, which a blurred exponent finds.",
        f"at least {EXPONENT_RANGE}, or a bound that the parties agree on",
    )
    most = spec.largest_range
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
