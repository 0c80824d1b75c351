"""A whole study on this machine, its parties processes or threads: what they are given, and what they leave.

Settings and rows are checked before a party starts; what each party does then is `run.party.run_party`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import EngineError, InputError, MismatchError, StudyError
from pdml_spdz.fits import prepare
from pdml_spdz.local.private import private_directory
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.registry import Line, Registry
from pdml_spdz.rows.base import Rows, RowsLike
from pdml_spdz.rows.coefficients import read_parquet_parts
from pdml_spdz.rows.data import Data, in_pieces, vector_settings
from pdml_spdz.rows.reading import READ_AS_FOUND, Reading
from pdml_spdz.run.context import Event, rows_of, stock_root
from pdml_spdz.run.output import commit, finished, kept_result, refuse_finished
from pdml_spdz.study.algorithm import DEFAULT
from pdml_spdz.study.model import PartyEntry, Study, choose_engine
from pdml_spdz.system.files import locked, reading

Reports = list[dict[str, Any]]
SUMMED = ("bytes_sent", "bytes_received")
BY_PARTY = ("seconds", *SUMMED, "rounds", "peak_memory")  # never how many rows a party has


@dataclass(frozen=True)
class LocalRun:
    """What all parties of a run on this machine are given.

    parties : for each party its rows, or the file that holds them
    study : without hosts and ports
    out : directory for results; None: what the parties write goes with the run
    resume : go on from the last finished iteration in `out`
    force : replace a finished run in `out`
    stock : directory of offline stocks
    notify : called with a party's number and an event, one call at a time
    environment : variables of party m's process
    mp_spdz : where MP-SPDZ is
    record_transcript : keep what the parties see
    transport : "processes" or "threads"
    reading : how the parties' files are written
    """

    parties: Sequence[RowsLike | str | Path] = field(repr=False)
    study: Study
    out: Path | None = None
    resume: bool = False
    force: bool = False
    stock: Path | None = None
    notify: Callable[[int, Event], None] = field(default=lambda party, event: None)
    environment: Callable[[int], dict[str, str]] = field(default=lambda party: {})
    mp_spdz: Path | None = None
    record_transcript: bool = False
    transport: str = "processes"
    reading: Reading = READ_AS_FOUND


TRANSPORTS: Registry[Callable[[LocalRun, Sequence[Path | Data], Path], Reports]] = Registry(
    "transport",
    {
        "processes": Line("pdml_spdz.local.supervisor:run_processes"),
        "threads": Line("pdml_spdz.local.threads:run_threads"),
    },
)


@dataclass(frozen=True, repr=False)
class LocalResult:
    """What all parties have come to.

    V : the result, whatever the algorithm calls it
    study : what was run
    report : of all parties
    party_reports : of each party
    out : directory of the results; there no longer, if the run was given none
    arrays : what every party keeps besides, by the names of their files: its own W, the common mean
    transcript : of a recorded run, what any party saw
    reading : how the parties' files were read
    files : which they were, where they were files
    """

    V: Reals
    study: Study
    report: dict[str, Any]
    party_reports: Reports
    out: Path
    arrays: dict[str, list[Reals]]
    transcript: Transcript | None = None
    reading: Reading = READ_AS_FOUND
    files: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return f"LocalResult({summary(self.study.spec.result, self.V, self.report)})"

    @property
    def mean(self) -> Reals | None:
        """Of all rows, if the run showed it."""
        return self.arrays.get("mean.npy", [None])[0]

    @property
    def scale(self) -> Reals | None:
        """What each feature was divided by, if SecSum found it."""
        return self.arrays.get("scale.npy", [None])[0]

    def rows_of_file(self, path: Path) -> Rows:
        """A party's file as this run has factorised it, but for centring."""
        party = next((m for m, given in enumerate(self.files) if given == path), 0)
        data = rows_of(path, self.study, reading=self.reading.of(party)).looked_at(self.study.rows.missing)
        data = data.as_in(self.report)
        if self.study.spec.vector:
            return data.rows
        if data.holes:
            data = replace(data, rows=data.rows.filled(self.arrays["fill.npy"][0]))
        rows = prepare.moved(data, self.study)
        return rows if self.scale is None else rows.over(self.scale)


def study_of(parties: Sequence[PartyEntry], settings: dict[str, Any]) -> Study:
    """The study that these settings make; what the engine reveals is filled in here.

    settings : of a Study; `offsets` and `scales` may also be what `data.vector` takes
    """
    engine, reveal = (settings.get(name) for name in ("engine", "reveal"))
    engine, reveal = choose_engine(engine, reveal, settings.get("algorithm", DEFAULT))
    return Study(tuple(parties), **vector_settings(settings | {"engine": engine, "reveal": reveal}))


def local_study(parties: int, **settings: Any) -> Study:
    """A study for parties on this machine; their ports are filled in when the run starts."""
    return study_of([PartyEntry()] * parties, settings)


Compare = Callable[[LocalResult], dict[str, Any]]


def run_local(run: LocalRun, compare: Compare | None = None) -> LocalResult:
    """Run all parties to the end; raises the error of the party that failed first.

    compare : what the report is to say of the result's accuracy
    """
    run_parties, rows = TRANSPORTS[run.transport], checked(run)
    with nullcontext(run.out) if run.out else private_directory() as directory:
        out = Path(run.out or directory / "run")  # the directory itself is locked
        with locked(out):
            refuse_finished(out, allowed=run.force or run.resume)
            reports = run_parties(run, rows, out)
            parts = [out / f"party-{m}" for m in range(run.study.M)]
            result = gathered(run.study, parts, reports, recorded=run.record_transcript)
            if not run.out and (parts[0] / "W").is_dir() and "W.npy" not in result.arrays:
                result.arrays["W.npy"] = [_kept_array(p / "W.npy") for p in parts]  # it goes with the directory
            files = tuple(path if isinstance(path, str | Path) else None for path in run.parties)
            result = replace(result, reading=run.reading, files=files)
            kept = finished(out)
            # The parties have left a finished run as it was, and so it is here.
            same = kept is not None and {name: kept[name] for name in kept if name != "accuracy"} == result.report
            if kept is not None and same:
                result.report.update(kept)
            if compare is not None and "accuracy" not in result.report:
                result.report["accuracy"] = compare(result)
            if run.out and not same:
                commit(out, {run.study.spec.result: result.V} | _public(result), result.report)
                _for_people(result, parts)
    return result


def _public(result: LocalResult) -> dict[str, Reals]:
    """What every party has besides the result."""
    found = {"mean.npy": result.mean, "scale.npy": result.scale, "fill.npy": result.arrays.get("fill.npy", [None])[0]}
    return {name: array for name, array in found.items() if array is not None}


def _for_people(result: LocalResult, parts: Sequence[Path]) -> None:
    """Tables and pages: one for all, and each party's own. Here, in one process, not in each of the parties'."""
    from pdml_spdz.results import result_page  # not where nothing is kept

    result_page.write(result.out, result.report, result.V, private=False)
    for directory, report in zip(parts, result.party_reports, strict=True):
        result_page.write(directory, report, result.V, private=True)


def checked(run: LocalRun) -> list[Path | Data]:
    """The parties' rows, before anything is started for them: all that can be seen to be wrong is said now.

    Files are looked for, and read by their own parties.
    """
    study = run.study
    if study.engine_spec.needs_processes and run.transport == "threads":
        found = f"the engine {study.engine} needs processes."
        raise EngineError(found, "another engine, or parties that are processes")
    if len(run.parties) != study.M:
        raise StudyError(f"rows of {len(run.parties)} parties for {study.M} parties.", "rows for each party")
    study.engine_spec.ready(study, run.mp_spdz, stock_root(run.stock))
    rows = [_checked(given, run, m) for m, given in enumerate(run.parties)]
    widths = {m: data.d for m, data in enumerate(rows) if isinstance(data, Data)}
    if len(set(widths.values())) > 1:
        columns = ", ".join(f"{d} at P{m}" for m, d in widths.items())
        raise MismatchError(f"the rows have different numbers of columns: {columns}.", "the same columns everywhere")
    return rows


def _checked(given: RowsLike | str | Path, run: LocalRun, m: int) -> Path | Data:
    study = run.study
    if isinstance(given, str | Path):
        if not Path(given).is_file() and not in_pieces(Path(given), run.reading):
            raise InputError(f"{given} is not there.", "a file with a party's rows", "check the path")
        return Path(given)
    data = prepare.fitting(rows_of(given, study, f"the table of P{m}", run.reading.of(m)), study)
    if run.transport != "threads":  # another process takes them as they are
        data = data.looked_at(study.rows.missing)
    if not data.rows.lazy:  # of which nobody has looked at all yet
        study.spec.accept(study, m, prepare.as_factorised(data, study))
    return data


def gathered(study: Study, parts: Sequence[Path], reports: Reports, *, recorded: bool) -> LocalResult:
    """What the parties, or one of them, have left on the disk. parts : their directories"""
    V = kept_result(parts[0], reports[0])
    there = [name for name in study.spec.kept if any((p / name).exists() for p in parts)]
    arrays = {name: [_kept_array(p / name) for p in parts] for name in there}
    written = parts[0] / transcripts.FILE
    seen = transcripts.load(written) if recorded and written.exists() else None
    report = joint_report(reports) if len(reports) == study.M else reports[0]
    return LocalResult(V, study, report, reports, parts[0].parent, arrays, seen)


def _kept_array(path: Path) -> Reals:
    """Where another party's W is one array, that of rows that were not loaded whole is read for it, too."""
    place = path if path.exists() else path.with_suffix("")
    with reading(place, "what a party has written", "take it from a copy, or run again"):
        return np.load(path, allow_pickle=False) if place == path else read_parquet_parts(place)


def joint_report(reports: Reports) -> dict[str, Any]:
    """One report for all parties: the keys of party 0's, with the same types, and `by_party`.

    Numbers of bytes are sums over the parties, `peak_memory` is the largest, `warnings` are everybody's; `party_id` and
    `rows_own` are None. What is not a party's own (d, iterations, ...) is the same in each; times are party 0's.
    """
    joint = dict(reports[0])
    joint.update(party_id=None, rows_own=None)
    joint |= {name: sum(r[name] for r in reports) for name in SUMMED}
    joint["offline"] = reports[0]["offline"] | {name: sum(r["offline"][name] for r in reports) for name in SUMMED}
    joint["traffic"] = {
        peer: {way: sum(r["traffic"].get(peer, {}).get(way, 0) for r in reports) for way in ("sent", "received")}
        for peer in (f"P{m}" for m in range(len(reports)))
    }
    for kind in ("warnings", "warnings_own"):
        joint[kind] = list(dict.fromkeys(warning for r in reports for warning in r[kind]))
    joint["peak_memory"] = max(r["peak_memory"] for r in reports)
    joint["by_party"] = {name: [r[name] for r in reports] for name in BY_PARTY}
    return joint


def summary(name: str, array: Reals, report: dict[str, Any]) -> str:
    """A run in one line, without its numbers."""
    parts = [f"{name} {array.shape}", f"{report['parties']} parties", f"engine {report['engine']}"]
    if "iterations" in report:
        parts.append(f"{report['iterations']} iterations{'' if report['converged'] else ', NOT converged'}")
    return ", ".join([*parts, f"reveals {report['reveal']}"])
