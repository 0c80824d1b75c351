"""Rows of which only what is there counts, for sums around a mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import BLOCK, Rows
from pdml_spdz.rows.data import Data


class Present(Rows):
    """No number that is missing adds to sums.

    filled : the rows with this party's own means in place of what is missing
    one : a row of what was filled in, as it was: it is taken off again, as often as it is missing

    Sums are found around that row, of which it adds nothing, and then moved: of a few values that are far from mu, the
    many that stand for the others would cost them their digits.
    """

    def __init__(self, filled: Rows, one: Rows, missing: NDArray[np.int64]) -> None:
        self._filled, self._one, self._missing = filled, one, missing
        self._own = one.column_sums()

    @property
    def shape(self) -> tuple[int, int]:
        return self._filled.shape

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        return self._filled.blocks(numbers)

    def column_squares(self, mu: Reals | None = None) -> Reals:
        squares = self._filled.column_squares(mu) - self._missing * self._one.column_squares(mu)
        return self._there(np.maximum(squares, 0.0))

    def column_sums(self) -> Reals:
        return self.sums_less(np.zeros(self.shape[1]))

    def sums_less(self, mu: Reals) -> Reals:
        around = self._filled.sums_less(self._own) - self._missing * self._one.sums_less(self._own)
        return self._there(around + (self.shape[0] - self._missing) * (self._own - mu))

    def _there(self, sums: Reals) -> Reals:
        """A feature of which this party has nothing adds nothing, not even rounding."""
        return np.where(self._missing < self.shape[0], sums, 0.0)


def present(data: Data, sums: Reals) -> Data:
    """The rows, of which only what is there counts. sums : of each feature"""
    if not data.holes:
        return data
    missing = data.missing()
    own: Reals = sums / np.maximum(data.n - missing, 1)
    rows = Present(data.rows.filled(own), data.rows.filler(own), missing)
    return replace(data, rows=rows, holes=False)
