"""One party's run, from its files to its files. The same code on M hosts and in a local run."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

from pdml_spdz import certs, engines, fit_normed_sum, fit_svd, handshake
from pdml_spdz import data as data_files
from pdml_spdz.checkpoint import Checkpoints
from pdml_spdz.clock import Clock
from pdml_spdz.data import Data
from pdml_spdz.engines.base import Shape
from pdml_spdz.engines.embedded.engine import Options, Source, program_and_plan
from pdml_spdz.errors import InputError, PdmlError, StockError, StudyError
from pdml_spdz.job import PartyRun, stock_root
from pdml_spdz.offline.make import make
from pdml_spdz.offline.material import Material, OnDemand, Plan
from pdml_spdz.offline.spend import StockMaterial
from pdml_spdz.offline.stock import Kind, find
from pdml_spdz.precision import Precision
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.connect import Meeting, connect, listen

FITS = {"svd": fit_svd.fit, "normed-sum": fit_normed_sum.fit}


def run_party(run: PartyRun) -> dict[str, Any]:
    """Run party `me` of the study to its end; returns its report."""
    study, clock = run.study, Clock()
    meeting, listener = _meeting(run)
    try:
        run.prepare_output()
        with clock("local"):
            data = _load(run)
    except PdmlError as error:
        _tell(run, meeting, listener, error)
        raise
    run.note(data.summary())
    with _meet(run, meeting, listener, clock) as link:
        agreed = handshake.meet(link, study, resume=run.resume)
        handshake.compare_features(link, data)
        engine = engines.make(study.engine, link, agreed.run, engine_options(study, _source(run, agreed.run)))
        return FITS[study.algorithm](run, data, link, engine)


def make_stock(run: PartyRun) -> dict[str, Any]:
    """The offline phase of party `me`, with the others: a stock for one run of the study; returns what was made."""
    plan, kind = stock_plan(run.study)
    meeting, listener = _meeting(run)
    with _meet(run, meeting, listener, Clock()) as link:
        agreed = handshake.meet(link, run.study, resume=False)

        def progress(done: int, total: int, sent: int) -> None:
            run.notify({"event": "offline", "done": done, "of": total, "bytes": sent})

        stock = make(link, stock_root(run.stock), plan, kind, agreed.run, progress)
        traffic = link.offline_traffic
        return {
            "stock": stock.id,
            "party_id": run.me,
            "parties": run.study.M,
            "triples": plan.triples,
            "numbers": plan.numbers,
            "bytes_sent": sum(traffic.sent.values()),
            "rounds": traffic.rounds,
            "seconds": round(link.clock.seconds["offline"], 3),
            "path": str(stock.path),
        }


def _meeting(run: PartyRun) -> tuple[Meeting, socket.socket]:
    study = run.study
    if not 0 <= run.me < study.M:
        raise StudyError(f"--id is {run.me} and the study has {study.M} parties.", f"a number from 0 to {study.M - 1}")
    identity = certs.load_identity(run.certs, run.me, {i: p.fingerprint for i, p in enumerate(study.parties)})
    listener = run.listener or listen(*(run.listen or (study.parties[run.me].host, study.parties[run.me].port)))
    addresses = [(p.host, p.port) for p in study.parties]
    return Meeting(run.me, addresses, identity, study.timeouts.connect, study.timeouts.round, run.note), listener


def _meet(run: PartyRun, meeting: Meeting, listener: socket.socket, clock: Clock) -> Link:
    run.note(f"waiting up to {meeting.connect_timeout:g} s for the other {meeting.M - 1} parties")
    link = connect(meeting, listener, clock)
    run.note("all parties are connected")
    return link


def _tell(run: PartyRun, meeting: Meeting, listener: socket.socket, error: PdmlError) -> None:
    """This party cannot take part: let the others know now rather than let them wait."""
    run.notify({"event": "failing", "class": type(error).__name__, "message": str(error)})
    run.note(f"telling the other parties, for up to {meeting.connect_timeout:g} s")
    try:
        connect(meeting, listener).__exit__(type(error), error, None)
    except PdmlError as unreachable:
        run.note(f"not all parties could be told: {unreachable.found}")


def _load(run: PartyRun) -> Data:
    """This party's rows, checked against the study."""
    study = run.study
    data = data_files.load(run.data, vector=study.algorithm == "normed-sum")
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
    if study.algorithm == "svd" and study.rank > data.d:
        raise InputError(
            f"the rank asked for is {study.rank} and {run.data} has {data.d} columns.", "a rank of at most d"
        )
    if run.resume:
        Checkpoints(run.directory / "checkpoint").check_resumable(study, data)
    return data


def _source(run: PartyRun, session: bytes) -> Source:
    """Where this run takes its offline material from, as the study's `offline` says; all parties decide alike."""

    def source(link: Link, plan: Plan, p: Precision) -> Material:
        wanted = f"{plan.triples:,} triples, {plan.numbers:,} numbers"
        if run.study.offline != "on-demand":
            stocks = find(stock_root(run.stock), Kind(link.M, p.vector_bits, p.scalar_bits), link.me)
            material = StockMaterial(link, stocks, session)
            try:
                material.check(plan)
            except StockError as error:
                # `common`: raised at all parties alike, so that all of them take the other way.
                if run.study.offline == "stock" or not error.common:
                    raise
            else:
                run.note(f"offline material from a stock: at most {wanted}")
                return material
        run.note(f"offline material made in the run, no stock: at most {wanted}")
        return OnDemand(link, session, p.vector_bits, p.scalar_bits)

    return source


def engine_options(study: Study, source: Source) -> Options:
    """How the embedded engine is to run this study."""
    if study.algorithm == "normed-sum":
        return Options(_normed_sum_precision(study), "per-column", source, study.aggregator)
    precision = Precision(study.M, study.precision.bits, study.precision.range)
    return Options(precision, study.normalise, source, study.aggregator, study.online)


def stock_plan(study: Study) -> tuple[Plan, Kind]:
    """What one run of the study takes from the offline phase."""
    d = study.d or len(study.features)
    if study.engine != "embedded" or not d:
        raise StudyError(
            f"the study has engine {study.engine!r} and d = {d}.",
            "the engine embedded, which has an offline phase, and a number of features",
            "set `d` (or `features`) in the study (`init --dim D`), or pass --dim without a study",
        )
    options = engine_options(study, _no_source)
    k, tau = (study.rank, study.iterations) if study.algorithm == "svd" else (1, 1)
    _, _, plan = program_and_plan(options, Shape(d, k, tau))
    return plan, Kind(study.M, options.precision.vector_bits, options.precision.scalar_bits)


def _no_source(link: Link, plan: Plan, p: Precision) -> Material:
    raise StudyError("a plan needs no material.")


def _normed_sum_precision(study: Study) -> Precision:
    """For any vector and a random g: 1/(g.u) may be larger than between iterates, if the ring has room for it."""
    usual = Precision(study.M, study.precision.bits, study.precision.range)
    return max(
        (p for p in (replace(usual, H=h) for h in range(usual.H, 21)) if p.vector_bits == usual.vector_bits),
        key=lambda p: p.H,
    )
