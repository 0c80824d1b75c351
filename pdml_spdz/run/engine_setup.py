"""From what a party brings to the engine that runs its study, and to the engine's offline phase."""

from __future__ import annotations

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.recording import RecordedSum
from pdml_spdz.engines.spec import Context, OfflinePhase
from pdml_spdz.errors import StudyError
from pdml_spdz.run.context import PartyRun, stock_root
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity


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
