"""A kind of rows that another package brings, with files of its own: its entry point is found by every party."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.numerics.linalg import EPS

BRINGS = """
from pathlib import Path

import numpy as np

from pdml_spdz.rows.base import BLOCK, Rows


class OnDisk(Rows):
    '''A directory's arrays, one after the other; in memory is one of them at a time.'''

    def __init__(self, files):
        self.files = files

    @property
    def shape(self):
        heads = [np.load(file, mmap_mode="r").shape for file in self.files]
        return sum(n for n, _ in heads), heads[0][1]

    def blocks(self, numbers=BLOCK):
        return map(np.load, self.files)


def read(path):
    return OnDisk([path.parent / line for line in path.read_text().split()]), None
"""
ENTRY = "[pdml_spdz.readers]\n.parts = brought:read\n"


@pytest.fixture
def brought(tmp_path: Path) -> dict[str, str]:
    """The environment of processes in which a package `brought` is installed."""
    site = tmp_path / "site"
    (site / "brought-1.0.dist-info").mkdir(parents=True)
    (site / "brought.py").write_text(BRINGS)
    (site / "brought-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (site / "brought-1.0.dist-info" / "entry_points.txt").write_text(ENTRY)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}


@pytest.mark.parametrize(("command", "result"), [("svd", "V.npy"), ("nmf", "T.npy")])
def test_files_of_another_kind_give_what_arrays_give(
    command: str, result: str, brought: dict[str, str], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    parts = [[rng.gamma(0.7, size=(n, 5)) * [9, 7, 4, 2, 1] for n in (3, 8, 5)] for _ in range(2)]
    for m, tables in enumerate(parts):
        for i, table in enumerate(tables):
            np.save(tmp_path / f"{m}-{i}.npy", table)
        (tmp_path / f"{m}.parts").write_text("\n".join(f"{m}-{i}.npy" for i in range(len(tables))))
        np.save(tmp_path / f"{m}.npy", np.vstack(tables))
    found = []
    for ending in ("parts", "npy"):
        files = [str(tmp_path / f"{m}.{ending}") for m in range(2)]
        out = tmp_path / ending
        options = ["--rank", "2", "--engine", "plain", "--seed", "1", "--iterations", "30", "--out", str(out)]
        run = [sys.executable, "-m", "pdml_spdz", command, *files, *options]
        done = subprocess.run(run, env=brought, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(np.load(out / result))
    # 30 iterations or sweeps, each of which rounds sums of 32 x 5 products; gaps are above 1/20.
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=20 * 30 * 32 * 5 * EPS)
