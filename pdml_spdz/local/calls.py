"""A function of the Python interface, from its keywords to its result."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from pdml_spdz.engines.transcript import Transcript, warn_of_recording
from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.local.joint import Event, LocalRun, gathered, local_study, run_local
from pdml_spdz.local.result_classes import result_of
from pdml_spdz.rows import suspects
from pdml_spdz.run.context import PartyRun, rows_of
from pdml_spdz.study.file import load
from pdml_spdz.study.model import Study

OPTIONS = tuple(f.name for f in fields(LocalRun) if f.name not in ("parties", "study", "notify", "environment"))
PATHS = ("certs", "out", "stock", "mp_spdz")
CALLER = 4  # the frame of the user's call: below it are the check of its keywords, the function, and `run_all`

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
    for text in suspects.among(done.report["warnings"]):
        warnings.warn(text, UserWarning, stacklevel=CALLER)
    return result_of(done)


def run_one(given: dict[str, Any]) -> Any:
    """Run one party over the network. given : all parameters of the function, by name"""
    from pdml_spdz.run.party import run_party  # with all fits and engines: the functions above start others for them

    given = _with_paths(given)
    study, me, data, progress, recorded = (
        given.pop(name) for name in ("study", "party_id", "data", "progress", "record_transcript")
    )
    agreed, beside = (study, Path()) if isinstance(study, Study) else (load(Path(study)), Path(study).parent)
    given["certs"] = given["certs"] or beside / "certs"
    rows = Path(data) if isinstance(data, str | Path) else rows_of(data, agreed, f"the rows of P{me}")
    if recorded:
        warn_of_recording(CALLER)
    with _watching(progress) as watch:
        transcript = Transcript() if recorded else None
        run = PartyRun(agreed, me, rows, **given, notify=lambda event: watch(me, event), transcript=transcript)
        report = run_party(run)
    for text in suspects.among(report["warnings"]):
        warnings.warn(text, UserWarning, stacklevel=CALLER)
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
