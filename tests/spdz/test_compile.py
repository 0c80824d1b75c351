"""The rendered programs are MP-SPDZ programs: its own compiler takes them, and counts what our dry run counts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import domain_of
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import render

FOUND = home.find()
HOME = FOUND.path if FOUND else None
pytestmark = [
    pytest.mark.spdz,
    pytest.mark.skipif(HOME is None, reason="MP-SPDZ was not found (MP_SPDZ_HOME, or the user's data directory)"),
]
STATISTICAL = 40  # MP-SPDZ's own security parameter


@pytest.mark.parametrize("own_masks", [False, True])
@pytest.mark.parametrize("f_out", [10, 20, 31])
@pytest.mark.parametrize(
    ("name", "columns", "iterations"), [("normed_sum", 2, 1), ("scaled_sum", 3, 5), ("scaled_sum_centred", 3, 5)]
)
def test_compiler_takes_the_program(
    tmp_path: Path, name: str, columns: int, iterations: int, f_out: int, own_masks: bool
) -> None:
    precision, d = Precision(3, f_out), 20
    program = render(name, precision, d, columns, iterations, own_masks=own_masks)
    (tmp_path / f"{name}.mpc").write_text(program.text)
    field = precision.scalar_value_bits + STATISTICAL + 2
    command = [sys.executable, f"{HOME}/compile.py", "-F", str(field), f"{name}.mpc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    triples = re.search(r"(\d+) integer triples", done.stdout)
    inputs = re.findall(r"(\d+) integer inputs from player", done.stdout)
    bits = re.search(r"(\d+) integer bits", done.stdout)
    plan = machine.plan(program.twin or program)
    masks = sum(2 * t.n for call in machine.truncations(program.twin) for t in call) if program.twin else 0
    # There a scalar times a vector is one triple for each number.
    assert triples is not None
    assert int(triples[1]) == plan.triples + plan.numbers
    # The mean and what rounding makes of rho, once, and what the mean has in each column, in every iteration.
    more = d + 1 + iterations * columns if name == "scaled_sum_centred" else 0
    assert [int(n) for n in inputs] == [2 * iterations * columns * d + masks + more] * 3
    assert (bits is None) == own_masks
    if own_masks:  # the compiler sees no truncation, and would ask for a prime that has no room for the masks
        schedule = (tmp_path / "Programs" / "Schedules" / f"{name}.sch").read_text()
        (lgp,) = re.findall(r"^lgp:(\d+)$", schedule, re.MULTILINE)
        assert int(lgp) == int(domain_of(program, precision, protocol("semi"))[0][1])
