"""What fits have in common: columns as the study has them opened; where there are iterations, resume or start,
checkpoints, and the report at the end.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from pdml_spdz.algorithms.solver import State
from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.transcript import recorded
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.prepare import View, offsets_and_scales
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement, check_verdict
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedSum, OwnMean
from pdml_spdz.rows.data import Data
from pdml_spdz.run.checkpoints import Checkpoint
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.run.output import Fitted, Outcome, run_report
from pdml_spdz.run.resume import compare
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link


class Result(Protocol):
    """What the last iteration has left, and what whoever relies on it must know."""

    @property
    def warnings(self) -> list[str]: ...


S = TypeVar("S", bound=State)
R = TypeVar("R", bound=Result)


class IterativeFit(ABC, Generic[S, R]):
    """One party's part of a fit whose iterations all parties make together.

    1. resumed: the latest state that all parties have on their disks, and the bound that belongs to it; otherwise, or
       where there is none, a bound, as the study says, and a start
    2. iterations; after each of them a checkpoint, and a word to whoever watches
    3. the parties compare digests of the result; the report
    """

    step = "iteration"  # what an iteration is called

    def __init__(self, run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> None:
        self.run, self.data, self.link, self.engine, self.rows = run, data, link, engine, rows
        self.study, self.agree = run.study, Agreement(link)
        self.bound = Bound(1.0, 1.0, "public")  # until `fitted` has found it
        self._shown: list[str] = []  # at the end

    @abstractmethod
    def norm(self) -> float:
        """What the bound is to bound, of this party."""

    @abstractmethod
    def start(self) -> S:
        """The first state, when the bound is known."""

    @abstractmethod
    def restored(self, checkpoint: Checkpoint) -> S: ...

    @abstractmethod
    def saved(self, state: S) -> Checkpoint: ...

    @abstractmethod
    def verdict(self, state: S) -> int:
        """Whether a fit with the study's settings ends here."""

    def verdicts(self, state: S) -> set[int]:
        """Those that party 0 may have come to, whose state is this one up to rounding."""
        return {self.verdict(state)}

    def compared(self, state: S) -> dict[str, Reals]:
        """What a checkpoint has besides V, and all parties have up to rounding."""
        return {}

    @abstractmethod
    def iterate(self, state: S, done: Callable[[S], None]) -> R: ...

    @abstractmethod
    def arrays(self, result: R) -> dict[str, Reals]:
        """By the names of their files; that of the result first."""

    @abstractmethod
    def facts(self, result: R) -> dict[str, Any]:
        """What the report says of this result beyond what it says of every run; may open more."""

    @abstractmethod
    def observables(self) -> list[str]:
        """What the iterations show, in words."""

    def show(self, observable: str) -> None:
        """Every party has seen this at the end, besides what the iterations have shown."""
        self._shown.append(observable)
        self.run.show(observable)

    def fitted(self) -> Fitted:
        """The whole fit."""
        run, study = self.run, self.study
        if run.checkpoint is not None:
            state = self._resumed(run.checkpoint)
        else:
            found = self.rows.bound
            self.bound = found or find_bound(run, self.norm(), self.engine, self.link, self.data)
            state = self.start()

        history: list[list[float]] = []

        def done(state: S) -> None:
            history.append([state.t, float(state.change)])
            with self.link.clock("local"):
                run.checkpoints.save(replace(self.saved(state), made_with=dict(run.kept.digests)))
            run.notify({"event": "iteration", "t": state.t, "of": study.iterations, "change": state.change})

        began = time.perf_counter()
        result = self.iterate(state, done)
        self.engine.finish()
        loop = time.perf_counter() - began
        facts, arrays = self.facts(result), self.arrays(result)
        digest = self.agree.digest("result", next(iter(arrays.values())).tobytes())
        outcome = Outcome(self.data, digest, [*result.warnings, *self.rows.warnings], self.observables())
        report = run_report(study, self.engine, self.link, self.bound, outcome)
        report["seconds"]["loop"] = round(loop, 6)
        report["history"] = history  # (iteration, change), of this run and not of one that it resumes
        of_rows(report, arrays, study, self.data, self.rows)
        report["observables"] += self._shown
        return Fitted(report | facts, arrays)

    def _resumed(self, checkpoint: Checkpoint) -> S:
        self.bound = checkpoint.bound
        state = self.restored(checkpoint)
        compare(self.link, checkpoint.t, self.compared(state))
        # The study may ask for more than the run that was cut off; all do what party 0 makes of it.
        _, (stop,) = self.agree(checkpoint.V, (self.verdict(state),), np.zeros(checkpoint.V.shape[1]))
        check_verdict((stop,), [self.verdicts(state)])
        self.run.note(f"resuming after {self.step} {state.t}")
        return replace(state, stop=stop)  # type: ignore[type-var]


def nearby(tol: float, d: int) -> tuple[float, ...]:
    """Limits that a number may be on the other side of, if another machine has rounded it."""
    return (tol / 2, tol, 2 * tol, tol + 64 * d * EPS) if tol > 0 else (tol,)


def of_rows(report: dict[str, Any], arrays: dict[str, Reals], study: Study, data: Data, rows: View) -> None:
    """Add what was made of the rows before the fit, and what that has shown."""
    offsets, scales = offsets_and_scales(study, data)
    report["offsets"], report["scales"] = (values.tolist() or None for values in (offsets, scales))
    report["observables"] = [*rows.observables, *report["observables"]]
    if rows.scale is not None:
        arrays["scale.npy"] = rows.scale


def opened_columns(
    run: PartyRun, engine: Engine, bound: Bound, shape: Shape, mean: OwnMean | None = None, *, seen: Sequence[str]
) -> NormedSum:
    """The study's NormedSecSum on this engine; written down if a transcript is wanted.

    mean : what this party knows of the mean of all rows, where that is to be taken off
    seen : what every party has seen once there are columns, in words
    """
    study = run.study
    phase = study.engine_spec.offline if study.on_shares else None
    plan = phase.plan(study, shape, run.mp_spdz, run.note) if phase else None
    columns = study.opening.columns(engine, bound, plan, mean)
    if run.transcript is not None:
        columns = recorded(columns, run.transcript)
    return showing(columns, run, *seen)
