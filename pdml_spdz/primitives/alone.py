"""The one-party case: a party that agrees with itself, and sums of one addend. Nothing is sent."""

from __future__ import annotations

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement, Check
from pdml_spdz.primitives.normed_sum import NormedColumns, normalise
from pdml_spdz.primitives.sec_sum import EXACT, Accuracy


class Alone(Agreement):
    """Agreement of a party with itself."""

    def __init__(self) -> None:
        """There is no link."""

    def __call__(self, V: Reals, verdict: tuple[int, ...], tolerance: Reals) -> tuple[Reals, tuple[int, ...]]:
        return V, verdict

    def subspace(self, V: Reals, tolerance: float) -> Reals:
        return V

    def offered(self, array: Reals, choice: tuple[int, ...], right: Check) -> tuple[Reals, tuple[int, ...]]:
        return array, choice


class OwnSum:
    """SecSum of a party with itself."""

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        return x

    def accuracy(self, bound: float) -> Accuracy:
        return EXACT


own_sum = OwnSum()


def own_directions(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
    """NormedSecSum of a party with itself."""
    return normalise(x, 0.0)
