"""An engine whose outputs are also written down. Nothing that travels changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, Reals
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedColumns, NormedSum, OwnMean
from pdml_spdz.primitives.sec_sum import Accuracy, EngineSum


class RecordedSum:
    """A SecSum that keeps its results."""

    def __init__(self, inner: EngineSum, transcript: Transcript) -> None:
        self._inner, self._transcript = inner, transcript
        self.link = inner.link

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        s = self._inner(x, bound, purpose)
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


class RecordingEngine:
    """`inner`, with every SecSum and every NormedSecSum in a transcript.

    Of a NormedSecSum: V (the public directions it was asked for), the columns U, what is known of them up to one factor
    (c S V with one scale for a fit, S V itself where norms are revealed) and their noise. What was opened, y, is c S V
    times a factor for each column that everyone computes from the earlier ones.
    """

    def __init__(self, inner: Engine, transcript: Transcript) -> None:
        self.inner, self.transcript = inner, transcript
        self.name, self.reveal, self.insecure = inner.name, inner.reveal, inner.insecure
        self.security = inner.security
        self.sec_sum = RecordedSum(inner.sec_sum, transcript)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The inner one's, also those it gives while it runs."""
        return self.inner.warnings

    def normed_sum(self, bound: Bound, shape: Shape, mean: OwnMean | None = None) -> NormedSum:
        inner = self.inner.normed_sum(bound, shape, mean)

        def recorded(x: Reals, g: Reals) -> NormedColumns:
            columns = inner(x, g)
            U = columns.U if columns.scaled is None else None
            self.transcript.see("columns", V=g, U=U, scaled=columns.scaled, norms=columns.norms, noise=columns.noise)
            return columns

        return recorded

    def facts(self) -> dict[str, Any]:
        return self.inner.facts()

    def finish(self) -> None:
        self.inner.finish()

    def close(self) -> None:
        self.inner.close()

    def observables(self) -> list[str]:
        return self.inner.observables()
