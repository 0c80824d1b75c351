"""The paper's own programs on real MP-SPDZ: the square root over the whole range, NormedSecSum, one process a party."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.programs.paper import paper_field_bits, powers_of_ten, value_bits
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program, render
from tests.paper_errors import normed_sum_error, sqrt_error
from tests.parties.helpers import free_ports
from tests.spdz.helpers import need

FOUND = home.find()
HOME = FOUND.path if FOUND else None
pytestmark = [
    pytest.mark.spdz,
    pytest.mark.skipif(HOME is None, reason="MP-SPDZ was not found (MP_SPDZ_HOME, or the user's data directory)"),
]
SECONDS = 300  # a run that takes longer hangs


def compiled(directory: Path, program: Program, *options: str) -> str:
    """What the compiler says about the program."""
    (directory / f"{program.name}.mpc").write_text(program.text)
    command = [sys.executable, f"{HOME}/compile.py", *options, f"{program.name}.mpc"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(directory: Path, protocol: str, name: str, inputs: Sequence[Sequence[int]]) -> np.ndarray:
    """The integers that the program opens, the same at every party."""
    M = len(inputs)
    (directory / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(M)))
    for m, numbers in enumerate(inputs):
        (directory / f"in-P{m}-0").write_text(" ".join(map(str, numbers)))
    parties = []
    try:
        for m in range(M):
            command = [f"{HOME}/{protocol}-party.x", "-N", str(M), "-p", str(m), "-ip", "hosts", "-IF", "in"]
            command += ["-o", "no_memory_output", name]
            with (directory / f"log-P{m}").open("w") as log:
                parties.append(subprocess.Popen(command, cwd=directory, stdout=log, stderr=log))
        codes = [party.wait(SECONDS) for party in parties]
    finally:
        for party in parties:
            party.kill()
            party.wait()
    assert codes == [0] * M, (directory / "log-P0").read_text()
    opened = [np.fromfile(directory / "Player-Data" / f"Binary-Output-P{m}-0", np.int64) for m in range(M)]
    assert all(np.array_equal(other, opened[0]) for other in opened)
    return opened[0]


@pytest.mark.parametrize("f", [10, 20, 31])
def test_square_roots_over_the_whole_range(tmp_path: Path, f: int) -> None:
    top, precision = 2 ** (value_bits(f) - 1) - 1, Precision(2, f)
    generator = random.Random(f)
    # Zero, one ulp, the edges of a decade below 1 and above it (where the start is farthest off), the largest.
    S = [0, 1, powers_of_ten(f)[2] - 1, powers_of_ten(f)[2], 2**f - 1, 2**f, top]
    S += [int(2 ** generator.uniform(0, 2 * f - 1)) for _ in range(2)]
    compiled(tmp_path, render("fixed_point_sqrt", precision, len(S), 1), "-F", str(paper_field_bits(precision)))
    roots = run(tmp_path, "semi", "fixed_point_sqrt", [S, []])
    assert roots[0] == 0
    for number, root in zip(S, roots, strict=True):
        assert abs(int(root) - math.sqrt(number * 2**f)) <= sqrt_error(f), number


@pytest.mark.parametrize(
    ("protocol", "M", "f"),
    [("semi", 2, 10), ("semi", 3, 20), ("semi", 2, 31), ("semi2k", 2, 31)],
)
def test_normed_sum_of_the_paper(tmp_path: Path, protocol: str, M: int, f: int) -> None:
    need(protocol)
    precision, d, norm = Precision(M, f), 8, 0.6
    rng = np.random.default_rng(f)
    x = rng.standard_normal((M, d))
    X = np.rint(x / np.linalg.norm(x.sum(0)) * norm * 2**f).astype(np.int64)
    columns = [X] if M == 3 else [X, np.zeros_like(X)]
    inputs = np.concatenate(columns, axis=1).tolist()
    # In a ring the quotient needs no mask above it: 4 f + 3 bits.
    options = ["-R", "128"] if protocol == "semi2k" else ["-F", str(paper_field_bits(precision))]
    compiled(tmp_path, render("normed_sum_paper", precision, d, len(columns)), *options)
    opened = run(tmp_path, protocol, "normed_sum_paper", inputs)
    u = opened.reshape(len(columns), d)
    s = X.sum(0) / 2**f
    bound = normed_sum_error(f, d, float(np.linalg.norm(s)))
    assert np.abs(u[0] - s / np.linalg.norm(s) * 2**f).max() <= bound
    assert not u[1:].any()  # a sum that is zero


@pytest.mark.parametrize(("name", "f"), [("fixed_point_sqrt", 20), ("normed_sum_paper", 31)])
def test_prime_is_as_long_as_we_say(tmp_path: Path, name: str, f: int) -> None:
    precision = Precision(3, f)
    said = compiled(tmp_path, render(name, precision, 8, 1), "-F", str(paper_field_bits(precision)))
    schedule = (tmp_path / "Programs" / "Schedules" / f"{name}.sch").read_text()
    assert f"lgp:{paper_field_bits(precision)}\n" in schedule
    assert "inf" not in said.split("Program requires at most:")[1]  # so that an offline phase can be sized
