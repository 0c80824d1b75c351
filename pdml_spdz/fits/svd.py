"""One party's PD-SVD: what its iterations need, its checkpoints, its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.algorithms.rayleigh_ritz import Product
from pdml_spdz.algorithms.svd import (
    CONVERGED,
    GO_ON,
    STOP_REASONS,
    Result,
    Settings,
    State,
    pd_svd,
    start_by_sec_sum,
    start_by_seed,
    verdict,
)
from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.errors import ProtocolError
from pdml_spdz.fits.loop import IterativeFit
from pdml_spdz.fits.prepare import View, accept, view
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.normed_sum import NormedColumns, OwnMean, positive_at_first
from pdml_spdz.rows.covariance import Covariance, centred_covariance, covariance, covariance_around_own_mean
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import Checkpoint, PartyRun, showing
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.algorithm import Algorithm
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

VARIANCE = "the explained variance of each component and the variance of all rows, to every party"


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """PD-SVD of all rows, scaled as the study has it."""
    return SvdFit(run, data, link, engine, view(run, data, link, engine)).fitted()


class SvdFit(IterativeFit[State, Result]):
    """PD-SVD of the rows as they are to be factorised.

    data : as they came, by which a resumed run knows them
    """

    def __init__(self, run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> None:
        super().__init__(run, data, link, engine, rows)
        self.settings = Settings(self.study.rank, self.study.iterations, self.study.tol)
        with link.clock("local"):
            self.S_m = _covariance(rows, self.study)

    def norm(self) -> float:
        return self.S_m.trace() if _by_trace(self.study) else self.S_m.norm_bound()

    def start(self) -> State:
        study, d = self.study, self.data.d
        if study.seed is not None:
            state = start_by_seed(d, study.rank, study.seed, self.agree)
        else:
            state = start_by_sec_sum(d, study.rank, study.M, self.engine.sec_sum, self.agree)
        save_array(self.run.directory / "V0.npy", state.V)
        return state

    def saved(self, state: State) -> Checkpoint:
        meta = {name: getattr(state, name) for name in ("t", "change", "strikes", "stop", "error")}
        public = state.product.arrays() if state.product else {}
        return Checkpoint(state.t, state.V, meta, self.bound, public=public)

    def restored(self, checkpoint: Checkpoint) -> State:
        meta, product = dict(checkpoint.meta), Product.restored(checkpoint.public)
        return State(checkpoint.V, strikes=tuple(meta.pop("strikes")), product=product, **meta)

    def verdict(self, state: State) -> int:
        return verdict(state, self.settings)

    def iterate(self, state: State, done: Callable[[State], None]) -> Result:
        study, rows, n = self.study, self.rows, self.data.n
        # A run that has nothing left to do needs no material.
        left = study.iterations - state.t if state.stop == GO_ON else 0
        shape = Shape(self.data.d, study.rank, left, _lengths(state))
        mean = _own_mean(rows, n)
        normed_sum = self.engine.normed_sum(self.bound, shape, mean) if left else _nothing_left
        if study.reveal == "normed" and study.normalise == "fit":
            normed_sum = positive_at_first(normed_sum, mean)
        shown = showing(normed_sum, self.run, *self.engine.observables())
        return pd_svd(self.S_m, state, self.settings, shown, self.agree, clock=self.link.clock, done=done)

    def arrays(self, result: Result) -> dict[str, Reals]:
        self.run.see("V", result.V)
        return {"V.npy": result.V}

    def facts(self, result: Result) -> dict[str, Any]:
        state = result.state
        facts = {
            "rank": self.study.rank,
            "rank_found": result.V.shape[1],
            "iterations": state.t,
            "converged": state.stop == CONVERGED,
            "stop_reason": STOP_REASONS[state.stop],
            "subspace_change": state.change,
            "column_errors": [float(e) for e in result.errors],
            "singular_values": None if result.sigma is None else [float(s) for s in result.sigma],
            "start": {"kind": self.study.start, "seed": self.study.seed},
        }
        return facts | self._variance(result.V) if self.study.variance else facts

    def fitted(self) -> Fitted:
        fitted = super().fitted()
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


def _covariance(rows: View, study: Study) -> Covariance:
    size = study.rank, study.iterations
    if rows.mu is not None:
        return centred_covariance(rows.X, rows.mu, *size)
    return covariance(rows.X, *size) if rows.sums is None else covariance_around_own_mean(rows.X, *size)


def _own_mean(rows: View, n: int) -> OwnMean | None:
    if rows.sums is None or rows.n is None:
        return None
    # Sparse rows are not centred before they are squared, and their products are added up one row after another.
    return OwnMean(rows.sums, n / rows.n, n if rows.X.sparse else 0)


def _lengths(state: State) -> tuple[float, ...]:
    """How long the next sums will be, about: v_i.S v_i(before), up to the factor of what was seen."""
    return () if state.product is None else tuple(float(x) for x in np.sum(state.V * state.product.SV, axis=0))


def _by_trace(study: Study) -> bool:
    """Whether the bound is made of traces, whichever form S_m has: an exponent is to be the same for all settings."""
    return study.bound_kind == "exponent"


def _nothing_left(x: Reals, g: Reals) -> NormedColumns:
    raise ProtocolError("an iteration was asked for, and none is left.")


def of_two(study: Study) -> dict[str, bool]:
    """What opened sums show of the other party, where there are two."""
    return {"its S_m V_t in every iteration": study.reveal == "sum"}


def reference(result: Any, files: list[Path]) -> dict[str, Any]:
    """The SVD of the pooled files."""
    from pdml_spdz.fits.accuracy import accuracy  # only where one machine has all files

    return accuracy(result.V, files, rows=result.prepared)


HELP = """The top singular vectors of the rows of all FILES, one party for each file.

Every party is a process of its own that talks to the others over mutual TLS, as it would on a machine of its own.

\b
FILES: .npy, .npz (dense or scipy.sparse), .csv or .csv.gz with a header, .mtx, .parquet
Examples:
  pdml-spdz svd a.csv b.csv c.csv --rank 5
  pdml-spdz svd a.npz b.npz --rank 20 --bound rows:1.0,50000 --out runs/mine
  pdml-spdz svd a.csv b.csv --rank 5 --reveal sum --json | jq .singular_values
  pdml-spdz svd a.csv b.csv --rank 5 --scale secsum
"""

SVD = Algorithm(
    "svd",
    fit,
    result="V.npy",
    unit="singular vectors",
    starts=("centre.npz", "V0.npy"),
    accept=accept,
    of_two=of_two,
    reference=reference,
    help=HELP,
)
