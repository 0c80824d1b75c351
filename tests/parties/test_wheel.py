"""The wheel is whole: templates inside, commands that run without the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(directory / "site")
    return directory / "site"


def test_wheel_contains_every_template(unpacked: Path) -> None:
    shipped = {p.name for p in (unpacked / "pdml_spdz" / "templates").iterdir()}
    assert shipped == {p.name for p in (ROOT / "templates").iterdir()}


def test_wheel_runs_by_itself(unpacked: Path, tmp_path: Path) -> None:
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", np.random.default_rng(m).normal(size=(20, 4)))

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "pdml_spdz", *arguments]
        environment = {"PYTHONPATH": str(unpacked), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    run("init", "--parties", "2", "--rank", "2")
    reference = (ROOT / "mpc_programs" / "normed_sum.mpc").read_text()
    assert run("render", "normed_sum", "--parties", "3", "--dim", "1000") == reference
    assert (tmp_path / "study.toml").exists()
    run("svd", "0.npy", "1.npy", "--rank", "2", "--out", "out")
    assert np.load(tmp_path / "out" / "V.npy").shape == (4, 2)
