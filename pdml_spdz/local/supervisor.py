"""Starts M party processes on this machine, each with its own key, socket and rows, and waits for their reports."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pdml_spdz.errors import INTERRUPTED, SECONDARY, PdmlError, PeerError, by_name
from pdml_spdz.local.joint import LocalRun
from pdml_spdz.local.private import LOGS, private_directory
from pdml_spdz.rows import handover
from pdml_spdz.rows.data import Data
from pdml_spdz.run.context import Event
from pdml_spdz.study.algorithm import ALGORITHMS
from pdml_spdz.study.file import write
from pdml_spdz.study.levels import OPENINGS
from pdml_spdz.study.model import Study
from pdml_spdz.study.solvers import SOLVERS
from pdml_spdz.system import process
from pdml_spdz.system.files import writing
from pdml_spdz.system.forks import ForkServer
from pdml_spdz.transport import certs

LINGER = 10.0  # seconds that parties have to end after one that failed: it told them why, or they lost it
IMPORTS = ("pdml_spdz.cli.party", "pdml_spdz.run.handshake:build_digest", "numpy.random", "encodings.idna")
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class PartyCommands:
    """One command for each party.

    study : the study; hosts, ports and fingerprints are filled in
    logs : directory; what party m says is in party-<m>/log
    command : the arguments of party m's command, given the study's file, before those that every party gets
    notify : called with every event of a party
    environment : variables of party m's process besides those of this one
    rows : for each party that has no file of its own, its rows
    logs_go : with the run; those of one that failed are kept elsewhere
    meanwhile : called before the first party is there: one process imports for all of them then, and this one waits
    """

    study: Study
    logs: Path
    command: Callable[[int, Path], list[str]]
    notify: Callable[[int, Event], None] = field(default=lambda party, event: None)
    environment: Callable[[int], dict[str, str]] = field(default=lambda party: {})
    rows: Mapping[int, Data] = field(default_factory=dict, repr=False)
    logs_go: bool = False
    meanwhile: Callable[[], object] = field(default=lambda: None)


@dataclass
class _Ended:
    code: int | None = None
    report: dict[str, Any] | None = None
    error: Event | None = None
    ended_for: str = ""  # why this process ended it


def supervise(commands: PartyCommands) -> list[dict[str, Any]]:
    """Run all parties to the end and return their reports; raises the error of the party that failed first."""
    with writing(commands.logs):
        for m in range(commands.study.M):
            (commands.logs / f"party-{m}").mkdir(parents=True, exist_ok=True)
    with private_directory() as private, _server(commands) as server:
        outcomes = _run_processes(commands, private, server)
    if any(o.code != 0 or o.report is None for o in outcomes):
        raise _failure(commands, outcomes)
    return [o.report for o in outcomes if o.report is not None]


def _run_processes(commands: PartyCommands, private: Path, server: ForkServer | None) -> list[_Ended]:
    M = commands.study.M
    # Bound before the study is written, and handed over: no other program can take the port in between.
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in range(M)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    fingerprints = _make_certificates(private, M)
    entries = zip(commands.study.parties, ports, fingerprints, strict=True)
    parties = tuple(replace(p, port=port, fingerprint=f) for p, port, f in entries)
    study_file = private / "study.toml"
    write(study_file, replace(commands.study, parties=parties))
    commands.meanwhile()
    events: queue.SimpleQueue[tuple[int, Event | None]] = queue.SimpleQueue()
    children: list[process.Child] = []
    try:
        for m, listener in enumerate(listeners):
            child = _start(commands, m, study_file, private / f"P{m}", listener, server)
            children.append(child)
            threading.Thread(target=_follow, args=(m, child, events), daemon=True).start()
        for listener in listeners:
            listener.close()
        return _collect(commands, children, events)
    finally:
        for listener in listeners:
            listener.close()
        process.end(children)


def _server(commands: PartyCommands) -> AbstractContextManager[ForkServer | None]:
    """It imports what every party will, while this process makes keys."""
    study = commands.study
    if any(commands.environment(m) for m in range(study.M)):
        return nullcontext()  # variables of a party's own may concern imports, too
    modules = [*IMPORTS, ALGORITHMS.module(study.algorithm), OPENINGS.module(study.level.opening(study))]
    modules += [] if "solver" in study.spec.idle else [SOLVERS.module(study.solver)]
    return process.fork_server([*modules, *study.engine_spec.imports], _threads(study.M))


def _start(
    commands: PartyCommands,
    m: int,
    study_file: Path,
    certificates: Path,
    listener: socket.socket,
    server: ForkServer | None,
) -> process.Child:
    arguments = [*commands.command(m, study_file), "--certs", str(certificates), "--supervised"]
    inherited = {"--listen-fd": listener.fileno()}
    with ExitStack() as held:
        if m in commands.rows:
            inherited["--rows-fd"] = held.enter_context(handover.offered(commands.rows[m]))
        return process.start(
            arguments,
            log=commands.logs / f"party-{m}" / "log",
            environment=_threads(commands.study.M) | commands.environment(m),
            descriptors=inherited,
            server=server,
        )


def _make_certificates(private: Path, M: int) -> list[str]:
    """Each party's key in its own directory; only certificates are passed on."""
    homes = [private / f"P{m}" for m in range(M)]
    made = [certs.make(home, m, days=1) for m, home in enumerate(homes)]
    for m, home in enumerate(homes):
        for other in made:
            if other.party != m:
                certs.add(home, other.path)
    return [c.fingerprint for c in made]


def _threads(M: int) -> dict[str, str]:
    """M parties share one machine's cores, unless the user has said how many threads to use."""
    if any(name in os.environ for name in THREAD_SETTINGS):
        return {}
    return dict.fromkeys(THREAD_SETTINGS, str(max(1, (os.cpu_count() or 1) // M)))


def _follow(m: int, child: process.Child, events: queue.SimpleQueue[tuple[int, Event | None]]) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        try:
            events.put((m, json.loads(line)))
        except ValueError:
            continue
    child.wait()
    events.put((m, None))


def _collect(
    commands: PartyCommands, children: list[process.Child], events: queue.SimpleQueue[tuple[int, Event | None]]
) -> list[_Ended]:
    outcomes = [_Ended() for _ in children]
    running, last_end, alive = set(range(len(children))), 0.0, time.monotonic()
    while running:
        try:
            m, event = events.get(timeout=1.0)
        except queue.Empty:
            now = time.monotonic()
            if not all(process.is_stopped(children[m].pid) for m in running):
                alive = now  # whoever is gives up those who are not
            late = bool(last_end) and now - last_end > LINGER
            if (late or now - alive > commands.study.timeouts.round) and _end_left(children, outcomes, running):
                last_end = alive = now
            continue
        alive = time.monotonic()
        if event is None:
            outcomes[m].code = children[m].wait()
            running.remove(m)
            last_end = time.monotonic()
        elif event["event"] == "report":
            outcomes[m].report = event["report"]
        elif event["event"] == "error":
            outcomes[m].error = event
        else:
            commands.notify(m, event)
    return outcomes


def _end_left(children: list[process.Child], outcomes: list[_Ended], running: set[int]) -> bool:
    """End parties that stay after others have ended: stopped ones, and all of a run that has failed. Whether any was.

    One that is still at work after the others ended well, such as on its results, is left in peace.
    """
    failed = any(outcomes[m].code != 0 for m in range(len(children)) if m not in running)
    chosen = []
    for m in running:
        stopped = process.is_stopped(children[m].pid)
        if stopped or failed:
            chosen.append(m)
            asked = outcomes[m].ended_for
            why = "it was stopped, by a signal, a debugger or a batch system, and" if stopped else "it"
            outcomes[m].ended_for = f"{why} did not end with the others"
            if stopped or asked:
                children[m].kill()  # a stopped one cannot be asked
            else:
                children[m].terminate()
    return bool(chosen)


def _failure(commands: PartyCommands, outcomes: list[_Ended]) -> PdmlError:
    """The error of the party that failed of itself; those of the others are its consequences."""
    lines, roots = [], []
    for m, outcome in enumerate(outcomes):
        if outcome.error is not None:
            kind = by_name(outcome.error["class"])
            lines.append(f"P{m} ({process.in_words(outcome.code or 0)}): {outcome.error['message']}")
            distance = SECONDARY.index(kind) + 1 if kind in SECONDARY else 0
            roots.append((distance, m, kind, outcome.error.get("culprit") if distance else m))
        elif outcome.ended_for:
            lines.append(f"P{m}: {outcome.ended_for}.")
            roots.append((SECONDARY.index(PeerError) + 1, m, PeerError, m))
        elif outcome.code != 0:
            ended = "stopped by a signal" if outcome.code == INTERRUPTED else process.in_words(outcome.code or 0)
            lines.append(f"P{m}: {ended}; last words: {_last_line(commands, m)}")
            if outcome.code is not None and outcome.code > 0:
                roots.append((0, m, PdmlError, m))
    _, _, kind, culprit = min(roots, key=lambda root: root[:2], default=(0, 0, PdmlError, None))
    error = kind("\n".join(lines), do=f"the logs are in {_kept_logs(commands)}/party-*", culprit=culprit)
    if culprit is not None and outcomes[culprit].code == INTERRUPTED:
        error.code = INTERRUPTED
    return error


def _kept_logs(commands: PartyCommands) -> Path:
    """Where the parties' logs, and those of their engines, will be found by whoever reads of them."""
    if not commands.logs_go:
        return commands.logs
    kept = Path(tempfile.mkdtemp(prefix=LOGS))
    for log in commands.logs.glob("party-*/*log"):
        (directory := kept / log.parent.name).mkdir(exist_ok=True)
        shutil.copyfile(log, directory / log.name)
    return kept


def _last_line(commands: PartyCommands, m: int) -> str:
    log = commands.logs / f"party-{m}" / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "none"


def run_processes(run: LocalRun, rows: Sequence[Path | Data], out: Path) -> list[dict[str, Any]]:
    """Run all parties to the end and return their reports; raises the error of the party that failed first.

    One process for each party, with the study, certificates and code that M hosts would use.
    """
    handed = {m: given for m, given in enumerate(rows) if isinstance(given, Data)}
    paths: dict[str, Any] = {"--out": out, "--stock": run.stock, "--mp-spdz": run.mp_spdz}
    flags = {"--record-transcript": run.record_transcript, "--resume": run.resume, "--force": run.force}

    def command(m: int, study: Path) -> list[str]:
        own = paths if m in handed else paths | {"--data": rows[m]}
        arguments = ["party", str(study), "--id", str(m), *(flag for flag, is_set in flags.items() if is_set)]
        arguments += [] if m in handed else run.reading.options()
        return arguments + [text for option, path in own.items() if path for text in (option, str(path))]

    kept = run.out is not None
    commands = PartyCommands(run.study, out, command, run.notify, run.environment, handed, logs_go=not kept)
    return supervise(replace(commands, meanwhile=_load_pages) if kept else commands)


def _load_pages() -> None:
    """What is written for people in the end."""
    from pdml_spdz.results import result_page  # not where nothing is kept

    result_page.load()
