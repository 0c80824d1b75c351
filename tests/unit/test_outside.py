"""What other packages bring: an algorithm, a solver, each with a line in their entry points, under 40 lines."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BROUGHT = {
    "algorithms": {"averaging": "tests.outside.averaging:AVERAGING"},
    "solvers": {"steps": "tests.outside.steps:STEPS"},
}


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


def python(directory: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(directory / "site"), str(ROOT)])}
    ended = subprocess.run([sys.executable, *arguments], cwd=directory, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def command(directory: Path, *arguments: str) -> str:
    return python(directory, "-m", "pdml_spdz", *arguments)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


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


SCRIPT = """
import numpy as np, pdml_spdz
from pdml_spdz.estimators import PDSVD
parties = [np.load(f"{m}.npy") for m in range(2)]
V = pdml_spdz.svd(parties, rank=2, solver="steps", seed=1, iterations=7, transport="threads", engine="plain").V
np.save("V.npy", V)
assert PDSVD(2, solver="steps", engine="plain", max_iter=3).fit(np.concatenate(parties)).report_["solver"] == "steps"
"""


def test_solver_of_another_package_has_option_report_and_resume(outside: Path) -> None:
    python(outside, "-c", SCRIPT)
    expected = np.load(outside / "V.npy")
    for engine in ("plain", "embedded"):
        fit = ["svd", "0.npy", "1.npy", "--rank", "2", "--out", engine, "--json", "--seed", "1", "--engine", engine]
        fit += ["--solver", "steps"]
        first = json.loads(command(outside, *fit, "--iterations", "4"))
        assert (first["solver"], first["iterations"], first["stop_reason"]) == ("steps", 4, "all steps were made")
        assert json.loads(command(outside, *fit, "--iterations", "7", "--resume"))["iterations"] == 7
        found = np.load(outside / engine / "V.npy")
        # Two parties' numbers, opened to 31 bits, seven times; the spectrum of these rows magnifies that by less than
        # 2^4.
        assert np.abs(found - expected).max() <= (0 if engine == "plain" else 7 * 2.0 ** (4 - 31))
    assert "steps: so many steps." in " ".join(command(outside, "svd", "--help").split())


def test_they_are_small() -> None:
    for path in (ROOT / "tests" / "outside").glob("*.py"):
        assert len([line for line in path.read_text().splitlines() if line.strip()]) < 40


PARTIES = """
import pathlib, threading
import numpy as np
import pdml_spdz
from pdml_spdz.study.file import load
study, found = load(pathlib.Path("study.toml")), {}
def party(m):
    found[m] = pdml_spdz.run_party(study, m, np.load(f"{m}.npy"), certs=f"certs-{m}", out="apart")
threads = [threading.Thread(target=party, args=(m,)) for m in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert [found[m].report["party_id"] for m in range(2)] == [0, 1]
np.save("found.npy", found[0].V)
print(found[1])
"""


def test_algorithm_of_another_package_runs_party_by_party_from_python(outside: Path) -> None:
    ports = free_ports(2)
    command(outside, "init", "--algorithm", "averaging", "--parties", "2", "--rank", "1", "--iterations", "40")
    text = (outside / "study.toml").read_text()
    for m, port in enumerate(ports):
        text = text.replace(f'"host-{m}.example"', '"127.0.0.1"').replace(f"port = {7000 + m}\n", f"port = {port}\n")
        command(outside, "certs", "make", "--id", str(m), "--dir", f"certs-{m}")
    (outside / "study.toml").write_text(text)
    for m in range(2):
        command(outside, "certs", "add", f"certs-{1 - m}/P{1 - m}.pem", "--dir", f"certs-{m}")
    command(outside, "certs", "fingerprints", "study.toml", "--dir", "certs-0")
    said = python(outside, "-c", PARTIES)
    # It is not one of the package's own: what is returned is what every algorithm's run has.
    assert said.startswith("LocalResult(average.npy (4,), 2 parties, engine secsum, 40 iterations, NOT converged")
    mean = np.concatenate([np.load(outside / f"{m}.npy") for m in range(2)]).mean(axis=0)
    allowed = np.abs(mean).max() * 2.0**-40 + 2 * 2.0**8 * 2.0**-43
    assert np.abs(np.load(outside / "found.npy") - mean).max() <= allowed


def test_name_that_nobody_brought_is_no_command(outside: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pdml_spdz", "avergaing", "0.npy"], cwd=outside, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "No such command 'avergaing'" in ended.stderr
