"""One party's run, from its files to its files. The same code on M hosts and in a local run."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pdml_spdz import certs, engines, handshake
from pdml_spdz import data as data_files
from pdml_spdz.algorithms.svd import EXHAUSTED, Settings, State, pd_svd, start_by_sec_sum, start_by_seed
from pdml_spdz.checkpoint import Checkpoint, Checkpoints
from pdml_spdz.clock import Clock
from pdml_spdz.data import Data
from pdml_spdz.engines.base import Engine
from pdml_spdz.errors import InputError, PdmlError, StorageError, StudyError
from pdml_spdz.linalg import Covariance, covariance
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import Bound, bound_by_quotas, bound_by_sec_sum
from pdml_spdz.report import svd_report
from pdml_spdz.storage import save_array, save_json, writing
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connect import Meeting, connect, listen

Event = dict[str, Any]


@dataclass(frozen=True)
class PartyRun:
    """What one party brings to a run: the agreed study and its own paths and choices."""

    study: Study
    me: int
    data: Path
    certs: Path
    out: Path
    resume: bool = False
    force: bool = False
    listener: socket.socket | None = None
    listen: tuple[str, int] | None = None
    notify: Callable[[Event], None] = field(default=lambda event: None)

    @property
    def directory(self) -> Path:
        return self.out / f"party-{self.me}"

    def note(self, text: str) -> None:
        self.notify({"event": "note", "text": text})


def run_party(run: PartyRun) -> dict[str, Any]:
    """Run party `me` of the study to its end; returns its report."""
    study = run.study
    if not 0 <= run.me < study.M:
        raise StudyError(f"--id is {run.me} and the study has {study.M} parties.", f"a number from 0 to {study.M - 1}")
    _prepare_output(run)
    identity = certs.load_identity(run.certs, run.me, {i: p.fingerprint for i, p in enumerate(study.parties)})
    listener = run.listener or listen(*(run.listen or (study.parties[run.me].host, study.parties[run.me].port)))
    meeting = Meeting(
        run.me,
        [(p.host, p.port) for p in study.parties],
        identity,
        study.timeouts.connect,
        study.timeouts.round,
        run.note,
    )
    clock = Clock()
    try:
        with clock("local"):
            data = _load(run)
    except PdmlError as error:
        _tell(run, meeting, listener, error)
        raise
    run.note(data.summary())
    run.note(f"waiting up to {study.timeouts.connect:g} s for the other {study.M - 1} parties")
    with connect(meeting, listener, clock) as link:
        run.note("all parties are connected")
        agreed = handshake.meet(link, study, resume=run.resume)
        handshake.compare_features(link, data)
        return _fit_svd(run, data, link, engines.make(study.engine, link, agreed.run, study.aggregator))


def _tell(run: PartyRun, meeting: Meeting, listener: socket.socket, error: PdmlError) -> None:
    """This party cannot take part: let the others know now rather than let them wait."""
    run.notify({"event": "failing", "class": type(error).__name__, "message": str(error)})
    run.note(f"telling the other parties, for up to {meeting.connect_timeout:g} s")
    try:
        connect(meeting, listener).__exit__(type(error), error, None)
    except PdmlError as unreachable:
        run.note(f"not all parties could be told: {unreachable.found}")


def _prepare_output(run: PartyRun) -> None:
    done = run.directory / "report.json"
    if done.exists() and not (run.force or run.resume):
        raise StorageError(
            f"{run.directory} already holds a finished run.",
            do="choose another --out, pass --force to replace it, or --resume to go on from it",
        )
    with writing(run.directory):
        run.directory.mkdir(parents=True, exist_ok=True)
        if not run.resume:
            for name in ("report.json", "V.npy", "V0.npy"):
                (run.directory / name).unlink(missing_ok=True)


def _load(run: PartyRun) -> Data:
    """This party's rows, checked against the study."""
    study, data = run.study, data_files.load(run.data)
    wanted = study.d or len(study.features)
    if wanted and data.d != wanted:
        raise InputError(f"{run.data} has {data.d} columns.", f"the study's {wanted} features")
    if study.features and data.features and data.features != study.features:
        i = next(i for i, (a, b) in enumerate(zip(data.features, study.features, strict=True)) if a != b)
        raise InputError(
            f"column {i + 1} of {run.data} is called {data.features[i]!r}.",
            f"the study's features in the study's order, here {study.features[i]!r}",
            "rename or reorder the columns",
        )
    if study.rank > data.d:
        raise InputError(
            f"the rank asked for is {study.rank} and {run.data} has {data.d} columns.", "a rank of at most d"
        )
    if run.resume:
        Checkpoints(run.directory / "checkpoint").check_resumable(study, data)
    return data


def _fit_svd(run: PartyRun, data: Data, link: Link, engine: Engine) -> dict[str, Any]:
    study, clock = run.study, link.clock
    settings = Settings(study.rank, study.iterations, study.tol)
    checkpoints = Checkpoints(run.directory / "checkpoint")
    agree = Agreement(link)
    with clock("local"):
        S_m = covariance(data.X, study.rank, study.iterations)  # noqa: N806
        if not run.resume:
            checkpoints.begin(study, data)
    if run.resume:
        checkpoint = checkpoints.common(link)
        state, bound = checkpoint.state, checkpoint.bound
        state = replace(state, stop=EXHAUSTED if state.t >= study.iterations else state.stop)
        run.note(f"resuming after iteration {state.t}")
    else:
        bound = _bound(run, S_m, engine)
        state = _start(study, data.d, engine, agree)
        save_array(run.directory / "V0.npy", state.V)

    def done(state: State) -> None:
        with clock("local"):
            checkpoints.save(Checkpoint(state, bound))
        run.notify({"event": "iteration", "t": state.t, "of": study.iterations, "change": state.change})

    began = time.perf_counter()
    result = pd_svd(S_m, state, settings, engine.normed_sum(bound), agree, clock=clock, done=done)
    loop = time.perf_counter() - began
    digest = agree.digest("result", result.V.tobytes())
    report = svd_report(study, engine, link, bound, result, rows=data.n, loop=loop, digest=digest)
    save_array(run.directory / "V.npy", result.V)
    save_json(run.directory / "report.json", report)
    return report


def _bound(run: PartyRun, S_m: Covariance, engine: Engine) -> Bound:  # noqa: N803
    quotas = run.study.quotas
    if quotas is None:
        return bound_by_sec_sum(S_m.norm_bound(), engine.sec_sum.exact)
    return bound_by_quotas(S_m.norm_bound(), run.me, quotas)


def _start(study: Study, d: int, engine: Engine, agree: Agreement) -> State:
    if study.seed is not None:
        return start_by_seed(d, study.rank, study.seed, agree)
    return start_by_sec_sum(d, study.rank, study.M, engine.sec_sum, agree)
