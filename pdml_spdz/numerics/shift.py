"""What is taken off a table's features, in twice the digits of float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals


@dataclass(frozen=True)
class Shift:
    """A number for each feature, high + low; low is what rounding has left of high.

    An offset, and later a mean, are put together before they are taken off. One after the other, a mean that is large
    beside the deviations would cost them digits; as one float64, an offset that is near it would.
    """

    high: Reals
    low: Reals

    @classmethod
    def of(cls, values: Reals, before: Shift | None = None) -> Shift:
        """These numbers, and what was taken off before."""
        return cls(values, np.zeros_like(values)) if before is None else before.plus(values)

    def plus(self, values: Reals) -> Shift:
        """Their sum, exactly but for the last bits of low. Ref: [Knuth, TAOCP 2, 4.2.2, Theorem B] (TwoSum)"""
        high: Reals = self.high + values
        part = high - self.high
        return Shift(high, self.low + ((self.high - (high - part)) + (values - part)))

    def nearest(self) -> Reals:
        """As float64."""
        return self.high + self.low

    def off(self, X: Reals) -> Reals:
        """X less this; rows that are near high are exact after the first step."""
        moved: Reals = X - self.high
        if np.any(self.low):
            moved -= self.low
        return moved

    def __getitem__(self, columns: Any) -> Shift:
        return Shift(self.high[columns], self.low[columns])

    def tobytes(self) -> bytes:
        return self.high.tobytes() + self.low.tobytes()
