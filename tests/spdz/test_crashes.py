"""Killed at any moment, at any party: no virtual machine goes on, and no material is ever read twice."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pdml_spdz.engines.mp_spdz.directory import sweep
from pdml_spdz.engines.mp_spdz.place import MATERIAL
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing
from pdml_spdz.offline.stock import StockPart, directory, look
from pdml_spdz.study.model import PrecisionSettings, Timeouts
from tests.parties.helpers import Parties, Process, until
from tests.spdz.helpers import LONG, REQUIRED, machines

pytestmark = [LONG, REQUIRED]
KILLS = 20
STOCKS = "stocks"
OPTIONS = ["--stock", STOCKS, "--force"]
SETTINGS: dict[str, Any] = {
    "engine": "mp-spdz",
    "reveal": "normed",
    "protocol": "semi",
    "offline": "stock",
    "d": 6,
    "rank": 1,
    "solver": "power",
    "iterations": 100,
    "tol": 0.0,
    "precision": PrecisionSettings(10, 20),  # an unlucky start is well within the range
    "bound": "1000",
    "timeouts": Timeouts(connect=5.0, round=15.0),  # who is killed before a machine meets the other is waited for
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Parties]:
    made = Parties(tmp_path / "site", 2, **SETTINGS)
    yield made
    made.clear_away()


class Stocks:
    """What the parties have made, and on their disks."""

    def __init__(self, site: Parties) -> None:
        self.site = site
        self.made: dict[int, dict[str, set[str]]] = {m: {} for m in range(site.M)}  # party, stock: digests of its files

    def root(self, m: int) -> Path:
        return self.site.home(m) / STOCKS / MATERIAL

    def parts(self, m: int) -> list[StockPart[Preprocessing]]:
        return look(Preprocessing, self.root(m))

    def make(self) -> None:
        before = self.offered()
        processes = [
            Process("offline", "make", "study.toml", "--id", str(m), "--stock", STOCKS, cwd=self.site.home(m))
            for m in range(self.site.M)
        ]
        try:
            for process in processes:
                process.end(within=60.0).well()
        finally:
            for process in processes:
                process.clear_away()
        (stock,) = self.offered() - before
        for m in range(self.site.M):
            parts = directory(self.root(m), stock, m) / "Player-Data"
            # Files without any random number in them are the same in all stocks: parameters, headers.
            self.made[m][stock] = {digest(path) for path in parts.glob("*/*") if path.stat().st_size > 1000}
            assert self.made[m][stock]

    def offered(self) -> set[str]:
        """By all parties."""
        return set.intersection(*({s.name for s in self.parts(m) if not s.claims} for m in range(self.site.M)))

    def claimed(self, m: int) -> set[str]:
        return {s.name for s in self.parts(m) if s.claims}

    def look(self) -> None:
        """As the party's next run does: what killed ones have left is cleared away."""
        for m in range(self.site.M):
            sweep(self.root(m))
            Preprocessing.tidy(self.root(m), m)

    def check(self) -> None:
        """At no party is a stock that it has claimed claimed again, or anywhere on its disk."""
        self.look()
        for m in range(self.site.M):
            listed = self.parts(m)
            assert [s.problem for s in listed] == [""] * len(listed)
            assert all(len(s.claims) <= 1 for s in listed)
            burnt = set().union(*(self.made[m][stock] for stock in self.claimed(m)))
            files = [path for path in self.site.home(m).rglob("*") if path.is_file() and not path.is_symlink()]
            assert not burnt & {digest(path) for path in files}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def run_well(site: Parties) -> None:
    for end in site.run(*OPTIONS):
        end.well()


def test_killed_at_any_moment_material_is_used_once_and_no_machine_is_left(site: Parties) -> None:
    stocks, chance = Stocks(site), random.Random(20)
    for _ in range(2):  # the first run also starts the server from which processes are forked
        stocks.make()
        duration = timed(lambda: run_well(site))
    kills = []
    for i in range(KILLS):
        while len(stocks.offered()) < 2:
            stocks.make()
        before = stocks.claimed(0)
        for m in range(2):
            site.start(m, *OPTIONS)
        time.sleep((i + chance.random()) / KILLS * duration)
        running = bool(machines(site.directory))
        victims = chance.choice([[0], [1], [0, 1]])
        for m in victims:
            with suppress(ProcessLookupError):  # it was faster
                site.processes[m].signal(signal.SIGKILL)
        for m, end in enumerate(site.end(within=60.0)):
            if m in victims:
                assert end.code in (-signal.SIGKILL, 0)
            assert "Traceback" not in end.err
        until(lambda: machines(site.directory) == [], within=10.0)
        kills.append((stocks.claimed(0) != before, running))
        stocks.check()

        # The next run takes another one, and takes it at both parties.
        claimed = [stocks.claimed(m) for m in range(2)]
        run_well(site)
        taken = []
        for m in range(2):
            report = json.loads((site.results(m) / "report.json").read_text())
            # It may also have burnt one that only the other party had claimed.
            assert report["stock"]["id"] in stocks.claimed(m) - claimed[m]
            taken.append(report["stock"]["id"])
        assert taken[0] == taken[1]
        assert stocks.claimed(0) == stocks.claimed(1)
        stocks.check()
    assert {False, True} == {claimed for claimed, _ in kills} == {running for _, running in kills}
