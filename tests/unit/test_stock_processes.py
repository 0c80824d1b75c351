"""Claims between real processes: killed with SIGKILL while the others live on, and several runs at the same stock."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from pdml_spdz.errors import StockError
from pdml_spdz.offline import claim as claims
from pdml_spdz.offline.from_stock import claim
from pdml_spdz.offline.ledger import Ledger
from pdml_spdz.offline.make import make
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.new_stock import alone
from pdml_spdz.offline.numbers import Kind, NumberStock
from pdml_spdz.offline.status import status
from tests.stocks import ROOT, claim_fake, failures, fake, fake_kind
from tests.threads import run_threads
from tests.unit.test_stock_child import PLAN


def start(stack: ExitStack, root: Path, run: str, count: int) -> list[subprocess.Popen[str]]:
    """The two parties of a run."""
    ends = socket.socketpair()
    parties = []
    for me, end in enumerate(ends):
        call = f"child({me}, {end.fileno()}, {str(root)!r}, {run!r}, {count})"
        command = [sys.executable, "-c", f"from tests.unit.test_stock_child import child; {call}"]
        process = subprocess.Popen(
            command, cwd=ROOT, pass_fds=[end.fileno()], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        parties.append(stack.enter_context(process))
        end.close()
    return parties


def given(process: subprocess.Popen[str], first: str = "") -> list[tuple[int, ...]]:
    """What a party said it was given: the numbers of triples and scalars, scalars as negative numbers."""
    assert process.stdout is not None
    out = (
        process.stdout.read()
    )  # not `communicate`, which would miss what `readline` took from the pipe beyond its line
    process.wait(timeout=60)
    # A line that the kill cut short was told to nobody.
    lines = [json.loads(line) for line in (first + out).splitlines(keepends=True) if line.endswith("\n")]
    return [(*triples, -1 - scalar) for triples, scalar in lines]


def test_nothing_is_used_again_after_a_party_was_killed(tmp_path: Path) -> None:
    fake(tmp_path, 2, Plan(700, (1,) * 350))
    used: set[int] = set()
    for number in range(3):
        killed = number % 2
        with ExitStack() as stack:
            parties = start(stack, tmp_path, f"run {number}", 100)
            assert parties[killed].stdout is not None
            # In the middle of things: of its hundred claims, each of them a round and a write to the disk.
            first = "".join(parties[killed].stdout.readline() for _ in range(random.randint(1, 20)))
            parties[killed].kill()
            other = given(parties[1 - killed])
            own = given(parties[killed], first)
        assert parties[killed].returncode == -9
        assert len(own) >= first.count("\n") >= 1
        assert abs(len(own) - len(other)) <= 1  # one of them may have been told, when the other was killed
        longer = max(own, other, key=len)
        assert longer[: len(own)] == own
        for part in longer:
            assert used.isdisjoint(part)
            used |= set(part)
    material = claim_fake(tmp_path, 2, PLAN)[0]
    _, line = material.claims[0]
    assert used.isdisjoint({line.records[0] + 1, line.records[1], -1 - line.items[0]})


def test_several_runs_at_one_stock_share_it_out(tmp_path: Path) -> None:
    runs, count = 2, 20
    fake(tmp_path, 2, Plan(2 * runs * count, (1,) * (runs * count)))
    with ExitStack() as stack:
        processes = [start(stack, tmp_path, f"run {i}", count) for i in range(runs)]
        results = [[given(party) for party in parties] for parties in processes]
    assert all(parties[0] == parties[1] and len(parties[0]) == count for parties in results)
    everything = [number for parties in results for part in parties[0] for number in part]
    assert len(everything) == len(set(everything)) == 3 * runs * count
    assert {(row.triples_left, row.scalars_left) for row in status(tmp_path)} == {(0, ())}


def test_a_stock_in_use_is_waited_for(tmp_path: Path) -> None:
    fake(tmp_path, 2)
    stock = NumberStock.find(tmp_path, fake_kind(2), 1)[0]
    held = Ledger.lock(stock.ledger_path, stock.manifest.heading)
    assert held is not None
    timer = threading.Timer(0.2, held.close)
    timer.start()
    claim_fake(tmp_path, 2, PLAN)
    timer.join()


def test_a_stock_that_stays_in_use_is_told_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "ATTEMPTS", 3)
    fake(tmp_path, 2)
    stock = NumberStock.find(tmp_path, fake_kind(2), 1)[0]
    held = Ledger.lock(stock.ledger_path, stock.manifest.heading)
    assert held is not None
    errors = failures(2, lambda link: claim(link, NumberStock.find(tmp_path, fake_kind(2), link.me), PLAN, b"run"))
    held.close()
    assert all(isinstance(error, StockError) and error.common for error in errors)
    assert "is not there or in use at P1" in str(errors[0])
    assert "is in use by another run of this party" in str(errors[1])


def test_a_make_that_was_killed_leaves_no_stock(tmp_path: Path) -> None:
    code = (
        "from pdml_spdz.offline.make import make; from tests.stocks import *\n"
        f"root = Path({str(tmp_path)!r})\n"
        "tell = [lambda done, *_: print(done, flush=True), None]\n"
        "run_threads(2, lambda link: make(link, root, Plan(1, (9,) * 400), Kind(2, 64, 64), b's', tell[link.me]))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < 20:
            pass
        process.kill()
    assert list(tmp_path.glob("stock-*/.party-*.new/scalar-*"))
    assert status(tmp_path) == []
    assert NumberStock.find(tmp_path, Kind(2, 64, 64), 0) == []


def test_one_make_of_a_party_at_a_time(tmp_path: Path) -> None:
    with alone(tmp_path, 0):
        errors = failures(2, lambda link: make(link, tmp_path, PLAN, fake_kind(2), b"s"))
    assert "party 0 is making a stock" in str(errors[0])
    assert not list(tmp_path.glob("stock-*"))
    assert run_threads(2, lambda link: make(link, tmp_path, PLAN, fake_kind(2), b"s").id)
