"""One party's PD-NMF: bound, start, sweeps with checkpoints, files."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from pdml_spdz.algorithms import nmf, nmf_start, svd
from pdml_spdz.algorithms.nmf import STOP_REASONS, Settings, State, pd_nmf_iter, verdict
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.errors import InputError
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.prepare import view
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import SecSum, check_size
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.covariance import covariance
from pdml_spdz.rows.data import Data
from pdml_spdz.run.checkpoint import Checkpoint, Checkpoints
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.run.output import Fitted
from pdml_spdz.run.report import Outcome, run_report
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

NOT_PRIVATE = "NOT PRIVATE: --init best_of_M shows every party's own topics to all others; for comparison only"
ADDENDS = "W_t^T R_t (d numbers) and ||W_t||^2"
OBJECTIVE = "||X - W T||_F^2 at the end"


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    study, clock = run.study, link.clock
    check_rows(data)
    agree = Agreement(link)
    checkpoints = Checkpoints(run.directory / "checkpoint")
    rows = view(run, data, link, engine)
    local = part(rows.X, study.rank, weighted=study.nmf.weighted)
    if run.resume:
        checkpoint = checkpoints.common(link)
        meta = dict(checkpoint.meta)
        state = State(T=checkpoint.V, strikes=tuple(meta.pop("strikes")), **meta)
        bound = checkpoint.bound
        local.restore(_own(checkpoint), state.T)
        run.note(f"resuming after sweep {state.t}")
    else:
        bound = rows.bound or find_bound(run, local.norm(), engine, link, data.d)
    settings = settings_of(study, bound.total)
    if run.resume:
        # The study may ask for more than the run that was cut off; all do what party 0 makes of it.
        _, (stop,) = agree(state.T, (verdict(state, settings),), np.zeros(data.d))
        state = replace(state, stop=stop)
    else:
        nmf.check_size(local.norm(), settings, engine.sec_sum.accuracy(1.0))
        state = _start(run, rows.X, link, engine, agree, settings)
        save_array(run.directory / "T0.npy", state.T)
        run.see("T0", state.T)
        if study.nmf.w_start == "nnls":
            with clock("local"):
                local.fit(state.T, settings.penalties)

    def done(state: State) -> None:
        run.see("T", state.T)
        with clock("local"):
            meta = {name: value for name, value in asdict(state).items() if name != "T"}
            checkpoints.save(Checkpoint(state.t, state.T, meta, bound, local.W))
        run.notify({"event": "iteration", "t": state.t, "of": study.iterations, "change": state.change})

    began = time.perf_counter()
    sec_sum = ShownSum(engine.sec_sum, run, *_seen_of_sweeps(study))
    result = pd_nmf_iter(local, state, settings, sec_sum, agree, clock=clock, done=done)
    loop = time.perf_counter() - began
    error = _objective(local.error(result.T), engine) if study.nmf.objective else None
    run.show(*([OBJECTIVE] if study.nmf.objective else []))
    digest = agree.digest("result", result.T.tobytes())
    published = _start_kind(study) == "best_of_M"
    warnings = [*([NOT_PRIVATE] if published else []), *result.warnings]
    outcome = Outcome(data, digest, warnings, [*rows.observables, *observables(study)])
    report = run_report(study, engine, link, bound, outcome)
    report["insecure"] = engine.insecure or published
    report["seconds"]["loop"] = round(loop, 6)
    report |= _facts(study, result, error)
    arrays = {"T.npy": result.T, "W.npy": local.W}
    return Fitted(report, arrays if rows.scale is None else arrays | {"scale.npy": rows.scale})


def _objective(own: float, engine: Engine) -> float:
    return float(engine.sec_sum.positive(np.array([own]), "objective")[0])


def check_rows(data: Data) -> None:
    """NMF is for numbers that are zero or more."""
    negative = sum(int(np.sum(values < 0)) for values in data.rows.stored())
    if negative:
        raise InputError(
            f"{data.source} has {negative:,} negative entries.",
            "non-negative rows",
            "use svd or pca, or shift the columns",
        )


def settings_of(study: Study, bound: float) -> Settings:
    s = study.nmf
    penalties = Penalties(s.alpha, s.beta, s.gamma, s.delta)
    return Settings(study.iterations, study.tol, bound, penalties, s.weighted, s.paper_order)


class ShownSum:
    """A SecSum after whose sums every party has seen the observables; a start from noise shows nothing."""

    def __init__(self, inner: SecSum, run: PartyRun, *observables: str) -> None:
        self._sum, self._shown, self.accuracy = inner, showing(inner, run, *observables), inner.accuracy

    def __call__(self, x: Reals, bound: float, purpose: str) -> Reals:
        return (self._sum if purpose == "start" else self._shown)(x, bound, purpose)


def observables(study: Study) -> list[str]:
    """What every party sees of a PD-NMF, in words."""
    sums, topics = _seen_of_sweeps(study)
    return [sums, *_seen_of_start(study), *([OBJECTIVE] if study.nmf.objective else []), topics]


def _seen_of_sweeps(study: Study) -> tuple[str, str]:
    sums = f"{ADDENDS} ({_den(study)}), summed over all rows, of every topic t in every sweep"
    return sums, "T after every sweep"


def _den(study: Study) -> str:
    return "a number for each feature" if study.nmf.weighted else "one number"


def _seen_of_start(study: Study) -> list[str]:
    of_own_topics = "of the parties' own topics, weighted, in the sweeps of PD-NMF-Init"
    seen = {
        "pd": [f"{ADDENDS} ({_den(study)}) {of_own_topics}"],
        "nnsvd": ["S V_t in every iteration of PD-SVD, and so Sigma", "the norms of both signs of X v_j for every j"],
        "best_of_M": ["every party's own topics, as they are", "how well they explain all rows"],
    }
    return seen.get(_start_kind(study), [])


def _start_kind(study: Study) -> str:
    """A public seed takes the place of `init`."""
    return study.nmf.init if study.seed is None else "seed"


def _start(run: PartyRun, X: Rows, link: Link, engine: Engine, agree: Agreement, settings: Settings) -> State:
    study, d, k = run.study, X.shape[1], run.study.rank
    if study.seed is not None:
        return nmf.start_by_seed(d, k, study.seed, agree)
    if study.nmf.init == "random":
        return nmf.start_by_sec_sum(d, k, study.M, engine.sec_sum, agree)
    short = replace(settings, tau=study.nmf.init_iterations)
    seen = _seen_of_start(study)
    sec_sum = ShownSum(engine.sec_sum, run, *seen)
    if study.nmf.init == "pd":
        run.note(f"PD-NMF-Init: up to {short.tau} sweeps on the parties' own topics")
        return nmf_start.pd_nmf_init(X, k, study.M, short, sec_sum, agree, clock=link.clock)
    if study.nmf.init == "best_of_M":
        run.note(NOT_PRIVATE)
        publish = showing(_publisher(link), run, *seen)
        return nmf_start.best_of_M(X, k, short, publish, engine.sec_sum, agree, clock=link.clock)
    return _nnsvd(run, X, engine, agree, link, short.tau)


def _publisher(link: Link) -> Callable[[Reals], list[Reals]]:
    """Every party's array, of the same shape, in the order of the parties; in the clear."""

    def publish(own: Reals) -> list[Reals]:
        received = link.all_to_all("publish", own)
        for peer, data in received.items():
            check_size(own.nbytes, data.nbytes, peer)
        arrays = {peer: np.frombuffer(data, "<f8").reshape(own.shape) for peer, data in received.items()}
        return [own if m == link.me else arrays[m] for m in range(link.M)]

    return publish


def _nnsvd(run: PartyRun, X: Rows, engine: Engine, agree: Agreement, link: Link, tau: int) -> State:
    """Topics from the singular vectors of all rows, by PD-SVD; the sign of each by two SecSums of norms."""
    run.note(f"nnsvd: PD-SVD, up to {tau} iterations")
    study, k = run.study, run.study.rank
    S_m = covariance(X, k, tau)
    bound = find_bound(run, S_m.norm_bound(), engine, link, X.shape[1])
    start = svd.start_by_sec_sum(X.shape[1], k, study.M, engine.sec_sum, agree)
    normed = showing(engine.normed_sum(bound, Shape(X.shape[1], k, tau)), run, *_seen_of_start(study))
    V = svd.pd_svd(S_m, start, svd.Settings(k, tau, 1e-6), normed, agree, clock=link.clock).V
    sizes = engine.sec_sum(nmf_start.sizes_by_sign(X.times(V)), bound.addend, "signs")
    return nmf_start.from_singular_vectors(V.T, sizes, k, agree)


def _own(checkpoint: Checkpoint) -> Any:
    if checkpoint.private is None:
        raise InputError("the checkpoint has no coefficients of this party.", "a checkpoint of PD-NMF")
    return checkpoint.private


def _facts(study: Study, result: nmf.Result, error: float | None) -> dict[str, Any]:
    """What the report says of a PD-NMF beyond what it says of every run."""
    state = result.state
    return {
        "rank": study.rank,
        "rank_found": study.rank - nmf.died(state),
        "iterations": state.t,
        "converged": state.stop == nmf.CONVERGED,
        "stop_reason": STOP_REASONS[state.stop],
        "topic_change": state.change,
        "squared_error": error,
        "start": {"kind": _start_kind(study), "seed": study.seed},
        "penalties": {name: getattr(study.nmf, name) for name in ("alpha", "beta", "gamma", "delta")},
    }
