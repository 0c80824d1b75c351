"""mpc_programs/README.md as it stands: a program by hand, with MP-SPDZ's own scripts."""

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
        said = done.stdout
    # Rounded to 2^-31, and then by the README to six digits.
    assert np.abs(np.array(re.findall(r"-?\d+\.\d+", said), float) - 0.5).max() <= 1e-6
