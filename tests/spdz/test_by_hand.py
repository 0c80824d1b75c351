"""mpc_programs/README.md as it stands: programs by hand, with MP-SPDZ's own scripts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from pdml_spdz.engines.mp_spdz import home
from tests.spdz.helpers import MARKS

pytestmark = MARKS
PAGE = Path(__file__).parents[2] / "mpc_programs" / "README.md"


def test_readme(tmp_path: Path) -> None:
    here = Path(sys.executable).parent
    environment = os.environ | {"MP_SPDZ_HOME": str(home.require().path), "PATH": f"{here}:{os.environ['PATH']}"}
    said = ""
    for language, text in re.findall(r"^```(bash|python)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        command = ["bash", "-ec", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout
    lists = [np.array(numbers.split(","), float) for numbers in re.findall(r"\[(-?\d[-\d., e]*)\]", said)]
    half = np.full(4, 0.5)
    expected = [half, half, 2 * half, half, half, np.sqrt([2, 9, 144])]
    # Rounded to 2^-31 (the root by itself and the paper's norm: to a few units of that), and then to six digits.
    assert len(lists) == len(expected)
    for found, wanted in zip(lists, expected, strict=True):
        assert np.abs(found - wanted).max() <= 1e-6
