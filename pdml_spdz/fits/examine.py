"""A party's file read as a run would read it, without a network: what is in it, and what would end the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import SCALE, MismatchError, PdmlError, QuotaError
from pdml_spdz.fits import prepare
from pdml_spdz.fits.limits import heaviest, known_bound
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives import bound as bounds
from pdml_spdz.rows import data as data_files
from pdml_spdz.rows import missing as holes
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.covariance import covariance
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.names import Names, column, look_alike, quoted
from pdml_spdz.rows.reading import MEAN, Reading, RowSettings, RowsWanted
from pdml_spdz.study.algorithm import GRAM, SQUARES
from pdml_spdz.study.model import Study

OK, NOTE, PROBLEM = "ok", "note", "problem"
EMPTY = "empty"
KINDS = ("real", "whole", "zeros and ones", "constant", EMPTY)


@dataclass(frozen=True)
class RowFinding:
    """level : "ok", "note" (a run goes on) or "problem" (a run ends); error : its class, of a problem"""

    level: str
    what: str
    found: str
    error: str = ""


@dataclass(frozen=True)
class ColumnFacts:
    """One feature, as this party has it. kind : "empty", "constant", "zeros and ones", "whole" or "real"; of an empty
    one there is no least and no largest number.
    """

    name: str
    kind: str
    missing: int
    least: float | None
    largest: float | None


@dataclass
class Examined:
    """One file. Everything here is its party's own business."""

    file: str
    rows: int = 0
    sparse: bool = False
    features: Names | None = None
    columns: list[ColumnFacts] = field(default_factory=list)
    findings: list[RowFinding] = field(default_factory=list)

    @property
    def problem(self) -> RowFinding | None:
        return next((f for f in self.findings if f.level == PROBLEM), None)

    def note(self, level: str, what: str, found: str, error: str = "") -> None:
        self.findings.append(RowFinding(level, what, found, error))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def examine(
    path: Path, reading: Reading, agreed: RowSettings, study: Study | None = None, me: int | None = None
) -> Examined:
    """All that can be said of a file before anybody else is met; with a study, of whether it fits that."""
    found = Examined(str(path))
    settings = agreed if study is None else study.rows
    features = () if study is None else study.features
    vector = study is not None and study.spec.vector
    wanted = RowsWanted(reading, replace(settings, missing=MEAN), features)
    data = _tried(found, "reading", lambda: data_files.load(path, vector=vector, wanted=wanted).looked_at(MEAN))
    if data is None:
        return found
    found.rows, found.sparse, found.features = data.n, data.rows.sparse, data.features
    found.columns = _columns(data)
    kind = "sparse" if found.sparse else "dense"
    found.note(OK, "rows", f"{data.n:,} rows x {data.d:,} columns, {kind}; {_kinds(found.columns)}")
    if data.ids is not None:
        found.note(OK, "identifiers", f"{len(data.ids):,}, all different, kept aside")
    if data.holes:
        whole = replace(data, holes=False, warnings=())
        handled = holes.of_pass if data.rows.lazy else holes.handled
        filled = _tried(found, "missing", lambda: handled(whole, str(path), settings.missing))
        for warning in () if filled is None else filled.warnings:
            found.note(NOTE, "missing", warning)
        data = filled or data
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that are too large, which is said
        if study is not None:
            _against(found, data, study, me)
        else:
            _size(found, replace(data, rows=data.known))
            _suspects(found, prepare.suspects(data, data, None))
    return found


def compare_names(files: Sequence[Examined], *, by_position: bool = False) -> None:
    """Files of several parties have the same names, in whatever order, or none; the first one is what is compared."""
    first = next((f for f in files if f.rows), None)
    for other in [f for f in files if f.rows and f is not first]:
        assert first is not None
        if (first.features is None) != (other.features is None) or len(first.columns) != len(other.columns):
            text = f"{_width(other)}; {first.file} has {_width(first)}"
            other.note(PROBLEM, "names", text, MismatchError.__name__)
        elif set(first.features or ()) != set(other.features or ()):
            ours, theirs = set(first.features or ()), set(other.features or ())
            text = f"other names than in {first.file}: {quoted(sorted(ours ^ theirs))}"
            if alike := look_alike(sorted(ours - theirs), sorted(theirs - ours)):
                text += f"\nDo this: {alike}"
            other.note(PROBLEM, "names", text, MismatchError.__name__)
        elif first.features != other.features and by_position:
            other.note(NOTE, "names", f"{prepare.OTHER_ORDER} of {first.file}, and nothing is moved")
        elif first.features != other.features:
            other.note(OK, "names", f"those of {first.file} in another order: each column finds its place")


def _width(one: Examined) -> str:
    return f"{len(one.columns)} columns {'without' if one.features is None else 'with'} names"


def _tried(found: Examined, what: str, step: Callable[[], Any]) -> Any:
    try:
        return step()
    except PdmlError as error:
        found.note(PROBLEM, what, str(error), type(error).__name__)
        return None


def _columns(data: Data) -> list[ColumnFacts]:
    least, largest, whole = _extremes(data.rows, data.d)
    absent = data.missing()
    names = data.features or tuple(column(None, j) for j in range(data.d))
    kinds = [_kind(*facts) for facts in zip(least, largest, whole, strict=True)]
    facts = zip(names, kinds, absent, least, largest, strict=True)
    return [
        ColumnFacts(name, kind, int(m), *((None, None) if kind == EMPTY else (float(a), float(b))))
        for name, kind, m, a, b in facts
    ]


def _extremes(rows: Rows, d: int) -> tuple[Reals, Reals, Reals]:
    """Of each column the least and the largest number, and whether all are whole."""
    least, largest, whole = np.full(d, np.inf), np.full(d, -np.inf), np.ones(d)
    for block in rows.blocks():
        present = ~np.isnan(block)
        least = np.minimum(least, np.min(block, axis=0, initial=np.inf, where=present))
        largest = np.maximum(largest, np.max(block, axis=0, initial=-np.inf, where=present))
        whole *= np.all((block == np.rint(block)) | ~present, axis=0)
    return least, largest, whole


def _kind(least: float, largest: float, whole: float) -> str:
    if least > largest:
        return EMPTY
    if least == largest:
        return "constant"
    if whole and (least, largest) == (0.0, 1.0):
        return "zeros and ones"
    return "whole" if whole else "real"


def _kinds(columns: Sequence[ColumnFacts]) -> str:
    counts = {kind: sum(c.kind == kind for c in columns) for kind in KINDS}
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)


def _against(found: Examined, data: Data, study: Study, me: int | None) -> None:
    """Names, number of columns, rank, sign and size, in the order of a run."""
    fitting = _tried(found, "study", lambda: prepare.fitting(data, study))
    if fitting is None:
        return
    found.note(OK, "study", f"{fitting.d:,} features as in the study" if study.features else "fits the study")
    rows = prepare.agreed(fitting, study)
    _suspects(found, [text for text in rows.warnings if text not in data.warnings])
    _tried(found, "rows", lambda: study.spec.accept(study, me or 0, rows))
    _tried(found, "bound", lambda: _check_size(found, rows, study, me))


def _check_size(found: Examined, data: Data, study: Study, me: int | None) -> None:
    """What the study's bound is compared with, as a run does."""
    rows = data.known
    if study.quotas is None and (study.bound_kind != "window" or study.scale == "secsum"):
        how = "rows are scaled" if study.scale == "secsum" else f"found in the run ({study.bound_kind})"
        found.note(OK, "bound", f"{how}; {SQUARES} = {rows.squares():.4g}")
        return
    most = bounds.WINDOW / study.M if study.quotas is None else study.quotas[me or 0]
    if study.spec.measure == GRAM and not prepare.counted(study):
        solver = study.solver_spec
        size = (solver.columns(study.rank, data.d), min(study.iterations, solver.expected))
        norm, what = covariance(rows, *size).norm_bound(), f"{GRAM}, or {SQUARES}"
    elif study.spec.vector:
        norm, what = float(np.linalg.norm(rows.column_sums())), study.spec.measure
    else:
        norm, what = rows.squares(), SQUARES
    known_bound(study, me or 0, norm, what, replace(data, rows=rows))
    found.note(OK, "bound", f"{what} = {norm:.4g} of {most:.4g}")


def _suspects(found: Examined, warnings: Sequence[str]) -> None:
    for warning in warnings:
        found.note(NOTE, "columns", warning)


def _size(found: Examined, data: Data) -> None:
    """Of no study in particular: numbers with which no run goes on, or only some."""
    squares = data.rows.squares()
    if not np.isfinite(squares):
        text = f"{SQUARES} is beyond all numbers\nWanted: numbers below 1e150\nDo this: scale the data, or correct it"
        found.note(PROBLEM, "size", text, QuotaError.__name__)
    elif squares > bounds.WINDOW:
        made = f", nearly all of it {name}" if (name := heaviest(data)) else ""
        text = f"{SQUARES} = {squares:.4g}{made}, beyond {bounds.WINDOW:.4g}, where a run without scaling ends"
        found.note(NOTE, "size", f"{text}\nDo this: {SCALE}, {bounds.LARGER_BOUND}, {bounds.LESS_OF_COLUMN}")
