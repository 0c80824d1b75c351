"""One party's PD-SVD: bound, start, iterations with checkpoints, files."""

from __future__ import annotations

import time
from dataclasses import replace
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
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.prepare import View, view
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.primitives.normed_sum import NormedColumns, positive_at_first
from pdml_spdz.rows.covariance import Covariance, centred_covariance, covariance, covariance_around_own_mean
from pdml_spdz.rows.data import Data
from pdml_spdz.run.checkpoint import Checkpoint, Checkpoints
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.run.output import Fitted
from pdml_spdz.run.report import Outcome, run_report
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

VARIANCE = "the explained variance of each component and the variance of all rows, to every party"


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """PD-SVD of all rows, scaled and centred as the study has it."""
    return fit_view(run, data, link, engine, view(run, data, link, engine))


def fit_view(run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> Fitted:
    """PD-SVD of the rows as they are to be factorised. data : as they came, by which a resumed run knows them"""
    study, clock = run.study, link.clock
    settings = Settings(study.rank, study.iterations, study.tol)
    checkpoints = Checkpoints(run.directory / "checkpoint")
    agree = Agreement(link)
    with clock("local"):
        S_m = _covariance(rows, study)
    if run.resume:
        checkpoint = checkpoints.common(link)
        state, bound = _restored(checkpoint), checkpoint.bound
        # The study may ask for more than the run that was cut off; all do what party 0 makes of it.
        _, (stop,) = agree(state.V, (verdict(state, settings),), np.zeros(study.rank))
        state = replace(state, stop=stop)
        run.note(f"resuming after iteration {state.t}")
    else:
        norm = S_m.trace() if _by_trace(study) else S_m.norm_bound()
        bound = rows.bound or find_bound(run, norm, engine, link, data.d)
        state = _start(study, data.d, engine, agree)
        save_array(run.directory / "V0.npy", state.V)

    def done(state: State) -> None:
        with clock("local"):
            checkpoints.save(_saved(state, bound))
        run.notify({"event": "iteration", "t": state.t, "of": study.iterations, "change": state.change})

    # A run that has nothing left to do needs no material.
    left = study.iterations - state.t if state.stop == GO_ON else 0
    shape = Shape(data.d, study.rank, left, _lengths(state))
    normed_sum = engine.normed_sum(bound, shape, rows.sums) if left else _nothing_left
    if study.reveal == "normed" and study.normalise == "fit":
        normed_sum = positive_at_first(normed_sum, rows.sums, data.n / (rows.n or data.n))
    began = time.perf_counter()
    shown = showing(normed_sum, run, *engine.observables())
    result = pd_svd(S_m, state, settings, shown, agree, clock=clock, done=done)
    engine.finish()
    loop = time.perf_counter() - began
    variance = _variance(S_m, result.V, rows, engine) if study.variance else {}
    run.show(*([VARIANCE] if variance else []))
    digest = agree.digest("result", result.V.tobytes())
    report = run_report(study, engine, link, bound, Outcome(data, digest, result.warnings))
    report["seconds"]["loop"] = round(loop, 6)
    report |= _svd_facts(study, result) | variance
    report["bound"]["measure"] = "trace" if _by_trace(study) else S_m.measure
    report["observables"] = [*rows.observables, *report["observables"], *([VARIANCE] if variance else [])]
    run.see("V", result.V)
    arrays = {"V.npy": result.V}
    return Fitted(report, arrays if rows.scale is None else arrays | {"scale.npy": rows.scale})


def _covariance(rows: View, study: Study) -> Covariance:
    size = study.rank, study.iterations
    if rows.mu is not None:
        return centred_covariance(rows.X, rows.mu, *size)
    return covariance(rows.X, *size) if rows.sums is None else covariance_around_own_mean(rows.X, *size)


def _saved(state: State, bound: Bound) -> Checkpoint:
    meta = {name: getattr(state, name) for name in ("t", "change", "strikes", "stop", "error")}
    return Checkpoint(state.t, state.V, meta, bound, public=state.product.arrays() if state.product else {})


def _restored(checkpoint: Checkpoint) -> State:
    meta = dict(checkpoint.meta)
    return State(checkpoint.V, strikes=tuple(meta.pop("strikes")), product=Product.restored(checkpoint.public), **meta)


def _lengths(state: State) -> tuple[float, ...]:
    """How long the next sums will be, about: v_i.S v_i(before), up to the factor of what was seen."""
    return () if state.product is None else tuple(float(x) for x in np.sum(state.V * state.product.SV, axis=0))


def _variance(S_m: Covariance, V: Reals, rows: View, engine: Engine) -> dict[str, Any]:
    """The variance of all rows along each column of V, and in all.

    1. lambda_i <- SecSum(v_i.S_m v_i); total <- SecSum(trace S_m); both over n - 1

    Reveals: both, each to 44 bits below its own size, and with them the scale that NormedSecSum hides.
    Cost: that of one SecSum `positive` of k + 1 numbers. Ref: -
    """
    assert rows.n is not None  # the view has counted the rows
    own = np.append(np.sum(V * S_m.times(V), axis=0), S_m.trace())
    *along, total = engine.sec_sum.positive(np.maximum(own, 0.0), "variance")  # rounding may leave a little below zero
    share = [float(x / total) if total > 0 else 0.0 for x in along]
    return {"explained_variance": [float(x / (rows.n - 1)) for x in along], "explained_variance_ratio": share}


def _by_trace(study: Study) -> bool:
    """Whether the bound is made of traces, whichever form S_m has: an exponent is to be the same for all settings."""
    return study.bound_kind == "exponent"


def _nothing_left(x: Reals, g: Reals) -> NormedColumns:
    raise ProtocolError("an iteration was asked for, and none is left.")


def _svd_facts(study: Study, result: Result) -> dict[str, Any]:
    """What the report says of a PD-SVD beyond what it says of every run."""
    state = result.state
    return {
        "rank": study.rank,
        "rank_found": result.V.shape[1],
        "iterations": state.t,
        "converged": state.stop == CONVERGED,
        "stop_reason": STOP_REASONS[state.stop],
        "subspace_change": state.change,
        "column_errors": [float(e) for e in result.errors],
        "singular_values": None if result.sigma is None else [float(s) for s in result.sigma],
        "start": {"kind": study.start, "seed": study.seed},
    }


def _start(study: Study, d: int, engine: Engine, agree: Agreement) -> State:
    if study.seed is not None:
        return start_by_seed(d, study.rank, study.seed, agree)
    return start_by_sec_sum(d, study.rank, study.M, engine.sec_sum, agree)
