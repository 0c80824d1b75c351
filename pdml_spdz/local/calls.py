"""A function of the Python interface, from its keywords to its result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from pdml_spdz.engines.transcript import Transcript, warn_of_recording
from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.local.joint import LocalRun, gathered, local_study, run_local
from pdml_spdz.local.returned import NMFResult, NormedSumResult, PCAResult, SVDResult, result_of
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.reading import Reading
from pdml_spdz.rows.suspects import warn_of_columns
from pdml_spdz.run.context import Event, PartyRun, rows_of
from pdml_spdz.study.file import load
from pdml_spdz.study.model import Study

OPTIONS = tuple(f.name for f in fields(LocalRun) if f.name not in ("parties", "study", "notify", "environment"))
PATHS = ("certs", "out", "stock", "mp_spdz")
CALLER = 4  # the frame of the user's call: below it are the check of its keywords, the function, and `run_all`

Parties: TypeAlias = Sequence[RowsLike | str | Path]
Progress: TypeAlias = bool | Callable[[int, Event], None]
P = ParamSpec("P")
T = TypeVar("T")


def checking_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """The function, with a hint where a keyword is misspelt."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*arguments: P.args, **keywords: P.kwargs) -> T:
        for name in keywords:
            if name not in known:
                found = f"{function.__name__}() got an unexpected keyword argument {name!r}"
                raise TypeError("; ".join(text for text in (found, did_you_mean(name, known)) if text))
        return function(*arguments, **keywords)

    return checked


def run_all(algorithm: str, given: dict[str, Any]) -> Any:
    """Run all parties on this machine. given : all parameters of the function, by name"""
    given = _with_paths(given)
    parties, progress = list(given.pop("parties")), given.pop("progress")
    options = {name: given.pop(name) for name in OPTIONS if name in given}
    if given.get("start") is None:
        given["start"] = "secsum" if given.get("seed") is None else "seed"
    study = local_study(len(parties), algorithm=algorithm, **given)
    if options["record_transcript"]:
        warn_of_recording(CALLER)
    with _watching(progress) as notify:
        done = run_local(LocalRun(parties, study, notify=notify, **options))
    warn_of_columns(done.report["warnings"], CALLER)
    return result_of(done)


def _run_one(given: dict[str, Any]) -> Any:
    """Run one party over the network. given : all parameters of the function, by name"""
    from pdml_spdz.results import result_page
    from pdml_spdz.run.output import kept_result
    from pdml_spdz.run.party import (
        run_party as run_here,  # with all fits and engines: the functions above start others for them
    )

    given = _with_paths(given)
    study, me, data, progress, recorded = (
        given.pop(name) for name in ("study", "party_id", "data", "progress", "record_transcript")
    )
    agreed, beside = (study, Path()) if isinstance(study, Study) else (load(Path(study)), Path(study).parent)
    given["certs"] = given["certs"] or beside / "certs"
    rows = (
        Path(data)
        if isinstance(data, str | Path)
        else rows_of(data, agreed, f"the table of P{me}", given["reading"].of(me))
    )
    if recorded:
        warn_of_recording(CALLER)
    with _watching(progress) as watch:
        transcript = Transcript() if recorded else None
        run = PartyRun(agreed, me, rows, **given, notify=lambda event: watch(me, event), transcript=transcript)
        report = run_here(run)
    result_page.write(run.directory, report, kept_result(run.directory, report), private=True)
    warn_of_columns(report["warnings"], CALLER)
    return result_of(gathered(agreed, [run.directory], [report], recorded=recorded))


def _with_paths(given: dict[str, Any]) -> dict[str, Any]:
    return given | {name: Path(given[name]) for name in PATHS if given.get(name) is not None}


def _watching(progress: Any) -> AbstractContextManager[Callable[[int, Event], None]]:
    if progress is True:
        from pdml_spdz.local.progress import Screen, Watcher

        return Watcher(Screen(stderr=True))
    if progress is None or progress is False:
        return nullcontext(lambda party, event: None)
    if not callable(progress):
        raise StudyError(f"`progress` is {progress!r}.", "True, False, or a function of a party's number and an event")
    return nullcontext(progress)


@checking_keywords
def run_party(
    study: Study | str | Path,
    party_id: int,
    data: RowsLike | str | Path,
    *,
    certs: str | Path | None = None,
    out: str | Path = "runs/party",
    listen: tuple[str, int] | None = None,
    resume: bool = False,
    force: bool = False,
    stock: str | Path | None = None,
    mp_spdz: str | Path | None = None,
    record_transcript: bool = False,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    progress: Progress = False,
) -> SVDResult | PCAResult | NMFResult | NormedSumResult:
    """One party of a study over the network, as `pdml-spdz party`; the others run theirs. The result is of the class
    that belongs to the study's algorithm.

    Parameters
    ----------
    study : the study that all parties agreed on, or its file
    party_id : which party of the study this is, counted from 0
    data : this party's rows: an array (n_m, d), a scipy.sparse matrix, a pandas or Arrow table, or a path
    certs : directory of this party's key and of the others' certificates; by default certs/ beside the study's file
    out : directory; the files of this party are written to out/party-<party_id>
    listen : host and port to listen on instead of the study's
    reading : how this party's file is written
    resume, force, stock, mp_spdz, record_transcript, progress : as in `svd`
    """
    found: SVDResult | PCAResult | NMFResult | NormedSumResult = _run_one(locals())
    return found
