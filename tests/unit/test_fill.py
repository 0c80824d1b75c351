"""How many rows there are at most, where nobody counts them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdml_spdz.fits.fill import _rows_at_most
from pdml_spdz.primitives.sec_sum import ClearSum
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([50, 80], [[50, 2], [40, 70]]),
        ([50, 80], [[50, 2], [30, 70]]),
        ([10_000, 10_000], [[2, 2], [2, 1]]),  # nearly all of them are empty
        ([3, 5_000_000, 7], [[3, 1], [0, 0], [0, 7]]),  # a party that has nothing
    ],
    ids=["half", "some", "empty", "nothing"],
)
def test_rows_are_no_more_than_that(rows: list[int], values: list[list[int]]) -> None:
    there = np.array(values, np.float64)

    def party(link: Link) -> float:
        engine: Any = SimpleNamespace(sec_sum=ClearSum(link))
        return _rows_at_most(there[link.me], rows[link.me], there.sum(axis=0), engine)

    found = between_threads(len(rows), party)
    assert len(set(found)) == 1
    assert sum(rows) <= found[0] <= max(2 * there.sum(), 16 * len(rows) * max(rows))
