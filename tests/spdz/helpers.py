"""Parties as threads of the test, their virtual machines as real processes: keys, stocks and results of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from pdml_spdz import certs
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.precision import Precision
from pdml_spdz.programs import Program
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh
from tests.threads import run_threads

T = TypeVar("T")
SECONDS = 240.0  # without progress: a run hangs
FOUND = home.find()
MARKS = [pytest.mark.spdz, pytest.mark.skipif(FOUND is None, reason=home.missing_text())]


class Site:
    """M parties that have pinned each other's certificates, each with its own directory."""

    def __init__(self, path: Path, M: int, protocol: str = "semi", timeout: float = SECONDS) -> None:
        self.path, self.M, self.protocol, self.timeout = path, M, protocol, timeout
        made = [certs.make(self.home(m), m, days=1) for m in range(M)]
        for m, other in itertools.permutations(range(M), 2):
            certs.add(self.home(m), made[other].path)

    def home(self, m: int) -> Path:
        return self.path / f"P{m}"

    def stocks(self, m: int) -> Path:
        return self.home(m) / "stocks"

    def place(self, link: Link) -> Place:
        M, home_ = self.M, self.home(link.me)
        identity = certs.load_identity(home_, link.me, dict.fromkeys(range(M), ""))
        hosts, ports, stocks = ["127.0.0.1"] * M, [0] * M, self.stocks(link.me)
        return Place(
            link, identity, home.require(), protocol(self.protocol), hosts, ports, stocks, home_ / "out", self.timeout
        )

    def compile(self, program: Program, precision: Precision) -> Compiled:
        """Once, before M threads want it at the same time."""
        return compile_program(program, precision, protocol(self.protocol), home.require())

    def run(self, party: Callable[[Place], T]) -> list[T]:
        return run_threads(self.M, lambda link: party(self.place(link)), mesh(self.M, timeout=self.timeout))
