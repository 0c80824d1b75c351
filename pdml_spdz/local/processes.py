"""A whole study on one machine: M party processes on loopback, with the study,
certificates and code that M hosts would use.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import StudyError
from pdml_spdz.fits import prepare
from pdml_spdz.local.crew import Crew, run_crew
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.data import Data, columns_of, vector_settings
from pdml_spdz.rows.formats import save
from pdml_spdz.rows.make import RowsLike
from pdml_spdz.run.output import FEATURES, RESULTS, commit, finished, refuse_finished
from pdml_spdz.study.model import PartyEntry, Study, choose_engine
from pdml_spdz.system.files import locked

Event = dict[str, Any]
KEPT = (*FEATURES, "W.npy")


@dataclass(frozen=True)
class LocalRun:
    """One file of rows for each party, the study without its parties, and where results go."""

    files: Sequence[Path]
    study: Study
    out: Path
    resume: bool = False
    force: bool = False
    stock: Path | None = None
    notify: Callable[[int, Event], None] = field(default=lambda party, event: None)
    environment: Callable[[int], dict[str, str]] = field(default=lambda party: {})
    mp_spdz: Path | None = None
    record_transcript: bool = False


@dataclass(frozen=True)
class LocalResult:
    """V : the result, whatever the algorithm calls it."""

    V: Reals
    study: Study
    report: dict[str, Any]
    party_reports: list[dict[str, Any]]
    out: Path
    arrays: dict[str, list[Reals]]  # what every party keeps besides, by name: its own W, the common mean
    transcript: Transcript | None = None  # of a recorded run: what any party saw

    @property
    def mean(self) -> Reals | None:
        """Of all rows, if the run showed it."""
        return self.arrays.get("mean.npy", [None])[0]

    @property
    def scale(self) -> Reals | None:
        """What each feature was divided by, if SecSum found it."""
        return self.arrays.get("scale.npy", [None])[0]

    def prepared(self, data: Data) -> Rows:
        """Rows as this run has factorised them, but for centring."""
        rows = prepare.moved(data.as_in(self.report), self.study)
        return rows if self.scale is None else rows.over(self.scale)


def local_study(parties: int, **settings: Any) -> Study:
    """A study for parties on this machine; what the engine reveals is filled in here, ports when the run starts.

    settings : of a Study; `offsets` and `scales` may also be what `data.vector` takes
    """
    settings["engine"], settings["reveal"] = choose_engine(
        settings.get("engine"), settings.get("reveal"), settings.get("algorithm", "svd")
    )
    return Study(parties=tuple(PartyEntry() for _ in range(parties)), **vector_settings(settings))


def run_on_rows(
    parties: Sequence[RowsLike | str | Path], study: Study, out: str | Path | None = None, **options: Any
) -> LocalResult:
    """`run_local` on arrays, or on files; what the parties write is kept in `out` only, if anywhere.

    options : any of LocalRun's
    """
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as private:
        files = [_as_file(rows, m, Path(private) / f"rows-{m}") for m, rows in enumerate(parties)]
        target = Path(private) / "out" if out is None else Path(out)
        return run_local(LocalRun(files, study, target, **options))


Compare = Callable[[LocalResult], dict[str, Any]]


def run_local(run: LocalRun, compare: Compare | None = None) -> LocalResult:
    """Run all parties to the end; raises the error of the party that failed first.

    compare : what the report is to say of the result's accuracy
    """
    if len(run.files) != run.study.M:
        raise StudyError(f"{len(run.files)} files for {run.study.M} parties.", "one file for each party")
    crew = Crew(run.study, run.out, lambda m, study: _command(run, m, study), run.notify, run.environment)
    with locked(run.out):
        refuse_finished(run.out, allowed=run.force or run.resume)
        result = _gathered(run, run_crew(crew))
        kept = finished(run.out)
        # The parties have left a finished run as it was, and so it is here.
        same = kept is not None and {name: kept[name] for name in kept if name != "accuracy"} == result.report
        if kept is not None and same:
            result.report.update(kept)
        if compare is not None and "accuracy" not in result.report:
            result.report["accuracy"] = compare(result)
        if not same:
            commit(run.out, {RESULTS[run.study.algorithm]: result.V}, result.report)
    return result


def _gathered(run: LocalRun, reports: list[dict[str, Any]]) -> LocalResult:
    """What the parties have left on the disk."""
    parts = [run.out / f"party-{m}" for m in range(run.study.M)]
    V = np.load(parts[0] / RESULTS[run.study.algorithm])
    arrays = {name: [np.load(p / name) for p in parts] for name in KEPT if (parts[0] / name).exists()}
    recorded = run.record_transcript and (parts[0] / transcripts.FILE).exists()
    seen = transcripts.load(parts[0] / transcripts.FILE) if recorded else None
    return LocalResult(V, run.study, joint_report(reports), reports, run.out, arrays, seen)


def _as_file(rows: RowsLike | str | Path, m: int, stem: Path) -> Path:
    """Rows on their way to party m's process, with the names of their columns."""
    if isinstance(rows, str | Path):
        return Path(rows)
    X, features = (rows.X, rows.features) if isinstance(rows, Data) else columns_of(rows, f"the rows of P{m}")
    return save(stem, X, features)


def _command(run: LocalRun, m: int, study: Path) -> list[str]:
    arguments = ["party", str(study), "--id", str(m), "--data", str(run.files[m]), "--out", str(run.out)]
    if run.stock is not None:
        arguments += ["--stock", str(run.stock)]
    if run.mp_spdz is not None:
        arguments += ["--mp-spdz", str(run.mp_spdz)]
    arguments += ["--record-transcript"] * run.record_transcript
    return arguments + ["--resume"] * run.resume + ["--force"] * run.force


def joint_report(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Party 0's report with what only all of them say: no party's own, the slowest and largest of all, all warnings."""
    joint = dict(reports[0])
    joint.update(party_id=None, rows_own=None)
    joint["bytes_sent"] = [r["bytes_sent"] for r in reports]
    joint["bytes_received"] = [r["bytes_received"] for r in reports]
    joint["warnings"] = list(dict.fromkeys(warning for r in reports for warning in r["warnings"]))
    joint["peak_memory"] = max(r["peak_memory"] for r in reports)
    return joint
