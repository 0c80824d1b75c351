"""What other packages bring: an algorithm with a line in their entry points, under 40 lines, and nothing in ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BROUGHT = {"algorithms": {"averaging": "tests.outside.averaging:AVERAGING"}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory in which the other package is installed, and two parties' rows."""
    info = tmp_path / "site" / "outside-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    lines = [f"[pdml_spdz.{group}]\n{name} = {where}\n" for group, b in BROUGHT.items() for name, where in b.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", np.random.default_rng(m).normal(size=(20 + m, 4)) + m)
    return tmp_path


def command(directory: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory / "site"), str(ROOT)])}
    ended = subprocess.run(
        [sys.executable, "-m", "pdml_spdz", *arguments], cwd=directory, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_algorithm_of_another_package_has_command_report_resume_init_and_doctor(outside: Path) -> None:
    fit = ["averaging", "0.npy", "1.npy", "--rank", "1", "--out", "r", "--json"]
    first = json.loads(command(outside, *fit, "--iterations", "4"))
    assert (first["algorithm"], first["engine"], first["iterations"]) == ("averaging", "secsum", 4)
    assert "the mean of all rows, to every party" in first["observables"]
    assert json.loads(command(outside, *fit, "--iterations", "40", "--resume"))["iterations"] == 40
    mean = np.concatenate([np.load(outside / f"{m}.npy") for m in range(2)]).mean(axis=0)
    # Half the way forty times; and the sums are below 200, opened to 44 bits.
    allowed = np.abs(mean).max() * 2.0**-40 + 2 * 2.0**8 * 2.0**-43
    assert np.abs(np.load(outside / "r" / "average.npy") - mean).max() <= allowed
    command(outside, "init", "--algorithm", "averaging", "--parties", "2", "--rank", "1")
    assert "# k, the number of averages" in (outside / "study.toml").read_text()
    assert "2 parties, averaging, rank 1" in command(outside, "doctor", "study.toml", "--json")
    assert "The mean." in command(outside, "averaging", "--help")


def test_name_that_nobody_brought_is_no_command(outside: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pdml_spdz", "avergaing", "0.npy"], cwd=outside, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "No such command 'avergaing'" in ended.stderr
