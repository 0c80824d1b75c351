"""Wrong studies and files, and commands that run all parties. As in `kinds`, each is a function of a Case."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from pdml_spdz.errors import INTERRUPTED, StockError
from pdml_spdz.local.private import PREFIX
from pdml_spdz.system.signals import STOPPING
from tests.chaos.mutations import bytes_changed, study_changed
from tests.chaos.sites import ENDS, KILLED, Case, codes, ended, judged, right, some_time, start_all, want
from tests.parties.helpers import Process, processes_with, until, usual_signals


def study(case: Case) -> None:
    """One party's study is not what the others have."""
    site = case.site("plain")
    victim = case.chance.randrange(site.M)
    path = site.home(victim) / "study.toml"
    path.write_text(study_changed(path.read_text(), case.chance), encoding="utf-8", errors="replace")
    start_all(site)
    others = {m: p for m, p in site.processes.items() if m != victim}
    judged([process.end(ENDS) for process in others.values()])
    # Its time-outs may be others than theirs: it need not have given up.
    site.processes[victim].process.join(5.0)
    with contextlib.suppress(ProcessLookupError):
        site.processes[victim].signal(signal.SIGTERM)
    judged([site.processes[victim].end(ENDS)])


def files(case: Case) -> None:
    """A file of one party is damaged, before the run or before it is resumed."""
    site = case.site("secsum")
    victim = case.chance.randrange(site.M)
    if case.chance.random() < 0.5:
        spoil(case, site.home(victim), ["rows.npy", "certs/*.pem", "certs/*.key"])
        start_all(site)
        ended(site)
        return
    start_all(site)
    some_time(case, site)
    for process in site.processes.values():
        with contextlib.suppress(ProcessLookupError):
            process.signal(signal.SIGKILL)
    ended(site)
    found = spoil(case, site.results(victim), ["checkpoint/*", "report.json", "V.npy", "checkpoint/run.json"])
    site.processes.clear()
    start_all(site, "--resume")
    ends = ended(site)
    if all(end.code == 0 for end in ends) and found not in ("V.npy", "report.json"):
        right(site)


def spoil(case: Case, directory: Path, patterns: list[str]) -> str:
    """Damage one file, if there is any; its name."""
    found = sorted(path for pattern in patterns for path in directory.glob(pattern))
    if not found:
        return ""
    path = case.chance.choice(found)
    path.write_bytes(bytes_changed(path.read_bytes(), case.chance))
    return path.name


def rows(case: Case) -> None:
    """Rows that a command is given are damaged, whatever their format."""
    X = np.random.default_rng(0).normal(size=(9, 4))
    name = case.chance.choice(["x.npy", "x.npz", "x.csv", "x.mtx"])
    path = case.directory / name
    lines = {
        "x.csv": ["a,b,c,d", *(",".join(map(str, row)) for row in X)],
        "x.mtx": ["%%MatrixMarket matrix array real general", "9 4", *map(str, X.T.reshape(-1))],
    }
    if name in lines:
        path.write_text("\n".join([*lines[name], ""]))
    else:
        np.save(path, X) if name == "x.npy" else np.savez(path, X=X, features=np.array(list("abcd")))
    for _ in range(case.chance.randint(1, 3)):
        path.write_bytes(bytes_changed(path.read_bytes(), case.chance))
    words = ["svd", name, name, "--rank", "1", "--iterations", "3", "--reveal", "sum", "--bound", "1e6", "--out", "out"]
    judged([Process(*words, cwd=case.directory).end(ENDS)])
    for log in case.directory.glob("out/party-*/log"):
        want("Traceback" not in log.read_text(), log.read_text()[-2000:])


def local(case: Case) -> None:
    """A run on one machine is told to end, or killed: no party stays, no key stays but of one that was killed."""
    np.save(case.directory / "x.npy", np.diag([1.0, 1.0 - 1e-6]) @ np.eye(2, 6))
    (private := case.directory / "private").mkdir()
    words = ["svd", "x.npy", "x.npy", "--rank", "1", "--tol", "0", "--iterations", "5000", "--reveal", "sum"]
    words += ["--solver", "power"]  # which goes on for so long
    out = case.directory / "out"
    command = subprocess.Popen(
        [sys.executable, "-m", "pdml_spdz", *words, "--out", str(out)],
        cwd=case.directory,
        env=os.environ | {"TMPDIR": str(private)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=usual_signals,
    )
    time.sleep(case.chance.uniform(0.0, 4.0))
    sent = [case.chance.choice([*STOPPING, signal.SIGKILL])]
    while sent[-1] != signal.SIGKILL and case.chance.random() < 0.4:
        sent.append(case.chance.choice(STOPPING))
    for number in sent:
        command.send_signal(number)
        time.sleep(case.chance.choice([0.0, 0.01, 0.1]))
    _, said = command.communicate(timeout=ENDS)
    want("Traceback" not in said or command.returncode != INTERRUPTED, said[-2000:])
    codes.append(command.returncode)
    # The interpreter itself was still starting: a 1 and a trace without a line of ours.
    too_early = command.returncode == 1 and said.endswith("KeyboardInterrupt\n") and "pdml_spdz" not in said
    ended = too_early or command.returncode in (0, INTERRUPTED, *(-n for n in sent))
    want(ended, f"after {sent} it ended with {command.returncode}: {said}")
    until(lambda: processes_with(str(out)) == [], within=ENDS)
    if command.returncode != KILLED:
        want(not list(private.rglob("*.key")), f"{sent}: keys are left in {PREFIX}*")


def stock(case: Case) -> None:
    """Two runs at once want a stock that is enough for one: one of them gets it."""
    np.save(case.directory / "x.npy", np.random.default_rng(0).normal(size=(9, 5)) * 2.0 ** -np.arange(5))
    settings = ["--rank", "1", "--iterations", "20", "--bound", "1000", "--stock", "stocks"]
    made = Process("offline", "make", "--parties", "2", "--dim", "5", *settings, cwd=case.directory)
    made.end(ENDS).well()
    runs = []
    for i in range(2):
        words = ["svd", "x.npy", "x.npy", *settings, "--offline", "stock", "--tol", "0", "--out", f"out-{i}"]
        runs.append(Process(*words, cwd=case.directory))
        time.sleep(case.chance.choice([0.0, case.chance.random()]))
    ends = judged([run.end(ENDS) for run in runs])
    codes = sorted(end.code for end in ends)
    want(codes == [0, StockError.code], f"the runs ended with {codes}: {[end.err[-500:] for end in ends]}")
