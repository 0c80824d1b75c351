"""What is done to runs. Each kind is a function of a Case that raises Wrong if something should not have happened."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from pdml_spdz.errors import INTERRUPTED, EngineError, StorageError
from pdml_spdz.study.model import Timeouts
from pdml_spdz.system.signals import STOPPING
from tests.chaos.damage import files, local, rows, stock, study
from tests.chaos.relay import HARMLESS, Fault, Relay
from tests.chaos.sites import (
    ENDS,
    KILLED,
    LATER,
    Case,
    completed,
    ended,
    judged,
    reference_of,
    right,
    some_time,
    start_all,
    want,
)
from tests.parties.helpers import Parties, until


def some_parties(case: Case, site: Parties) -> list[int]:
    return case.chance.sample(range(site.M), case.chance.randint(1, site.M))


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
    ends = ended(site, signalled=None if number == signal.SIGSTOP else victim)
    for m, end in enumerate(ends):
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
    site.change_studies(timeouts=Timeouts(connect=10.0, round=30.0))  # so long the second tries to tell the others
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
