"""Sums and columns that are also written down. Nothing that travels changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, Reals
from pdml_spdz.primitives.normed_sum import NormedColumns, NormedSum
from pdml_spdz.primitives.sec_sum import Accuracy, EngineSum


class RecordedSum:
    """A SecSum that keeps its results."""

    def __init__(self, inner: EngineSum, transcript: Transcript) -> None:
        self._inner, self._transcript = inner, transcript
        self.link = inner.link

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        s = self._inner(x, bound, purpose)
        if purpose == "columns":  # which `recorded` writes down
            return s
        self._transcript.see(f"sum:{purpose}", s=s)
        return s

    def positive(self, x: Reals, purpose: str, bits: int = OPENED_BITS) -> Reals:
        s = self._inner.positive(x, purpose, bits)
        self._transcript.see(f"sum:{purpose}", s=s)
        return s

    def integer(self, n: int, purpose: str) -> int:
        s = self._inner.integer(n, purpose)
        self._transcript.see(f"sum:{purpose}", s=np.array([float(s)]))
        return s

    def anywhere(self, flags: Sequence[bool], purpose: str) -> list[bool]:
        return self._inner.anywhere(flags, purpose)

    def accuracy(self, bound: float) -> Accuracy:
        return self._inner.accuracy(bound)


def recorded(columns: NormedSum, transcript: Transcript) -> NormedSum:
    """A NormedSecSum that is written down: V (the public directions it was asked for), the columns U, what is known of
    them up to one factor (c S V with one scale for a fit, S V itself where norms are revealed) and their noise. What
    was opened, y, is c S V times a factor for each column that everyone computes from the earlier ones.
    """

    def call(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
        seen = columns(x, g, lengths)
        U = seen.U if seen.scaled is None else None
        transcript.see("columns", V=g, U=U, scaled=seen.scaled, norms=seen.norms, noise=seen.noise)
        return seen

    return call
