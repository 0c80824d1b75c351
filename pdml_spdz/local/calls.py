"""A function of the Python interface, from its keywords to its result, and what results there are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pdml_spdz.engines.transcript import Transcript, warn_of_recording
from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.local.joint import LocalResult, LocalRun, gathered, local_study, run_local, summary
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.suspects import warn_of_columns
from pdml_spdz.run.context import Event, PartyRun, rows_of
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
    warn_of_columns(done.report["warnings"], CALLER)
    return result_of(done)


def run_one(given: dict[str, Any]) -> Any:
    """Run one party over the network. given : all parameters of the function, by name"""
    from pdml_spdz.results.result_page import write_page
    from pdml_spdz.run.party import run_party  # with all fits and engines: the functions above start others for them

    given = _with_paths(given)
    study, me, data, progress, recorded = (
        given.pop(name) for name in ("study", "party_id", "data", "progress", "record_transcript")
    )
    agreed, beside = (study, Path()) if isinstance(study, Study) else (load(Path(study)), Path(study).parent)
    given["certs"] = given["certs"] or beside / "certs"
    rows = (
        Path(data)
        if isinstance(data, str | Path)
        else rows_of(data, agreed, f"the rows of P{me}", given["reading"].of(me))
    )
    if recorded:
        warn_of_recording(CALLER)
    with _watching(progress) as watch:
        transcript = Transcript() if recorded else None
        run = PartyRun(agreed, me, rows, **given, notify=lambda event: watch(me, event), transcript=transcript)
        report = run_party(run)
    write_page(run.directory, report)
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


class RunResult:
    """A run with a report."""

    report: dict[str, Any]

    @property
    def features(self) -> Names | None:
        """Names of the features, in the order of the result; None if the parties' rows have none."""
        return None if self.report["features"] is None else tuple(self.report["features"])

    def __repr__(self) -> str:
        """Shapes and names, never the data."""
        name, *others = (f.name for f in fields(self) if f.name != "report")  # type: ignore[arg-type]
        shown = [other for other in others if getattr(self, other) is not None]
        line = summary(name, getattr(self, name), self.report)
        return f"{type(self).__name__}({line}{'; ' if shown else ''}{', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class SVDResult(RunResult):
    """The right singular vectors of the pooled rows.

    V : (d, k) right singular vectors
    singular_values : (k,) if the run revealed them, else None
    report : what the run did, revealed and cost, as in report.json
    scale : (d,) what each feature was divided by, with scale="secsum"
    transcript : what any party saw, if the run was recorded
    features : names of the d features, in the order of V, or None
    """

    V: Reals
    singular_values: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class PCAResult(RunResult):
    """The principal components of the pooled rows.

    V : (d, k) principal components
    mean : (d,) mean of the pooled rows, or None if it is hidden
    explained_variance : (k,) if the run revealed it, else None
    report, scale, transcript, features : as in SVDResult
    """

    V: Reals
    mean: Reals | None
    explained_variance: Reals | None
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class NMFResult(RunResult):
    """A non-negative factorisation of the pooled rows.

    T : (k, d) topics, common to all parties
    W : (n_m, k) own coefficients of each party that ran on this machine
    report, scale, transcript, features : as in SVDResult
    """

    T: Reals
    W: list[Reals]
    report: dict[str, Any]
    scale: Reals | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True, repr=False)
class NormedSumResult(RunResult):
    """The direction of the sum of the parties' vectors.

    u : (d,) of length one
    report, transcript, features : as in SVDResult
    """

    u: Reals
    report: dict[str, Any]
    transcript: Transcript | None = None


KINDS: dict[str, type[RunResult]] = {
    "svd": SVDResult,
    "pca": PCAResult,
    "nmf": NMFResult,
    "normed-sum": NormedSumResult,
}


def result_of(done: LocalResult) -> Any:
    """The result class of the run's algorithm, with what the run found."""
    kind = KINDS.get(done.study.algorithm)
    if kind is None:  # an algorithm of another package
        return done
    report = done.report
    found: Mapping[str, Any] = {
        "V": done.V,
        "T": done.V,
        "u": done.V,
        "W": done.arrays.get("W.npy"),
        "mean": done.mean,
        "scale": done.scale,
        "singular_values": _numbers(report.get("singular_values")),
        "explained_variance": _numbers(report.get("explained_variance")),
        "report": report,
        "transcript": done.transcript,
    }
    return kind(**{f.name: found[f.name] for f in fields(kind)})  # type: ignore[arg-type]


def _numbers(values: Sequence[float] | None) -> Reals | None:
    return None if values is None else np.array(values)
