"""Whole runs of everything that goes together: results, what was opened, resumed runs, runs that were killed."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import InputError, PeerAborted, PeerError
from pdml_spdz.fits.announced import announced
from pdml_spdz.local.joint import LocalResult, LocalRun, local_study, run_local
from tests.conformance.cases import CUT_OFF, POSSIBLE, Case
from tests.parties.helpers import Parties, until

# What a step of a transcript shows, as a report has it: the first of these phrases that fits is its observable. A step
# with none shows nothing of the rows: the start is noise.
SHOWS: dict[str, tuple[str, ...]] = {
    "sum:start": (),
    "sum:bound": ("the bound B, the sum of the parties' norms",),
    "exponent:fit": ("the bound's exponent",),
    "exponent:mean": ("an exponent up to 7 above that of the largest norm of a party's own column sums",),
    "sum:rows": ("n, the number of all rows",),
    "rows": ("n, the number of all rows",),
    "sum:mean": ("the mean of all rows",),
    "mean": ("the mean of all rows",),
    "fineness": ("how finely the rows' deviations need the mean",),
    "sum:topic": (r"(every party's own )?W_t\^T R_t",),
    "T0": (),
    "T": ("T after every sweep",),
    "V": (),  # the result
}
COLUMNS = {
    "sum": (r"(every party's own S_m V_t|S V_t) in every iteration", "V_t in every iteration"),
    "one-scale": (r"c S V_t in every iteration t, to f_out bits", "V_t in every iteration"),
    "centred": (r"c C V_t in every iteration t, to f_out bits", "V_t in every iteration"),
    "per-column": (r"the direction of S v_i for every column i", "V_t in every iteration"),
    "paper": (r"the direction of S v_i for every column i", "V_t in every iteration", "with inputs no finer than that"),
}
OF_A_VECTOR = {
    "sum": ("the sum of all parties' vectors|every party's own vector",),
    "per-column": ("u, the direction of the sum of all parties' vectors",),
    "paper": ("u, the direction of the sum of all parties' vectors", "with inputs no finer than that"),
}


def run(
    case: Case, tables: list[np.ndarray], out: Path, *, resume: bool = False, record: bool = False, **others: Any
) -> LocalResult:
    study = local_study(2, **case.settings(**others))
    return run_local(LocalRun(tables, study, out, resume, record_transcript=record, transport=case.transport))


def start_of(case: Case, out: Path) -> np.ndarray:
    return np.load(out / "party-0" / ("T0.npy" if case.algorithm == "nmf" else "V0.npy"))


@pytest.mark.parametrize("case", POSSIBLE)
def test_result_is_that_of_the_pooled_rows_and_the_report_says_what_was_opened(case: Case, tmp_path: Path) -> None:
    result = run(case, case.tables(), tmp_path / "out", record=True)
    start = None if case.spec.vector else start_of(case, tmp_path / "out")
    case.check(case.tables(), result.V, start, result.report)
    if (bound := result.report.get("sine_bound")) is not None and case.solver != "power":
        assert result.report["converged"]
        assert bound["span"] <= 2.0 ** (12 - case.bits)  # noise of 2^-bits, and 2^12 for sizes and gaps of these rows
    assert (result.report["engine"], result.report["opening"]) == (case.engine, case.opening)
    assert result.transcript is not None
    assert shown_by(case, result.transcript) == said_by(result)
    assert sorted(announced(result.study)) == sorted(result.report["observables"])
    for own in result.party_reports:
        assert own["observables"] == result.report["observables"]


def shown_by(case: Case, transcript: Transcript) -> Counter[str]:
    """Phrases for everything in the transcript."""
    columns = (OF_A_VECTOR if case.spec.vector else COLUMNS)[case.opening]
    steps = {entry.step for entry in transcript.entries}
    of_columns = [entry.arrays for entry in transcript.entries if entry.step == "columns"]
    for seen in of_columns:
        assert ("norms" in seen) == (case.opening == "sum")  # a number that nobody speaks of is not there
        assert ("scaled" in seen) == (case.opening in ("sum", "one-scale", "centred"))
    phrases = {phrase for step in steps for phrase in (columns if step == "columns" else SHOWS[step])}
    return Counter(phrases)


def said_by(result: LocalResult) -> Counter[str]:
    """The phrases that fit to what the report says; what fits to none stays as it is."""
    known = [phrase for table in (SHOWS, COLUMNS, OF_A_VECTOR) for phrases in table.values() for phrase in phrases]
    said = (next((p for p in known if re.match(p, text)), text) for text in result.report["observables"])
    return Counter(said)


@pytest.mark.parametrize("case", CUT_OFF)
def test_resumed_run_comes_to_the_same(case: Case, tmp_path: Path) -> None:
    tables, half = case.long_tables(), case.settings()["iterations"] // 2
    begun = run(case, tables, tmp_path / "out", iterations=half)
    result = run(case, tables, tmp_path / "out", resume=True)
    assert begun.report["iterations"] == half < result.report["iterations"] <= case.settings()["iterations"]
    case.check(tables, result.V, start_of(case, tmp_path / "out"), result.report)


@pytest.mark.parametrize("case", CUT_OFF)
def test_killed_run_ends_everywhere_and_goes_on(case: Case, parties: Callable[..., Parties]) -> None:
    iterations = 15 if case.machines else 10**5
    site = parties(**case.settings(iterations=iterations))
    tables = case.long_tables()
    for m, X in enumerate(tables):
        site.give(m, X)
        site.start(m)
    until(lambda: all(site.checkpoints(m) and site.last_iteration(m) >= 3 for m in range(2)), within=300.0)
    site.processes[1].signal(signal.SIGKILL)
    left, _ = site.end()
    assert left.code in (PeerError.code, PeerAborted.code)
    assert not any((site.results(m) / case.spec.result).exists() for m in range(2))
    if not case.machines:  # a program of MP-SPDZ is for as many iterations as its study has
        iterations = max(site.last_iteration(m) for m in range(2)) + 2
        site.change_studies(iterations=iterations)
    for end in site.run("--resume", within=300.0):
        end.well()
    found = [np.load(site.results(m) / case.spec.result) for m in range(2)]
    np.testing.assert_array_equal(*found)
    start = np.load(site.results(0) / ("T0.npy" if case.algorithm == "nmf" else "V0.npy"))
    report = json.loads((site.results(0) / "report.json").read_text())
    case.check(tables, found[0], start, report)


@pytest.mark.parametrize("case", POSSIBLE)
def test_rows_that_cannot_be_used_are_refused_by_name(case: Case) -> None:
    tables = case.tables()
    tables[1][0, 2] = np.nan
    with pytest.raises(InputError, match="P1") as error:
        run_local(LocalRun(tables, local_study(2, **case.settings()), transport=case.transport))
    assert error.value.wanted
