"""One party's singular vectors: what the solver needs, its checkpoints, its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.algorithms.solver import (
    CONVERGED,
    GO_ON,
    Fitting,
    SolverState,
    SvdResult,
    SvdSettings,
    start_by_sec_sum,
    start_by_seed,
)
from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import ProtocolError, ResumeError
from pdml_spdz.fits.functionals import scale_seen
from pdml_spdz.fits.loop import IterativeFit, nearby, opened_columns
from pdml_spdz.fits.prepare import View, accept, view
from pdml_spdz.fits.sealed_fit import fit_sealed
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import NormedColumns, NormedSum, OwnMean
from pdml_spdz.rows.covariance import Covariance, centred_covariance, covariance, covariance_around_own_mean
from pdml_spdz.rows.data import Data
from pdml_spdz.run.checkpoints import Checkpoint
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.kept import KEPT_NUMBERS
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.algorithm import Algorithm
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

SUMS_SEEN = "reveal sum: the sums S V_t, and with them Sigma, are seen by every party"
VARIANCE = "the explained variance of each component and the variance of all rows, to every party"


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """PD-SVD of all rows, scaled as the study has it."""
    return fit_rows(run, data, link, engine, view(run, data, link, engine))


def fit_rows(run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> Fitted:
    """PD-SVD of the rows as they are to be factorised."""
    if run.study.level.sealed:
        return fit_sealed(run, data, link, engine, rows)
    return SvdFit(run, data, link, engine, rows).fitted()


class SvdFit(IterativeFit[SolverState, SvdResult]):
    """The top singular vectors of the rows as they are to be factorised, by the study's solver.

    data : as they came, by which a resumed run knows them
    """

    def __init__(self, run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> None:
        super().__init__(run, data, link, engine, rows)
        self.solver = self.study.solver_spec
        study = self.study
        self.shape = study.spec.shape(study, data.d)
        memory, centred = 1e9 * study.memory, rows.mu is not None
        self.settings = SvdSettings(study.rank, study.iterations, study.tol, memory, centred, rows.off)
        with link.clock("local"):
            self.S_m = _covariance(rows, self.shape.k, min(study.iterations, self.solver.expected))

    def norm(self) -> float:
        return self.S_m.trace() if _by_trace(self.study) else self.S_m.norm_bound()

    def start(self) -> SolverState:
        study, d = self.study, self.data.d
        if study.seed is not None:
            V = start_by_seed(d, self.shape.k, study.seed, self.agree)
        else:
            V = start_by_sec_sum(d, self.shape.k, study.M, self.engine.sec_sum, self.agree)
        save_array(self.run.directory / "V0.npy", V)
        state: SolverState = self.solver.start(V)
        return state

    def saved(self, state: SolverState) -> Checkpoint:
        numbers, arrays = self.solver.saved(state)
        return Checkpoint(state.t, state.V, numbers, self.bound, public=arrays)

    def restored(self, checkpoint: Checkpoint) -> SolverState:
        try:
            state: SolverState = self.solver.restored(checkpoint.V, dict(checkpoint.meta), checkpoint.public)
        except (KeyError, TypeError, ValueError):
            raise ResumeError(
                f"the checkpoint of iteration {checkpoint.t} lacks what the solver {self.solver.name} goes on from.",
                *KEPT_NUMBERS,
            ) from None
        return state

    def verdict(self, state: SolverState) -> int:
        return self.solver.verdict(state, self.settings)

    def verdicts(self, state: SolverState) -> set[int]:
        settings = self.settings
        return {self.solver.verdict(state, replace(settings, tol=t)) for t in nearby(settings.tol, self.data.d)}

    def compared(self, state: SolverState) -> dict[str, Reals]:
        return self.solver.compared(state)

    def iterate(self, state: SolverState, done: Callable[[SolverState], None]) -> SvdResult:
        study = self.study
        # A run that has nothing left to do needs no material.
        left = study.iterations - state.t if state.stop == GO_ON else 0
        columns: NormedSum = _nothing_left
        if left:
            shape = replace(self.shape, tau=left, lengths=self.solver.lengths(state))
            mean = _own_mean(self.rows, self.data.n)
            columns = opened_columns(self.run, self.engine, self.bound, shape, mean, seen=self.observables())
        return self.solver.solve(Fitting(self.S_m, columns, self.agree, self.link.clock, done), state, self.settings)

    def observables(self) -> list[str]:
        return [*self.study.opening.seen(self.study.engine_spec), *scale_seen(self.study)]

    def arrays(self, result: SvdResult) -> dict[str, Reals]:
        self.run.see("V", result.V)
        return {"V.npy": result.V}

    def facts(self, result: SvdResult) -> dict[str, Any]:
        state = result.state
        facts = {
            "solver": self.solver.name,
            "rank": self.study.rank,
            "rank_found": result.V.shape[1],
            "iterations": state.t,
            "converged": state.stop == CONVERGED,
            "stop_reason": self.solver.reasons[state.stop],
            "column_errors": [float(e) for e in result.errors],
            "singular_values": None if result.sigma is None else [float(s) for s in result.sigma],
            "start": {"kind": self.study.start, "seed": self.study.seed},
        } | self.solver.facts(result)
        return facts | self._variance(result.V) if self.study.variance else facts

    def fitted(self) -> Fitted:
        fitted = super().fitted()
        if self.study.level.shows_sums and not self.study.engine_spec.in_the_clear:
            fitted.report["warnings"].insert(0, SUMS_SEEN)
        fitted.report["bound"]["measure"] = "trace" if _by_trace(self.study) else self.S_m.measure
        return fitted

    def _variance(self, V: Reals) -> dict[str, Any]:
        """The variance of all rows along each column of V, and in all.

        1. lambda_i <- SecSum(v_i.S_m v_i); total <- SecSum(trace S_m); both over n - 1

        Reveals: both, each to 44 bits below its own size, and with them the scale that NormedSecSum hides.
        Cost: that of one SecSum `positive` of k + 1 numbers. Ref: -
        """
        n = self.rows.n
        assert n is not None  # the view has counted the rows
        own = np.append(np.sum(V * self.S_m.times(V), axis=0), self.S_m.trace())
        # Rounding may leave a little below zero.
        *along, total = self.engine.sec_sum.positive(np.maximum(own, 0.0), "variance")
        self.show(VARIANCE)
        share = [float(x / total) if total > 0 else 0.0 for x in along]
        return {"explained_variance": [float(x / (n - 1)) for x in along], "explained_variance_ratio": share}


def _covariance(rows: View, *size: int) -> Covariance:
    if rows.mu is not None:
        return centred_covariance(rows.X, rows.mu, *size)
    return covariance(rows.X, *size) if rows.sums is None else covariance_around_own_mean(rows.X, *size)


def _own_mean(rows: View, n: int) -> OwnMean | None:
    if rows.sums is None or rows.n is None:
        return None
    # Sparse rows are not centred before they are squared, and their products are added up one row after another.
    return OwnMean(rows.sums, n / rows.n, n if rows.X.sparse else 0)


def _by_trace(study: Study) -> bool:
    """Whether the bound is made of traces, whichever form S_m has: an exponent is to be the same for all settings."""
    return study.bound_kind == "exponent"


def _nothing_left(x: Reals, g: Reals, lengths: Reals | None = None) -> NormedColumns:
    raise ProtocolError("an iteration was asked for, and none is left.")


def reveals(study: Study) -> list[str]:
    """What every party sees of a PD-SVD, in words."""
    return [*study.opening.seen(study.engine_spec), *scale_seen(study), *([VARIANCE] if study.variance else [])]


def of_two(study: Study) -> dict[str, bool]:
    """What opened sums show of the other party, where there are two."""
    return {"its S_m V_t in every iteration": study.level.shows_sums}


def reference(result: Any, files: list[Path]) -> dict[str, Any]:
    """The SVD of the pooled files."""
    from pdml_spdz.fits.accuracy import accuracy  # only where one machine has all files

    return accuracy(result.V, files, rows=result.rows_of_file)


HELP = """The top singular vectors of the rows of all FILES, one party for each file.

Every party is a process of its own that talks to the others over mutual TLS, as it would on a machine of its own.

\b
FILES: .npy, .npz (dense or scipy.sparse), .csv or .csv.gz with a header, .mtx, .parquet
Examples:
  pdml-spdz svd a.csv b.csv c.csv --rank 2
  pdml-spdz svd a.npz b.npz --rank 2 --bound rows:1.0,50000 --out runs/mine
  pdml-spdz svd a.csv b.csv --rank 2 --reveal sum --json | jq .singular_values
  pdml-spdz svd a.csv b.csv --rank 2 --scale secsum
"""

SVD = Algorithm(
    "svd",
    fit,
    result="V.npy",
    unit="singular vectors",
    title="Singular vectors",
    label="v",
    starts=("centre.npz", "missing.npz", "V0.npy"),
    accept=accept,
    reveals=reveals,
    of_two=of_two,
    reference=reference,
    help=HELP,
)
