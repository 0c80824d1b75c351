"""Several parties' parts of PD-NMF in one process: their sums, without anything in between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdml_spdz.algorithms.nmf import Settings, State, Summands, pd_nmf_iter
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.alone import Alone, own_sum
from pdml_spdz.transport.clock import Clock


class Joined:
    """The parts as one. num, den : the first part's own addends to each topic, of the last sweep"""

    def __init__(self, parts: Sequence[Summands]) -> None:
        self.parts, self.d = parts, parts[0].d
        self.num: dict[int, Reals] = {}
        self.den: dict[int, Reals] = {}

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        addends = [part.update(t, T, p) for part in self.parts]
        self.num[t], self.den[t] = addends[0]
        return np.sum([num for num, _ in addends], axis=0), np.sum([den for _, den in addends], axis=0)

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        for part in self.parts:
            part.moved(t, before, T)

    def iterate(self, T: Reals, settings: Settings) -> Reals:
        """PD-NMF-Iter from T; nothing is sent."""
        return pd_nmf_iter(self, State(T), settings, own_sum, Alone(), clock=Clock()).T
