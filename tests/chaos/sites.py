"""Parties of a run that ends after a known number of iterations, and what an uninterrupted one comes to."""

from __future__ import annotations

import functools
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.errors import CLASSES, INTERRUPTED, PdmlError, ResumeError
from pdml_spdz.study.model import Timeouts
from pdml_spdz.system.signals import STOPPING
from tests.opened import off
from tests.parties.helpers import Ended, Parties, close_rows, slow_rows

# The time-outs are short, because many of these runs end by them.
TIMES = Timeouts(connect=4.0, round=4.0)
# power: from a public start, without a stop by tolerance, every run comes to the same V, up to rounding (tests/parties/
# test_resume.py). krylov: every run comes to the singular vectors, up to the bound that it reports.
SOLVERS: dict[str, dict[str, Any]] = {
    "power": {"rank": 1, "tol": 0.0, "start": "seed", "seed": 7, "bound": "2"},
    "krylov": {"rank": 3, "tol": 1e-7, "iterations": 60, "bound": "1e4"},
}
ENGINES = {"secsum": "sum", "plain": "sum", "embedded": "normed"}
ITERATIONS = {"secsum": 150, "plain": 150, "embedded": 60}  # of power
KILLED = -9
KNOWN = {c.code for c in CLASSES if c is not PdmlError} | {0, INTERRUPTED, KILLED}
ENDS = 60.0  # seconds within which every party has ended, whatever happened
LATER = 1.2  # a moment may be after the end, too
TRACES = ("Traceback", "Exception ignored", "unexpected error")


codes: list[int] = []  # with which processes of the case in hand have ended


class Wrong(Exception):
    """What should not have happened."""


def want(ok: bool, found: str) -> None:
    if not ok:
        raise Wrong(found)


@dataclass(frozen=True)
class Reference:
    """V, and what an uninterrupted run took. sent : bytes, by all parties"""

    V: np.ndarray
    seconds: float
    sent: int


@dataclass
class Case:
    """One attempt. chance : everything random in it; directory : its own"""

    chance: random.Random
    directory: Path
    sites: list[Parties] = field(default_factory=list)

    def site(self, engine: str = "", M: int = 0, **settings: Any) -> Parties:
        engine, M = engine or self.chance.choice(list(ENGINES)), M or self.chance.choice([2, 2, 3])
        solver = self.chance.choice(list(SOLVERS))
        made = make(self.directory / f"site-{len(self.sites)}", engine, M, solver, **settings)
        self.sites.append(made)
        return made


def make(directory: Path, engine: str, M: int, solver: str, **settings: Any) -> Parties:
    own = {"engine": engine, "reveal": ENGINES[engine], "iterations": ITERATIONS[engine], "timeouts": TIMES}
    site = Parties(directory, M, **(own | {"solver": solver} | SOLVERS[solver] | settings))
    for m in range(M):
        site.give(m, rows_of(solver, m))
    return site


def rows_of(solver: str, m: int) -> np.ndarray:
    return close_rows(m) if solver == "krylov" else slow_rows()


@functools.cache
def reference(engine: str, M: int, solver: str) -> Reference:
    """Of a run that nobody disturbs."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        site = make(Path(directory), engine, M, solver, timeouts=Timeouts(60.0, 60.0))
        try:
            for _ in range(2):  # the first also starts the server from which processes are forked
                began = time.monotonic()
                for end in site.run("--force"):
                    end.well()
                seconds = time.monotonic() - began
            reports = [json.loads((site.results(m) / "report.json").read_text()) for m in range(M)]
            sent = sum(r["bytes_sent"] + r["offline"]["bytes_sent"] for r in reports)
            return Reference(np.load(site.results(0) / "V.npy"), seconds, sent)
        finally:
            site.clear_away()


def reference_of(site: Parties) -> Reference:
    return reference(site.study.engine, site.M, site.study.solver)


def tolerance(site: Parties) -> float:
    """Between two runs: an iteration rounds each of d entries by at most M units of the last place (44 bits below the
    bound of 2; embedded: 31 fraction bits of a vector that is no shorter than 1), and nothing amplifies that.
    """
    unit = 2.0**-31 if site.study.engine == "embedded" else 2.0**-43
    return 2 * site.study.iterations * site.M * float(np.sqrt(6)) * (unit + float(np.finfo(float).eps))


def judged(ends: list[Ended], mute: int | None = None, signalled: int | None = None) -> list[Ended]:
    """Every party has ended well or in words, by an exit code of the table.

    mute : one that has no room for words
    signalled : one that was told to end, perhaps before it came to its handlers: then the system ends it, without words
    """
    codes.extend(end.code for end in ends)
    for m, end in enumerate(ends):
        if m == signalled and -end.code in STOPPING and not end.err:
            continue
        want(end.code in KNOWN, f"P{m} ended with exit code {end.code}: {end.err[-2000:]}")
        for trace in TRACES:
            want(trace not in end.err + end.out, f"P{m} printed a trace: {end.err[-2000:]}")
        want(
            end.code in (0, KILLED) or m == mute or "pdml-spdz: " in end.err,
            f"P{m} ended with {end.code}, without a word",
        )
    return ends


def ended(site: Parties, mute: int | None = None, signalled: int | None = None) -> list[Ended]:
    """All that were started, within the time that a failure may take."""
    try:
        return judged(site.end(within=ENDS), mute, signalled)
    except AssertionError as error:
        raise Wrong(str(error)) from None


def right(site: Parties) -> None:
    """Every party has the V of an uninterrupted run (power), or singular vectors as exact as it says (krylov)."""
    pooled = np.vstack([rows_of(site.study.solver, m) for m in range(site.M)])
    for m in range(site.M):
        V = np.load(site.results(m) / "V.npy")
        if site.study.solver == "krylov":
            report = json.loads((site.results(m) / "report.json").read_text())
            sines, bound = off(V, np.linalg.svd(pooled)[2].T)[0], report["sine_bound"]["columns"]
            want(bool(np.all(sines <= bound)), f"P{m}'s V is off by {sines}, and says {bound}")
            want(max(bound) < SOLVERS["krylov"]["tol"], f"P{m}'s V is known to {bound} only")
            continue
        away = float(np.max(np.abs(V - reference_of(site).V)))
        want(away <= tolerance(site), f"P{m}'s V is off by {away:.2e}, more than rounding explains")


def completed(site: Parties) -> None:
    """Whatever was done to the run: it can be resumed, or begun anew if there is nothing to resume, and is right."""
    site.change_studies(timeouts=Timeouts(connect=30.0, round=30.0))
    site.processes.clear()
    ends = judged(site.run("--resume", within=ENDS))
    if any(end.code == ResumeError.code for end in ends):
        common = set.intersection(*({path.name for path in site.checkpoints(m)} for m in range(site.M)))
        want(not common, f"all parties have {sorted(common)}, and yet: {[end.err[-500:] for end in ends]}")
        ends = judged(site.run("--force", within=ENDS))
    for m, end in enumerate(ends):
        want(end.code == 0, f"P{m} did not complete the run: {end.err[-1000:]}")
    right(site)


def some_time(case: Case, site: Parties) -> None:
    time.sleep(case.chance.random() * LATER * reference_of(site).seconds)


def start_all(site: Parties, *options: str) -> None:
    for m in range(site.M):
        site.start(m, *options)
