"""A whole study on one machine: M party processes on loopback, with the study,
certificates and code that M hosts would use.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz import certs, process
from pdml_spdz.errors import SECONDARY, PdmlError, StorageError, StudyError, by_name
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.storage import save_array, save_json, writing
from pdml_spdz.study import PartyEntry, Study
from pdml_spdz.study_file import write

Event = dict[str, Any]
RESULTS = {"svd": "V.npy", "normed-sum": "u.npy"}
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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


@dataclass(frozen=True)
class LocalResult:
    """V : the result, whatever the algorithm calls it."""

    V: Reals
    report: dict[str, Any]
    party_reports: list[dict[str, Any]]
    out: Path


@dataclass
class _Outcome:
    code: int | None = None
    report: dict[str, Any] | None = None
    error: Event | None = None


def local_study(parties: int, **settings: Any) -> Study:
    """A study for parties on this machine; ports are filled in when the run starts."""
    return Study(parties=tuple(PartyEntry() for _ in range(parties)), **settings)


def run_local(run: LocalRun) -> LocalResult:
    """Run all parties to the end; raises the error of the party that failed first."""
    if len(run.files) != run.study.M:
        raise StudyError(f"{len(run.files)} files for {run.study.M} parties.", "one file for each party")
    if (run.out / "report.json").exists() and not (run.force or run.resume):
        raise StorageError(
            f"{run.out} already holds a finished run.",
            do="choose another --out, pass --force to replace it, or --resume to go on from it",
        )
    with writing(run.out):
        for m in range(run.study.M):
            (run.out / f"party-{m}").mkdir(parents=True, exist_ok=True)
    # Keys live in a directory that only this user can open, and go with it when the run ends.
    private = Path(tempfile.mkdtemp(prefix="pdml-spdz-"))
    try:
        outcomes = _run_processes(run, private)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return _result(run, outcomes)


def _run_processes(run: LocalRun, private: Path) -> list[_Outcome]:
    M = run.study.M  # noqa: N806
    # Bound before the study is written, and handed over: no other program can take the port in between.
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(M)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    fingerprints = _make_certificates(private, M)
    parties = tuple(
        replace(p, port=port, fingerprint=f) for p, port, f in zip(run.study.parties, ports, fingerprints, strict=True)
    )
    study_file = private / "study.toml"
    write(study_file, replace(run.study, parties=parties))
    events: queue.SimpleQueue[tuple[int, Event | None]] = queue.SimpleQueue()
    children: list[subprocess.Popen[str]] = []
    try:
        for m, listener in enumerate(listeners):
            child = process.start(
                _arguments(run, m, study_file, private, listener.fileno()),
                log=run.out / f"party-{m}" / "log",
                environment=_threads(M) | run.environment(m),
                keep=[listener.fileno()],
            )
            children.append(child)
            threading.Thread(target=_follow, args=(m, child, events), daemon=True).start()
        for listener in listeners:
            listener.close()
        return _collect(run, children, events)
    finally:
        for listener in listeners:
            listener.close()
        process.end(children)


def _make_certificates(private: Path, M: int) -> list[str]:  # noqa: N803
    """Each party's key in its own directory; only certificates are passed on."""
    homes = [private / f"P{m}" for m in range(M)]
    made = [certs.make(home, m, days=1) for m, home in enumerate(homes)]
    for m, home in enumerate(homes):
        for other in made:
            if other.party != m:
                certs.add(home, other.path)
    return [c.fingerprint for c in made]


def _arguments(run: LocalRun, m: int, study_file: Path, private: Path, listener: int) -> list[str]:
    arguments = ["party", str(study_file), "--id", str(m), "--data", str(run.files[m])]
    arguments += ["--certs", str(private / f"P{m}"), "--out", str(run.out)]
    arguments += ["--supervised", "--listen-fd", str(listener)]
    if run.stock is not None:
        arguments += ["--stock", str(run.stock)]
    return arguments + ["--resume"] * run.resume + ["--force"] * run.force


def _threads(M: int) -> dict[str, str]:  # noqa: N803
    """M parties share one machine's cores, unless the user has said how many threads to use."""
    if any(name in os.environ for name in THREAD_SETTINGS):
        return {}
    return dict.fromkeys(THREAD_SETTINGS, str(max(1, (os.cpu_count() or 1) // M)))


def _follow(m: int, child: subprocess.Popen[str], events: queue.SimpleQueue[tuple[int, Event | None]]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        try:
            events.put((m, json.loads(line)))
        except ValueError:
            continue
    child.wait()
    events.put((m, None))


def _collect(
    run: LocalRun, children: list[subprocess.Popen[str]], events: queue.SimpleQueue[tuple[int, Event | None]]
) -> list[_Outcome]:
    outcomes = [_Outcome() for _ in children]
    running = len(children)
    while running:
        m, event = events.get()
        if event is None:
            outcomes[m].code = children[m].wait()
            running -= 1
        elif event["event"] == "report":
            outcomes[m].report = event["report"]
        elif event["event"] == "error":
            outcomes[m].error = event
        else:
            run.notify(m, event)
    return outcomes


def _result(run: LocalRun, outcomes: list[_Outcome]) -> LocalResult:
    if any(o.code != 0 or o.report is None for o in outcomes):
        raise _failure(run, outcomes)
    reports = [o.report for o in outcomes if o.report is not None]
    name = RESULTS[run.study.algorithm]
    V = np.load(run.out / "party-0" / name)  # noqa: N806
    save_array(run.out / name, V)
    report = _joint_report(reports)
    save_json(run.out / "report.json", report)
    return LocalResult(V, report, reports, run.out)


def _joint_report(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Party 0's report with what only the local command knows: no party's own, the slowest and largest of all."""
    joint = dict(reports[0])
    joint.update(party_id=None, rows_own=None)
    joint["bytes_sent"] = [r["bytes_sent"] for r in reports]
    joint["bytes_received"] = [r["bytes_received"] for r in reports]
    joint["peak_memory"] = max(r["peak_memory"] for r in reports)
    return joint


def _failure(run: LocalRun, outcomes: list[_Outcome]) -> PdmlError:
    """The error of the party that failed of itself; those of the others are its consequences."""
    lines, roots = [], []
    for m, outcome in enumerate(outcomes):
        if outcome.error is not None:
            kind = by_name(outcome.error["class"])
            lines.append(f"P{m} ({process.in_words(outcome.code or 0)}): {outcome.error['message']}")
            distance = SECONDARY.index(kind) + 1 if kind in SECONDARY else 0
            roots.append((distance, m, kind, outcome.error.get("culprit") if distance else m))
        elif outcome.code != 0:
            lines.append(f"P{m}: {process.in_words(outcome.code or 0)}; last words: {_last_line(run, m)}")
            if outcome.code is not None and outcome.code > 0:
                roots.append((0, m, PdmlError, m))
    _, _, kind, culprit = min(roots, key=lambda root: root[:2], default=(0, 0, PdmlError, None))
    return kind("\n".join(lines), do=f"the logs are {run.out}/party-*/log", culprit=culprit)


def _last_line(run: LocalRun, m: int) -> str:
    log = run.out / f"party-{m}" / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "none"
