"""The benchmarks run, at a size that says nothing about speed."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.performance import peers, precision
from benchmarks.performance.network import Network
from pdml_spdz.bench import fits
from pdml_spdz.bench.links import run_processes
from pdml_spdz.bench.normed_sum import TableRequest, measure
from pdml_spdz.bench.results import ERROR, load
from pdml_spdz.errors import INTERRUPTED, EngineError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.transport.base import Link
from tests.parties.helpers import until

ROOT = Path(__file__).parents[2]
M = 2


def test_the_table_is_measured_and_says_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    command = [sys.executable, "-m", "pdml_spdz", "bench", "normed-sum", "--parties", str(M), "--dims", "20,40"]
    command += ["--engine", "embedded", "--repeats", "2", "-k", "2", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the paper (2018)" in done.stdout
    result = load(file)
    assert {"commit", "machine", "versions", "time", "mp_spdz"} <= set(result.origin)
    assert {"numpy", "python"} <= set(result.origin["versions"])
    for d in (20, 40):
        cold, fit = (result.find(engine="embedded", where=w, d=d) for w in ("cold", "fit"))
        assert cold is not None
        assert fit is not None
        # What was timed is NormedSecSum: y is off by M units an entry, and its norm by that times sqrt(d).
        assert max(c.values[ERROR].median for c in (cold, fit)) <= M * (1 + math.sqrt(d))
        assert fit.values["rounds"].median == 2
        assert cold.values["numbers"].median == fit.values["numbers"].median == d
        parts = ("online s", "offline s", "base OT s")
        assert cold.values["total s"].low >= max(cold.values[p].low for p in parts)
        assert 26 * d <= 1e6 * fit.values["online MB"].median <= 26 * d + 100  # 20 + 6 bytes a number and peer


def test_ctrl_c_keeps_what_there_is_and_the_same_command_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    command = [sys.executable, "-m", "pdml_spdz", "bench", "normed-sum", "--parties", str(M), "--dims", "20,40"]
    command += ["--engine", "embedded", "--repeats", "20", "-k", "2", "--json", str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until(file.is_file)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == INTERRUPTED, err
    assert "Traceback" not in err + out
    assert re.search(r"^4 cells to measure, about [\d.]+ min", out)
    assert "embedded, cold (31 bits)" in out
    kept = load(file)
    assert 0 < len(kept.cells) < 4
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{4 - len(kept.cells)} cells to measure")
    whole = load(file)
    assert [cell for cell in whole.cells if cell in kept.cells] == kept.cells
    assert len(whole.cells) == 4


def test_a_fit_is_taken_apart_and_its_bytes_do_not_depend_on_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    size = fits.FitSize(30, 6, 2, M)
    run, found = fits.run, list[fits.PartyCosts]()

    def kept(*arguments: Any) -> list[fits.PartyCosts]:
        found.extend(parties := run(*arguments))
        return parties

    monkeypatch.setattr(fits, "run", kept)
    engines = ("plain", "secsum")
    result = fits.measure(fits.FitRequest("svd", engines, size, (("n", (300,)),), iterations=3, repeats=1))
    assert [c for c in result.checks if "by n" in c.what]
    assert all(c.ok for c in result.checks if "by n" in c.what)
    for engine in engines:
        cell = result.find(engine=engine, n=30)
        assert cell is not None
        assert cell.values["rounds"].median == 2  # the sum, and V from party 0
    assert len(found) == 2 * len(engines) * M
    for fit in found:
        # Every second is counted once: the parts of a party's fit are not more than the whole, but for their rounding.
        parts = [getattr(fit.whole, name) for name in ("local", "wait", "transport", "crypto")]
        assert 0 < sum(parts) <= fit.whole.online * (1 + 1000 * EPS)
    rows = result.find(engine="all rows to everybody")
    assert rows is not None
    assert rows.values["fit MB"].median * 1e6 == pytest.approx(15 * 6 * 8, abs=100)


def test_lines_delay_and_keep_what_passes() -> None:
    """A lower bound only: what arrives before it could is wrong on any machine."""
    network = Network("slow", round_trip=0.06, bandwidth=8e6)

    def party(link: Link) -> float:
        link.all_to_all("barrier", b"")
        data = np.full(50_000, link.me, np.uint8)
        began = time.monotonic()
        received = link.all_to_all("data", data)
        seconds = time.monotonic() - began
        assert all(np.all(np.frombuffer(d, np.uint8) == l) for l, d in received.items())
        return seconds

    # 50 kB at 8 Mbit/s are 50 ms, to two peers over one uplink 100 ms; some may have left before both had begun.
    assert max(run_processes(3, party, network.wiring)) >= 0.03 + 0.09


def test_a_party_that_fails_ends_the_benchmark() -> None:
    def party(link: Link) -> None:
        if link.me == 1:
            raise ValueError("bad luck")
        link.all_to_all("never", b"")

    with pytest.raises(EngineError, match="P1: ValueError: bad luck"):
        run_processes(M, party)


def test_frameworks_that_cannot_run_have_rows_that_say_why() -> None:
    result = measure(TableRequest((2,), (20,), (), outside=(2,)), peers=peers.PEERS)
    assert {str(c.key["engine"]): c.missing for c in result.cells} == {
        "mpyc": "needs an honest majority: three parties at least",
        "spu": "its protocol ABY3 is for three parties",
    }
    assert set(peers.versions()) == {"mpyc", "gmpy2", "spu"}


def test_the_study_of_precision_finds_our_arithmetic_nearer_to_the_exact_one() -> None:
    result = precision.measure((10,), (10.0,), (20,))
    assert result.checks
    assert all(check.ok for check in result.checks)
    ours, theirs = (result.find(what="V_k", engine=engine) for engine in ("embedded", "paper"))
    assert ours is not None
    assert theirs is not None
    assert 0 < ours.values["error"].median < theirs.values["error"].median


def test_mpyc_computes_the_same_sum() -> None:
    if missing := peers.missing("mpyc", 3):
        pytest.skip(missing)
    (found,) = peers.run("mpyc", 3, 8, 24, 1)
    assert found["error"] <= 4  # of 24 bits: input, square, root and quotient are off by a unit each
    assert found["sent"] > 0


def test_a_benchmark_of_one_question_runs_and_says_where_its_numbers_come_from(tmp_path: Path) -> None:
    program = f"import benchmarks.parties as p, pathlib; p.RESULTS = pathlib.Path({str(tmp_path)!r}); "
    program += "import sys; sys.argv[1:] = ['20', '3', '4']; import benchmarks.bench_privacy as b; b.main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "privacy.json").read_text())
    assert {"quick", "ratios", "worst", "commit", "machine", "versions"} <= set(result)


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("bench_*.py")), ids=lambda file: file.stem)
def test_a_benchmark_says_what_it_measures_before_it_does(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [file.name, "--help"])
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"benchmarks.{file.stem}").main()
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out
