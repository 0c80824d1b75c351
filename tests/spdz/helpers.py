"""Parties as threads of the test, their virtual machines as real processes: keys, stocks and results of each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import pytest

from pdml_spdz.engines.mp_spdz import home, offline
from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program, domain_of
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.preprocessing import file_of
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.errors import EngineError
from pdml_spdz.offline.stock import MANIFEST
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.transport import certs
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.threads import run_threads

T = TypeVar("T")
SECONDS = 240.0  # without any progress: a run that hangs
FOUND = home.find()
REQUIRED = pytest.mark.skipif(FOUND is None, reason=home.missing_text())
MARKS = [pytest.mark.spdz, REQUIRED]
LONG = pytest.mark.spdz_long


def need(name: str, *, offline: bool = False) -> None:
    """Skip a test of a protocol that this build of MP-SPDZ has not, or without its offline program."""
    chosen = protocol(name)
    for program in (chosen.party, *([chosen.offline] if offline else [])):
        if program and home.require().binary(program) is None:
            pytest.skip(f"this build has no {program}")


def need_modulus(program: Program, precision: Precision, name: str) -> None:
    """Skip a test in a ring or field for which this build of MP-SPDZ was not made."""
    chosen = protocol(name)
    options, _, prime = domain_of(program, precision, chosen)
    binary = home.require().binary(chosen.party)
    if binary is not None:
        try:
            home.check_modulus(binary, chosen, prime or int(options[1]))
        except EngineError as error:
            pytest.skip(error.found)


class Site:
    """M parties that have pinned each other's certificates, each with its own directory."""

    def __init__(self, path: Path, M: int, protocol: str = "semi", timeout: float = SECONDS) -> None:
        need(protocol)
        self.path, self.M, self.protocol, self.timeout = path, M, protocol, timeout
        made = [certs.make(self.home(m), m, days=1) for m in range(M)]
        for m, other in itertools.permutations(range(M), 2):
            certs.add(self.home(m), made[other].path)

    def home(self, m: int) -> Path:
        return self.path / f"P{m}"

    def stocks(self, m: int) -> Path:
        return self.home(m) / "stocks"

    def place(self, link: Link) -> Place:
        M, own = self.M, self.home(link.me)
        identity = certs.load_identity(own, link.me, {l: certs.pinned(own, l).fingerprint for l in range(M)})
        hosts, stocks, logs = ["127.0.0.1"] * M, self.stocks(link.me), own / "out"
        chosen = protocol(self.protocol)
        return Place(link, identity, home.require(), chosen, hosts, [0] * M, stocks, logs, self.timeout)

    def compile(self, program: Program, precision: Precision) -> Compiled:
        """Now, once, before M threads want it at the same time."""
        need_modulus(program, precision, self.protocol)
        return compile_program(program, precision, protocol(self.protocol), home.require())

    def run(self, party: Callable[[Place], T]) -> list[T]:
        return run_threads(self.M, lambda link: party(self.place(link)), mesh(self.M, timeout=self.timeout))

    def make_stock(self, program: Program, precision: Precision) -> str:
        need(self.protocol, offline=True)
        compiled = self.compile(program, precision)
        made = self.run(lambda place: offline.make(place, compiled))
        assert len(set(made)) == 1
        return made[0]


def vouch_for(part: Path) -> None:
    """A party that has changed its own material has changed the digests in its manifest, too."""
    manifest = json.loads((part / MANIFEST).read_text())
    manifest["files"] = {name: asdict(file_of(part / name)) for name in manifest["files"]}
    (part / MANIFEST).write_text(json.dumps(manifest))


def program(where: Path, ending: str, m: int) -> int:
    """The process of party m's program of MP-SPDZ whose files are below `where`."""
    found = [number for number, words in running(where) if words[0].endswith(ending) and words[4] == str(m)]
    (number,) = found
    return number


def machines(where: Path) -> list[str]:
    """Command lines of MP-SPDZ's programs, and of their guards, that run with files below `where`."""
    return [" ".join(words) for _, words in running(where)]


def running(where: Path) -> list[tuple[int, list[str]]]:
    """Processes with a program of MP-SPDZ in their command lines. A run directory may be anywhere; the keys that it
    leads to are the party's own.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode().split("\0")
            directory = (path / "cwd").readlink()
        except OSError:
            continue  # it has just ended, or is another user's
        if any(word.endswith(".x") for word in words):
            keys = [key.resolve() for key in (directory / "Player-Data").glob("P*.key")]
            if any(file.is_relative_to(where) for file in (directory, *keys)):
                found.append((int(path.name), words))
    return found


def spent(stocks: Path, m: int) -> set[str]:
    """Names of what stays of the party's stocks when their material is gone."""
    (stock,) = (path.name for path in stocks.glob("mp-spdz/stock-*"))
    return {stock, f"party-{m}", "manifest.json", "ledger.jsonl"}
