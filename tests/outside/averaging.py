"""An algorithm of another package: the mean of all rows, approached by half the way in every iteration."""

from dataclasses import asdict, dataclass, field

import numpy as np

from pdml_spdz.fits.loop import IterativeFit
from pdml_spdz.fits.prepare import View
from pdml_spdz.run.checkpoints import Checkpoint
from pdml_spdz.study.algorithm import SQUARES, SUMS, Algorithm


@dataclass(frozen=True)
class State:
    V: np.ndarray
    t: int = 0
    change: float = 1.0
    stop: int = 0
    warnings: list = field(default_factory=list)


class Averaging(IterativeFit):
    norm = lambda self: self.data.rows.squares()  # noqa: E731
    start = lambda self: State(np.zeros((self.data.d, 1)))  # noqa: E731
    verdict = lambda self, state: int(state.t >= self.study.iterations)  # noqa: E731
    saved = lambda self, s: Checkpoint(s.t, s.V, {"t": s.t, "change": s.change}, self.bound)  # noqa: E731
    restored = lambda self, c: State(c.V, **c.meta)  # noqa: E731
    arrays = lambda self, state: {"average.npy": state.V[:, 0]}  # noqa: E731
    facts = lambda self, s: {"rank": 1, "iterations": s.t, "converged": False, "start": asdict(s)["t"]}  # noqa: E731
    observables = lambda self: ["the mean of all rows, to every party"]  # noqa: E731

    def iterate(self, state, done):
        n, sums = self.engine.sec_sum.integer(self.data.n, "rows"), self.data.rows.column_sums()[:, None]
        while not (stop := self.verdict(state)):
            mean = self.engine.sec_sum(sums, self.bound.addend + self.data.n, "mean") / n
            state = State((state.V + mean) / 2, state.t + 1, 0.5**state.t)
            done(state)
        return State(state.V, state.t, state.change, stop)


def fit(run, data, link, engine):
    return Averaging(run, data, link, engine, View(data.rows)).fitted()


AVERAGING = Algorithm("averaging", fit, "average.npy", "averages", needs=SUMS, measure=SQUARES, help="The mean.")
