"""A sum over held-out numbers and how many they are: what errors and likelihoods are made of, alone or jointly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import InputError
from pdml_spdz.primitives.sec_sum import SecSum


@dataclass(frozen=True)
class Score:
    """total : of squared errors, or of logarithms of probabilities; count : how many of them. Local to a party."""

    total: float
    count: int

    def __add__(self, other: Score) -> Score:
        return Score(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        if self.count == 0:
            raise InputError("there is nothing held out to score.", "at least one held-out number")
        return self.total / self.count

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self.mean))


def joint(own: Score, sec_sum: SecSum, *, largest: float, most: int) -> Score:
    """The score over all parties' held-out numbers.

    1. total, count <- SecSum(own total / (largest most), own count / most), scaled back

    largest : no number has a larger size; most : no party scores more of them; both public

    Reveals: total and count of all parties together. Cost: one SecSum of two numbers.
    """
    scales = np.array([largest * most, most], np.float64)
    total, count = sec_sum(np.array([own.total, own.count]) / scales, 1.0, "score") * scales
    return Score(float(total), round(count))
