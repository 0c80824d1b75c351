"""The benchmark of MP-SPDZ runs, at a size that says nothing about speed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pdml_spdz.bench import mp_spdz
from pdml_spdz.bench.results import ERROR, load
from pdml_spdz.engines.mp_spdz import home
from tests.paper_errors import normed_sum_error
from tests.parties.helpers import run

FOUND = home.find()
pytestmark = [pytest.mark.spdz, pytest.mark.skipif(FOUND is None, reason=home.missing_text())]


def test_benchmark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parties, whose random bits are cheap."""
    M, d, f = 2, 5, 10
    monkeypatch.setattr(mp_spdz, "COLUMNS", 2)
    cold, fit = (mp_spdz.cell(M, d, f, "semi", "projection", where, 1) for where in ("cold", "fit"))
    paper = mp_spdz.cell(M, 4, f, "semi", "paper", "cold", 1)
    # What was timed is NormedSecSum: y = u is off by M units an entry, and its norm by that times sqrt(d).
    assert max(values[ERROR].median for values in (cold, fit)) <= M * (1 + math.sqrt(d))
    assert paper[ERROR].median <= normed_sum_error(f, 4, norm=0.5) * (1 + math.sqrt(4))  # u is made a unit vector
    for values in (cold, fit, paper):
        assert min(values[name].median for name in ("rounds", "offline MB", "triples")) > 0
    assert mp_spdz.cell(M, d, f, "temi", "projection", "cold", 1)["offline MB"].median > 0  # without offline program


def test_the_command_keeps_every_cell_and_says_why_one_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default protocol, with the paper's program among what is measured; a program that does not start."""
    assert FOUND is not None
    (broken := tmp_path / "broken").mkdir()
    for path in FOUND.path.iterdir():
        (broken / path.name).symlink_to(path)
    (broken / "semi-party.x").unlink()
    code = (FOUND.path / "semi-party.x").read_bytes()
    (broken / "semi-party.x").write_bytes(b"#!/bin/sh\nexec false # " + code)
    (broken / "semi-party.x").chmod(0o755)
    command = ["bench", "normed-sum", "--parties", "2", "--dims", "5", "--engine", "mp-spdz", "--bits", "10"]
    command += ["--protocol", "hemi,semi", "--repeats", "1", "--limit", "1000", "--json", str(tmp_path / "t.json")]
    done = run(*command, cwd=tmp_path, within=300.0, MP_SPDZ_HOME=str(broken), TMPDIR=str(tmp_path))
    done.well()
    cells = {(c.key["protocol"], c.key["program"], c.key["where"]): c for c in load(tmp_path / "t.json").cells}
    assert len(cells) == 6
    for (name, *_), cell in cells.items():
        assert bool(cell.values) == (name == "hemi")
        assert bool(cell.missing) == (name == "semi")
        if cell.missing:
            assert cell.missing.startswith("failed: a party of the benchmark failed")
            (logs,) = re.findall(r"\(logs: (\S+)\)", cell.missing)
            assert list(Path(logs).rglob("*.log"))
            assert not list(Path(logs).rglob("*.key"))
    assert "failed: " in done.out
    again = run(*command, cwd=tmp_path, within=300.0)  # with the real one
    again.well()
    assert again.out.startswith("3 cells to measure")
