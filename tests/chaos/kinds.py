"""What is done to runs. Each kind is a function of a Case that raises Wrong if something should not have happened."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from pdml_spdz.errors import INTERRUPTED, EngineError, StockError, StorageError
from pdml_spdz.local.private import PREFIX
from pdml_spdz.study.model import Timeouts
from pdml_spdz.system.process import STOPPING
from tests.chaos.mutations import bytes_changed, study_changed
from tests.chaos.relay import HARMLESS, Fault, Relay
from tests.chaos.sites import ENDS, KILLED, Case, codes, completed, ended, judged, reference_of, right, want
from tests.parties.helpers import Parties, Process, processes_with, until

LATER = 1.2  # a moment may be after the end, too


def some_time(case: Case, site: Parties) -> None:
    time.sleep(case.chance.random() * LATER * reference_of(site).seconds)


def some_parties(case: Case, site: Parties) -> list[int]:
    return case.chance.sample(range(site.M), case.chance.randint(1, site.M))


def start_all(site: Parties, *options: str) -> None:
    for m in range(site.M):
        site.start(m, *options)


def kill(case: Case) -> None:
    """Parties are killed once or several times, the run is resumed."""
    site = case.site()
    for i in range(case.chance.choice([1, 1, 2, 3])):
        start_all(site, *(["--resume"] if i else []))
        some_time(case, site)
        victims = some_parties(case, site)
        for m in victims:
            with contextlib.suppress(ProcessLookupError):
                site.processes[m].signal(signal.SIGKILL)
        for m, end in enumerate(ended(site)):
            want(m in victims or end.code != KILLED, f"P{m} was killed by nobody")
    completed(site)


def signals(case: Case) -> None:
    """A party is told to end, perhaps twice, or stands still for a while."""
    site = case.site()
    start_all(site)
    some_time(case, site)
    (victim,) = case.chance.sample(range(site.M), 1)
    number = case.chance.choice([*STOPPING, signal.SIGSTOP])
    with contextlib.suppress(ProcessLookupError):
        site.processes[victim].signal(number)
        if number == signal.SIGSTOP:
            time.sleep(case.chance.uniform(0.0, 2.0))
            site.processes[victim].signal(signal.SIGCONT)
        elif case.chance.random() < 0.3:
            site.processes[victim].signal(case.chance.choice(STOPPING))
    ends = ended(site)
    for m, end in enumerate(ends):
        # A process that has not come to its handlers yet ends as the system has it.
        codes = (0,) if number == signal.SIGSTOP else (0, INTERRUPTED, *(-n for n in STOPPING)) if m == victim else ()
        want(not codes or end.code in codes, f"P{m} ended with {end.code} after {number.name}: {end.err[-500:]}")
    completed(site)


@contextlib.contextmanager
def relayed(site: Parties, faults: dict[int, Fault]) -> Iterator[None]:
    """Everyone reaches party m through a relay with faults[m]."""
    real = site.study.parties
    relays = {m: Relay((real[m].host, real[m].port), fault) for m, fault in faults.items()}
    seen = tuple(replace(p, port=relays[m].port) if m in relays else p for m, p in enumerate(real))
    site.change_studies(parties=seen)
    try:
        for m, party in enumerate(real):
            site.start(m, "--listen", f"{party.host}:{party.port}")
        yield
    finally:
        for relay in relays.values():
            relay.close()
        site.change_studies(parties=real)


def relay(case: Case) -> None:
    """The line between two parties is slow, or damages what goes over it."""
    site = case.site()
    sent = reference_of(site).sent // (site.M * (site.M - 1))  # on one connection, in one direction
    fault = Fault.draw(case.chance, int(LATER * sent))
    (m,) = case.chance.sample(range(site.M - 1), 1)
    if fault.kind in HARMLESS:
        site.change_studies(timeouts=Timeouts(connect=30.0, round=30.0))
    with relayed(site, {m: fault}):
        ends = ended(site)
    if fault.kind in HARMLESS:
        want(all(end.code == 0 for end in ends), f"{fault}: {[end.err[-500:] for end in ends]}")
    if all(end.code == 0 for end in ends):
        right(site)
    completed(site)


STRANGERS: tuple[Callable[[socket.socket, random.Random], object], ...] = (
    lambda sock, chance: None,
    lambda sock, chance: sock.sendall(chance.randbytes(chance.randint(1, 5000))),
    lambda sock, chance: sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    lambda sock, chance: sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),  # the start of a greeting
    lambda sock, chance: sock.shutdown(socket.SHUT_WR),
    lambda sock, chance: _anonymous().wrap_socket(sock, do_handshake_on_connect=True).recv(1),
    lambda sock, chance: sock.close(),
)


def _anonymous() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def flood(case: Case) -> None:
    """Strangers connect to a party, before, while and after it meets the others: the run ends well."""
    site = case.site()
    site.change_studies(timeouts=Timeouts(connect=30.0, round=30.0))
    victim, over = case.chance.randrange(site.M), threading.Event()
    count, stranger = case.chance.randint(10, 100), case.chance.choice(STRANGERS)
    address = (site.study.parties[victim].host, site.study.parties[victim].port)

    def come() -> None:
        chance, held = random.Random(count), []
        while not over.is_set() and len(held) < count:
            with contextlib.suppress(OSError):
                sock = socket.create_connection(address, 1.0)
                sock.settimeout(1.0)
                held.append(sock)
                stranger(sock, chance)
            time.sleep(0.002)
        over.wait()
        for sock in held:
            sock.close()

    strangers = threading.Thread(target=come)
    strangers.start()
    try:
        first = case.chance.randrange(site.M)
        site.start(victim)
        time.sleep(case.chance.random())
        for m in sorted({*range(site.M)} - {victim}, key=lambda m: (m != first, m)):
            site.start(m)
        for m, end in enumerate(ended(site)):
            want(end.code == 0, f"P{m}: {end.err[-1000:]}")
    finally:
        over.set()
        strangers.join()
    right(site)


def twice(case: Case) -> None:
    """A party is started twice, with the same directory: the first process is not disturbed."""
    site = case.site()
    site.change_studies(timeouts=Timeouts(connect=30.0, round=30.0))
    start_all(site)
    m = case.chance.randrange(site.M)
    first = site.processes[m]
    until(lambda: (site.home(m) / "out" / f"party-{m}").is_dir())  # the first has come so far
    some_time(case, site)
    second = site.start(m, *case.chance.choice([[], ["--resume"], ["--force"]]))
    site.processes[m] = first
    ends = ended(site)
    (late,) = judged([second.end(ENDS)])
    for l, end in enumerate(ends):
        want(end.code == 0, f"P{l}: {end.err[-1000:]}; the second P{m}: {late.err[-1000:]}")
    right(site)


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


def disk(case: Case) -> None:
    """A party's disk is full from some moment on, and has room again later."""
    site = case.site()
    start_all(site)
    victim = case.chance.randrange(site.M)
    some_time(case, site)
    most = case.chance.choice([0, 100, 1000, case.chance.randrange(20_000)])
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(site.processes[victim].process.pid, resource.RLIMIT_FSIZE, (most, most))
    ends = ended(site, mute=victim)  # what it says goes to a file, too
    # The engine embedded unpacks a library, which needs room, too.
    allowed = (0, StorageError.code, EngineError.code)
    want(ends[victim].code in allowed, f"P{victim} ended with {ends[victim].code}: {ends[victim].err}")
    completed(site)


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
    out = case.directory / "out"
    command = subprocess.Popen(
        [sys.executable, "-m", "pdml_spdz", *words, "--out", str(out)],
        cwd=case.directory,
        env=os.environ | {"TMPDIR": str(private)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
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
    want(command.returncode in (0, INTERRUPTED, *(-n for n in sent)), f"it ended with {command.returncode}: {said}")
    until(lambda: processes_with(str(out)) == [], within=ENDS)
    if command.returncode != KILLED:
        want(not list(private.rglob("*.key")), f"{sent}: keys are left in {PREFIX}*")


# Kind, and its share of all cases.
KINDS: dict[Callable[[Case], None], int] = {
    kill: 20,
    signals: 12,
    relay: 22,
    flood: 8,
    twice: 6,
    stock: 3,
    disk: 8,
    study: 10,
    files: 10,
    rows: 12,
    local: 6,
}
