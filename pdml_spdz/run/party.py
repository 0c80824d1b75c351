"""One party's run, from its files to its files. The same code on M hosts and in a local run."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.spec import Context, Note, OfflinePhase, OfflinePlan, shape_of
from pdml_spdz.engines.transcript import RecordedSum
from pdml_spdz.errors import PdmlError, PeerError, StudyError
from pdml_spdz.fits.fill import fit_filled
from pdml_spdz.fits.limits import blurs
from pdml_spdz.fits.prepare import agreed, expect, fitting
from pdml_spdz.rows.data import Data
from pdml_spdz.run import handshake, own_secret, repeats
from pdml_spdz.run.context import PartyRun, rows_of, stock_root
from pdml_spdz.run.output import Fitted, commit, two_parties
from pdml_spdz.run.resume import common, finished_everywhere
from pdml_spdz.study.algorithm import IDS
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import save_json
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Clock, Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.connect import Meeting, connect, listen
from pdml_spdz.transport.patience import Patience

TELLING_SECONDS = 60.0  # for which a party that cannot take part tries to say so


def run_party(run: PartyRun, link: Link | None = None) -> dict[str, Any]:
    """Run party `me` of the study to its end; returns its report.

    link : to parties that are connected already (threads of one process); otherwise they meet over the network
    """
    place = _Network(run) if link is None else _Connected(run, link)
    with ExitStack() as held:
        try:
            run.announce()
            run.study.engine_spec.ready(run.study, run.mp_spdz, stock_root(run.stock))
            held.enter_context(run.output())
            _check_kept(run)
            with place.clock("local"):
                data = _load(run)
            if isinstance(run.data, Path):
                held.callback(data.rows.close)
            run.note(data.summary())
            place.wait()
        except Exception as error:
            place.tell(error)
            raise
        link = held.enter_context(place.meet())
        session = handshake.meet(link, run.study, place.identity.fingerprints, resume=run.resume)
        data = handshake.compare_features(link, data, run.study, session)
        data.rows.follow(lambda done, of: run.notify({"event": "rows", "done": done, "of": of}))
        with link.clock("local"):
            data = agreed(data.looked_at(run.study.rows.missing), run.study)
            if run.resume and data.rows.lazy:
                run.checkpoints.check_resumable(run.study, data)
        for warning in data.warnings:
            run.note(warning)
        return run_fit(run, data, link, session, place.identity)


def run_fit(run: PartyRun, data: Data, link: Link, session: bytes, identity: Identity) -> dict[str, Any]:
    """The study's fit, and its results on the disk, once all parties have met; returns the report.

    A run that has finished everywhere is left as it is, unless the study asks for more than it did.
    """
    if run.resume and (report := finished_everywhere(link, run.directory, run.study)) is not None:
        run.note("the run has finished at every party, and nothing more is asked of it: it is left as it is")
        return report
    run.study.spec.accept(run.study, run.me, data)
    if run.resume:
        run = replace(run, checkpoint=common(link, run.checkpoints, run.kept))
    # A resumed run may have nothing left to do, and needs no program then.
    shape = None if run.checkpoint or not run.study.on_shares else run.study.spec.shape(run.study, data.d)
    run.study.engine_spec.prepare(context_of(run, link, session, identity), shape)
    if not run.resume:
        run.begin(data, session)
    elif run.checkpoint is None:
        run.note("no iteration was finished at every party: the fit starts, with what was opened before it")
    with closing(make_engine(run, link, session, identity)) as engine:
        fitted = _recorded(run, lambda: fit_filled(run, data, link, engine))
    fitted.report["id_column"] = run.reading.id_column  # for commands that read such rows again
    if data.ids is not None or data.kept is not None:
        save_json(run.directory / IDS, data.names(), private=True)
    commit(run.directory, fitted.arrays, fitted.report, run.transcript)
    return fitted.report


def _recorded(run: PartyRun, fit: Callable[[], Fitted]) -> Fitted:
    """What comes of the fit; the transcript, if one is wanted, is complete then, and kept also if the fit fails.

    A resumed run goes on with the older transcript.
    """
    path, transcript = run.directory / transcripts.FILE, run.transcript
    fit = _telling(run, fit)
    for warning in two_parties(run.study):
        run.note(warning)
    if transcript is None:
        return fit()
    run.note(f"RECORDING: {transcripts.WARNING}")
    if run.resume and path.is_file():
        transcript.entries[:0] = [*transcripts.load(path).entries, transcripts.Entry(transcripts.RESUMED)]
    for name in ("offsets", "scales"):
        if values := getattr(run.study, name):
            run.see(name, np.array(values))
    try:
        fitted = fit()
    except BaseException:
        transcript.save(path)
        raise
    report = fitted.report
    report["warnings"] = [*report["warnings"], transcripts.WARNING]
    report["transcript"] = transcript.counts()
    transcript.facts = report
    return fitted


def _telling(run: PartyRun, fit: Callable[[], Fitted]) -> Callable[[], Fitted]:
    """An error that ends the fit says what was opened before it."""

    def told() -> Fitted:
        try:
            return fit()
        except PdmlError as error:
            error.after(run.opened)
            raise

    return told


def make_stock(run: PartyRun, show: Callable[[OfflinePlan], object] = lambda plan: None) -> dict[str, Any]:
    """The offline phase of party `me`, with the others: a stock for one run of the study; returns what was made.

    show : is told the plan, before it is followed
    """
    phase = offline_phase(run.study)
    shape_of(run.study)  # StudyError, the same at all parties, before they meet
    with meeting(run, lambda: phase.ready(run.study, run.mp_spdz)) as (link, session, identity):
        context = context_of(run, link, session, identity)
        run.study.engine_spec.prepare(context, None)
        show(plan := offline_plan(run.study, run.mp_spdz, run.note))
        made = phase.make_stock(context, plan)
        traffic = link.offline_traffic
        return {
            "engine": run.study.engine,
            "party_id": run.me,
            "parties": run.study.M,
            "bytes_sent": traffic.bytes_sent,
            "rounds": traffic.rounds,
            "seconds": round(link.clock.seconds["offline"], 3),
        } | made


@contextmanager
def meeting(run: PartyRun, check: Callable[[], object] = lambda: None) -> Iterator[tuple[Link, bytes, Identity]]:
    """All parties of the study, who have found out that they mean the same thing: the link to them, the identity of
    this meeting, and this party's own.

    check : raises if this party cannot take part, of which the others are told
    """
    network = _Network(run)
    try:
        check()
    except Exception as error:
        network.tell(error)
        raise
    network.wait()
    with network.meet() as link:
        yield link, handshake.meet(link, run.study, network.identity.fingerprints, resume=False), network.identity


class _Network:
    """Where party `me` meets the others: its key, a listening socket, and their addresses."""

    def __init__(self, run: PartyRun) -> None:
        study, me = run.study, run.me
        if not 0 <= me < study.M:
            raise StudyError(f"--id is {me} and the study has {study.M} parties.", f"a number from 0 to {study.M - 1}")
        self.run, self.clock = run, Clock()
        self.identity = certs.load_identity(run.certs, me, handshake.required_fingerprints(study))
        self.listener = run.listener or self._listening()
        addresses = [(p.host, p.port) for p in study.parties]
        times = study.timeouts
        patience = Patience(times.round, times.work, times.least_rate)
        self.meeting = Meeting(me, addresses, self.identity, times.connect, patience, run.note, self._waiting)

    def _listening(self) -> socket.socket:
        """Where the others connect to this party. Nobody connects to the last one: its address may be a router's."""
        run, own = self.run, self.run.study.parties[self.run.me]
        try:
            return listen(*(run.listen or (own.host, own.port)))
        except PeerError as error:
            if run.listen or run.me < run.study.M - 1:
                raise
            run.note(f"{error.found} Nobody connects to the last party: it goes on")
            return listen("127.0.0.1", 0)

    def wait(self) -> None:
        others, seconds = self.meeting.M - 1, self.meeting.connect_timeout
        long = f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
        self.run.note(f"waiting up to {long} for the other {others} parties")

    def _waiting(self, missing: list[int], seconds: float) -> None:
        entries = self.run.study.parties
        names = [f"P{p} ({entries[p].name})" if entries[p].name else f"P{p}" for p in missing]
        self.run.notify({"event": "waiting", "missing": names, "of": len(entries), "seconds": round(seconds, 1)})

    @contextmanager
    def meet(self) -> Iterator[Link]:
        with connect(self.meeting, self.listener, self.clock) as link:
            self.run.note("all parties are connected")
            yield link

    def tell(self, error: Exception) -> None:
        """This party cannot take part: let the others know now rather than let them wait."""
        self.run.notify({"event": "failing", "class": type(error).__name__, "message": str(error)})
        # Those who come later see who is missing: nobody waits for hours to say that it cannot take part.
        meeting = replace(self.meeting, connect_timeout=min(self.meeting.connect_timeout, TELLING_SECONDS))
        self.run.note(f"telling the other parties, for up to {meeting.connect_timeout:g} s")
        try:
            connect(meeting, self.listener).__exit__(type(error), error, None)
        except PdmlError as unreachable:
            self.run.note(f"not all parties could be told: {unreachable.found}")


class _Connected:
    """The same for parties that are connected already, in one process and without keys."""

    def __init__(self, run: PartyRun, link: Link) -> None:
        self.link, self.clock = link, link.clock
        self.identity = Identity(run.me, run.certs, {})  # of use only to engines with processes of their own

    def wait(self) -> None:
        """They are here."""

    def meet(self) -> AbstractContextManager[Link]:
        return nullcontext(self.link)

    def tell(self, error: Exception) -> None:
        """Whoever made the link ends it, and that tells the others."""


def _check_kept(run: PartyRun) -> None:
    """What this party keeps beside all of its runs can be kept: found out before anything is opened."""
    if blurs(run.study):
        own_secret.load(run.own_secret)
    if run.study.level.sealed or run.study.spec.vector:
        repeats.check(run.repeats)


def _load(run: PartyRun) -> Data:
    """This party's rows, checked against the study."""
    study = run.study
    order = run.checkpoints.features() if run.resume else None
    data = fitting(rows_of(run.data, study, reading=run.reading.of(run.me)), study, order)
    expect(data, study)
    if run.resume and not data.rows.lazy:
        run.checkpoints.check_resumable(study, agreed(data, study))
    return data


def context_of(run: PartyRun, link: Link, session: bytes, identity: Identity) -> Context:
    """session : the public identity of the run"""
    return Context(run.study, link, session, identity, stock_root(run.stock), run.directory, run.mp_spdz, run.notify)


def make_engine(run: PartyRun, link: Link, session: bytes, identity: Identity) -> Engine:
    """The study's engine on this link."""
    engine = run.study.engine_spec.make(context_of(run, link, session, identity))
    if run.transcript is not None:
        engine.sec_sum = RecordedSum(engine.sec_sum, run.transcript)
    return engine


def offline_phase(study: Study) -> OfflinePhase:
    """That of the study's engine."""
    if study.engine_spec.offline is None or not study.on_shares:
        found = f"the study has engine {study.engine!r} and reveal {study.reveal!r}."
        raise StudyError(found, "an engine that has an offline phase, and programs on secret shares")
    return study.engine_spec.offline


def offline_plan(study: Study, home: Path | None, note: Note = lambda text: None) -> OfflinePlan:
    """What one run of the study takes from the offline phase, before there is any data. home : as `PartyRun.mp_spdz`"""
    return offline_phase(study).plan(study, shape_of(study), home, note)
