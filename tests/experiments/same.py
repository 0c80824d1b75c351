"""Whether what is computed again is what was kept, up to rounding."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from benchmarks.experiments.cells import Row

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\bnan\b|\binf\b)")
# Measured on this machine, and so another one's: not compared.
TIMES = ("cpu_seconds",)
DIGITS = ("told",)  # a row of 0 and 1, which is no number


def assert_same_rows(
    found: list[Row], kept: list[Row], tol: float, names: Iterable[str] | None = None, least: float = 0.0
) -> None:
    """Numbers, also those within a text, to a relative `tol`, or to `least`; all else as it is.

    names : of the columns that are compared; None: all but times
    """
    assert len(found) == len(kept)
    for a, b in zip(found, kept, strict=True):
        for name in [n for n in a if n not in TIMES] if names is None else names:
            mine, theirs = str(a[name]), b[name]
            if name in DIGITS:
                assert mine == theirs
                continue
            assert NUMBER.sub("#", mine) == NUMBER.sub("#", theirs), (name, mine, theirs)
            numbers, wanted = ([float(number) for number in NUMBER.findall(text)] for text in (mine, theirs))
            assert numbers == pytest.approx(wanted, rel=tol, abs=least, nan_ok=True), (name, b)


def close(found: Any, kept: Any, noise: float = 1e-5) -> bool:
    """Of figures by name: counts are equal; measured numbers to a percent, those below `noise`, which masks and
    rounding make others in every run, to a factor of ten.
    """
    if isinstance(kept, dict):
        return found.keys() == kept.keys() and all(close(found[name], kept[name], noise) for name in kept)
    if isinstance(kept, list):
        return len(found) == len(kept) and all(close(a, b, noise) for a, b in zip(found, kept, strict=True))
    if isinstance(kept, int | str):
        return bool(found == kept)
    return bool(found == pytest.approx(kept, rel=0.01) or (abs(kept) < noise and 0 <= found < 10 * max(kept, 1e-14)))
