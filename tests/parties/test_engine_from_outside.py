"""An engine of another package: an entry point and one file, and every surface knows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.errors import StudyError

TOY = '''
"""An engine of another package: sums over a link, in the clear."""
import numpy as np

from pdml_spdz.engines.base import EngineBase, Security
from pdml_spdz.engines.spec import EngineSpec, Diagnosis
from pdml_spdz.primitives.sec_sum import EXACT


class ToySum:
    def __init__(self, link):
        self.link = link

    def __call__(self, x, bound, purpose):
        received = self.link.all_to_all(f"toy:{purpose}", x)
        addends = {peer: np.frombuffer(data).reshape(x.shape) for peer, data in received.items()} | {self.link.me: x}
        return np.sum([addends[m] for m in sorted(addends)], axis=0)

    def accuracy(self, bound):
        return EXACT

    def positive(self, x, purpose, bits=44):
        return self(x, 0.0, purpose)

    def integer(self, n, purpose):
        return round(self(np.array([float(n)]), 0.0, purpose)[0])

    def anywhere(self, flags, purpose):
        return [bool(s) for s in self(np.array(flags, float), 0.0, purpose)]


class ToyEngine(EngineBase):
    name, insecure, security = "toy", True, Security("none: a toy", False, "none")


def check(study, want):
    want(study.rank < 4, f"`rank` is {study.rank} with a toy.", "a rank below 4")


def doctor(home):
    yield Diagnosis("ok", "toy", "wound up")


TOY = EngineSpec(
    "toy", ("sum",), "not for work.", lambda c: ToyEngine(c.link, ToySum(c.link)), check, doctor, in_the_clear=True
)
'''
SCRIPT = """
import sys
import numpy as np
import pdml_spdz
from pdml_spdz.estimators import PDSVD
a, b, out = sys.argv[1:]
same = {"rank": 2, "iterations": 4, "tol": 0.0, "seed": 3}
toy, plain = (pdml_spdz.svd([np.load(a), np.load(b)], engine=engine, **same) for engine in ("toy", "plain"))
assert toy.report["engine"] == "toy" and toy.report["insecure"] and np.array_equal(toy.V, plain.V)
fitted = PDSVD(2, engine="toy", transport="threads", max_iter=4, tol=0.0).fit(np.load(a))
assert fitted.singular_values_ is not None
np.save(out, toy.V)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two parties' rows and, beside them, an installed package that brings the engine `toy`."""
    root = tmp_path_factory.mktemp("toy")
    (root / "toy_engine.py").write_text(TOY)
    installed = root / "toy_engine-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[pdml_spdz.engines]\ntoy = toy_engine:TOY\n")
    for name, seed in (("a.npy", 1), ("b.npy", 2)):
        np.save(root / name, np.random.default_rng(seed).standard_normal((20, 5)))
    return root


def python(place: Path, *arguments: str, code: int = 0) -> str:
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_the_toy_is_small() -> None:
    lines = [line for line in TOY.splitlines() if line.strip()]
    assert len(lines) < 40


def test_commands_and_functions_run_it_as_any_other(place: Path) -> None:
    command = ["-m", "pdml_spdz", "svd", "a.npy", "b.npy", "--rank", "2", "--iterations", "4", "--tol", "0"]
    said = python(place, *command, "--seed", "3", "--engine", "toy", "--json", "--out", "out")
    report = json.loads(said.splitlines()[-1])
    assert (report["engine"], report["reveal"]) == ("toy", "sum")
    assert report["observables"][0].startswith("every party's own S_m V_t")
    python(place, "-c", SCRIPT, "a.npy", "b.npy", "V.npy")
    assert np.array_equal(np.load(place / "out" / "party-0" / "V.npy"), np.load(place / "V.npy"))


def test_init_writes_it_and_doctor_asks_it(place: Path) -> None:
    run = ["-m", "pdml_spdz"]
    python(place, *run, "init", "--parties", "2", "--rank", "2", "--engine", "toy", "--dim", "5")
    assert 'engine = "toy"\n' in (place / "study.toml").read_text()
    found = {f["what"]: f["found"] for f in json.loads(python(place, *run, "doctor", "study.toml", "--json"))}
    assert found["toy"] == "wound up"
    assert "rank 2" in found["study"]


def test_its_own_check_and_its_name_are_in_messages(place: Path) -> None:
    run = ["-m", "pdml_spdz"]
    assert "toy: not for work." in " ".join(python(place, *run, "svd", "--help").split())
    said = python(place, *run, "svd", "a.npy", "b.npy", "--rank", "4", "--engine", "toy", code=StudyError.code)
    assert "`rank` is 4 with a toy." in said
    said = python(
        place,
        *run,
        "svd",
        "a.npy",
        "b.npy",
        "--rank",
        "2",
        "--engine",
        "toy",
        "--reveal",
        "normed",
        code=StudyError.code,
    )
    assert "which has no opening 'one-scale'" in said
    said = python(place, *run, "offline", "plan", "--engine", "toy", "--dim", "5", "--rank", "2", code=StudyError.code)
    assert "an engine that has an offline phase" in said
