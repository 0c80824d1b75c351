"""One party's PD-NMF: bound, start, sweeps with checkpoints, files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.algorithms import nmf, nmf_start, svd
from pdml_spdz.algorithms.nmf import STOP_REASONS, SweepSettings, SweepState, pd_nmf_iter, verdict
from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.algorithms.solver import Fitting, SvdSettings, start_by_sec_sum
from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.fits import prepare
from pdml_spdz.fits.limits import find_bound
from pdml_spdz.fits.loop import IterativeFit, nearby, opened_columns
from pdml_spdz.fits.prepare import View, view
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import SecSum, check_size
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.covariance import covariance
from pdml_spdz.rows.data import Data
from pdml_spdz.run.checkpoints import KEPT, Checkpoint
from pdml_spdz.run.context import PartyRun, showing
from pdml_spdz.run.output import Fitted
from pdml_spdz.study.algorithm import SQUARES, SUMS, Algorithm, Shape, Want
from pdml_spdz.study.engines import engines_that
from pdml_spdz.study.fields import check_choice
from pdml_spdz.study.levels import SUM
from pdml_spdz.study.model import INITS, W_STARTS, Study
from pdml_spdz.system.files import save_array
from pdml_spdz.transport.base import Link

NOT_PRIVATE = "NOT PRIVATE: --init best_of_M shows every party's own topics to all others; for comparison only"
ADDENDS = "W_t^T R_t (d numbers) and ||W_t||^2"
NOTE = (
    "the sums that every party has seen, topic by topic, are over all rows, and one record can show in them: of a "
    "small party most records were distinguishable to whoever knows its part of the sums (docs/privacy-results.md). "
    "`pdml-spdz privacy assess FILE --algorithm nmf --rank K` measures one's own records, --exclude leaves some out"
)
OBJECTIVE = "||X - W T||_F^2 at the end"


def fit(run: PartyRun, data: Data, link: Link, engine: Engine) -> Fitted:
    """PD-NMF of all rows, scaled as the study has it."""
    return NmfFit(run, data, link, engine, view(run, data, link, engine)).fitted()


class NmfFit(IterativeFit[SweepState, nmf.SweepResult]):
    """PD-NMF: sweeps over all topics, from a start that the study chooses."""

    step = "sweep"

    def __init__(self, run: PartyRun, data: Data, link: Link, engine: Engine, rows: View) -> None:
        super().__init__(run, data, link, engine, rows)
        self.part = part(rows.X, self.study.rank, weighted=self.study.nmf.weighted)

    @property
    def settings(self) -> SweepSettings:
        return settings_of(self.study, self.bound.total)

    @property
    def published(self) -> bool:
        """Whether the start shows every party's own topics."""
        return _start_kind(self.study) == "best_of_M"

    def norm(self) -> float:
        return self.part.norm()

    def start(self) -> SweepState:
        run, settings = self.run, self.settings
        nmf.check_size(self.norm(), settings, self.engine.sec_sum.accuracy(1.0))
        state = _start(run, self.rows.X, self.link, self.engine, self.agree, settings)
        save_array(run.directory / "T0.npy", state.T)
        run.see("T0", state.T)
        if self.study.nmf.w_start == "nnls":
            with self.link.clock("local"):
                self.part.fit(state.T, settings.penalties)
        return state

    def saved(self, state: SweepState) -> Checkpoint:
        meta = {name: value for name, value in asdict(state).items() if name != "T"}
        kept = self.part.kept(self._place(state.t))
        shutil.rmtree(self._place(state.t - KEPT), ignore_errors=True)
        return Checkpoint(state.t, state.T, meta, self.bound, kept)

    def _place(self, t: int) -> Path:
        """Where a checkpoint's W is, if it is in many pieces."""
        return self.run.directory / "checkpoint" / f"W-{t}"

    def restored(self, checkpoint: Checkpoint) -> SweepState:
        meta = dict(checkpoint.meta)
        state = SweepState(T=checkpoint.V, strikes=tuple(meta.pop("strikes")), **meta)
        place = self._place(checkpoint.t)
        if checkpoint.private is None and not place.is_dir():
            raise InputError("the checkpoint has no coefficients of this party.", "a checkpoint of PD-NMF")
        self.part.restore_kept(checkpoint.private, place, state.T)
        return state

    def verdict(self, state: SweepState) -> int:
        return verdict(state, self.settings)

    def verdicts(self, state: SweepState) -> set[int]:
        return {verdict(state, replace(self.settings, tol=tol)) for tol in nearby(self.study.tol, self.data.d)}

    def iterate(self, state: SweepState, done: Callable[[SweepState], None]) -> nmf.SweepResult:
        def seen(state: SweepState) -> None:
            self.run.see("T", state.T)
            done(state)

        sec_sum = ShownSum(self.engine.sec_sum, self.run, *_seen_of_sweeps(self.study))
        result = pd_nmf_iter(self.part, state, self.settings, sec_sum, self.agree, clock=self.link.clock, done=seen)
        return replace(result, warnings=[NOT_PRIVATE, *result.warnings]) if self.published else result

    def arrays(self, result: nmf.SweepResult) -> dict[str, Reals]:
        return {"T.npy": result.T} | self.part.results(self.run.directory / "W", self.data.ids)

    def facts(self, result: nmf.SweepResult) -> dict[str, Any]:
        study, state = self.study, result.state
        return {
            "insecure": self.engine.insecure or self.published,
            "rank": study.rank,
            "rank_found": study.rank - nmf.died(state),
            "iterations": state.t,
            "converged": state.stop == nmf.CONVERGED,
            "stop_reason": STOP_REASONS[state.stop],
            "topic_change": state.change,
            "squared_error": self._objective(result.T) if study.nmf.objective else None,
            "start": {"kind": _start_kind(study), "seed": study.seed},
            "weighted": study.nmf.weighted,
            "penalties": {name: getattr(study.nmf, name) for name in ("alpha", "beta", "gamma", "delta")},
        }

    def observables(self) -> list[str]:
        return observables(self.study)

    def _objective(self, T: Reals) -> float:
        error = self.engine.sec_sum.positive(np.array([self.part.error(T)]), "objective")
        self.run.show(OBJECTIVE)
        return float(error[0])


def accept(study: Study, m: int, data: Data) -> None:
    """NMF is for numbers that are zero or more."""
    prepare.accept(study, m, data)
    negative = data.rows.negative
    if negative:
        raise InputError(
            f"{data.source} has {negative:,} negative entries.",
            "non-negative rows",
            "use svd or pca, or shift the columns",
        )


def settings_of(study: Study, bound: float) -> SweepSettings:
    s = study.nmf
    penalties = Penalties(s.alpha, s.beta, s.gamma, s.delta)
    return SweepSettings(study.iterations, study.tol, bound, penalties, s.weighted, s.paper_order)


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
    addends, which = f"{ADDENDS} ({_den(study)})", "of every topic t in every sweep"
    if study.engine_spec.in_the_clear:
        return f"every party's own {addends} {which}", "T after every sweep"
    return f"{addends}, summed over all rows, {which}", "T after every sweep"


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


def _start(run: PartyRun, X: Rows, link: Link, engine: Engine, agree: Agreement, settings: SweepSettings) -> SweepState:
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


def _nnsvd(run: PartyRun, X: Rows, engine: Engine, agree: Agreement, link: Link, tau: int) -> SweepState:
    """Topics from the singular vectors of all rows, by PD-SVD; the sign of each by two SecSums of norms."""
    run.note(f"nnsvd: PD-SVD, up to {tau} iterations")
    study, k = run.study, run.study.rank
    S_m = covariance(X, k, tau)
    bound = find_bound(run, S_m.norm_bound(), engine, link, Data(X, None, "the rows"))
    start = svd.PowerState(start_by_sec_sum(X.shape[1], k, study.M, engine.sec_sum, agree))
    normed = opened_columns(run, engine, bound, Shape(X.shape[1], k, tau), seen=_seen_of_start(study))
    V = svd.pd_svd(Fitting(S_m, normed, agree, link.clock), start, SvdSettings(k, tau, 1e-6)).V
    sizes = engine.sec_sum(nmf_start.sizes_by_sign(X.times(V)), bound.addend, "signs")
    return nmf_start.from_singular_vectors(V.T, sizes, k, agree)


def check(study: Study, want: Want) -> None:
    if not study.level.shows_sums:
        engines = engines_that(lambda e: SUM.name in e.levels)
        needs = f"{SUM.name}, which the engine {engines} can do: PD-NMF needs sums, not directions"
        raise StudyError(f"`reveal` is {study.reveal!r} for nmf.", needs)
    want(
        not any(study.offsets), "`offsets` are given for nmf.", "scales only: rows less an offset have negative entries"
    )
    for name, choices in (("init", INITS), ("w_start", W_STARTS)):
        check_choice(f"nmf.{name}", getattr(study.nmf, name), choices)


def reference(result: Any, files: list[Path]) -> dict[str, Any]:
    """RRI-NMF of the pooled files, from the start that the run had."""
    from pdml_spdz.fits.accuracy import nmf_accuracy  # only where one machine has all files

    start = np.load(result.out / "party-0" / "T0.npy")
    return nmf_accuracy(result.V, start, result.report["iterations"], result.study, files, result.rows_of_file)


HELP = """Topics: a non-negative factorisation of the rows of all FILES, one party for each file.

Every party keeps its own coefficients W (party-<i>/W.npy); the topics T are common. Parties see, for every topic
and sweep, sums over all rows (docs/security.md).

\b
Examples:
  pdml-spdz nmf a.npz b.npz c.npz --rank 20
  pdml-spdz nmf a.npz b.npz --rank 7 --weighted --beta 1 --delta 1     ratings: what is not stored is missing
  pdml-spdz nmf a.csv b.csv --rank 5 --init random --objective --json
"""

NMF = Algorithm(
    "nmf",
    fit,
    result="T.npy",
    unit="topics",
    title="Topics",
    label="topic",
    table="topics.csv",
    by_row=True,
    change="no topic changes by more in a sweep (l1)",
    kept=("W.npy", "scale.npy", "fill.npy"),
    starts=("centre.npz", "missing.npz", "T0.npy", "W"),
    needs=SUMS,
    signed=False,
    own=("nmf",),
    idle=(
        "solver",
        "memory",
        "protocol",
        "program",
        "insecure_benchmark",
        "normalise",
        "online",
        "offline",
        "vole",
        "precision",
    ),
    defaults={"iterations": 200, "tol": 1e-6},
    measure=SQUARES,
    check=check,
    accept=accept,
    note=NOTE,
    reveals=observables,
    of_two=lambda study: {"its W_t^T R_t and ||W_t||^2 of every topic in every sweep": True},
    reference=reference,
    help=HELP,
)
