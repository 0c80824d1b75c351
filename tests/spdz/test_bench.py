"""The benchmark of MP-SPDZ runs, at a size that says nothing about speed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.bench_mp_spdz as b
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.programs.paper import normed_sum_error

FOUND = home.find()
pytestmark = [pytest.mark.spdz, pytest.mark.skipif(FOUND is None, reason=home.missing_text())]
ROOT = Path(__file__).parents[2]


def test_benchmark_runs_and_marks_what_it_scaled(tmp_path: Path) -> None:
    """Two parties, whose random bits are cheap; the time limit lets the paper's program run at its smallest length."""
    M, d, f = 2, 5, 10
    sizes = [f"--parties={M}", f"--dim={d}", f"--bits={f}", "--columns=2", "--repeats=1", "--limit=0.001"]
    program = f"import benchmarks.parties as p, pathlib; p.RESULTS = pathlib.Path({str(tmp_path)!r}); "
    program += f"import sys; sys.argv[1:] = {sizes!r}; import benchmarks.bench_mp_spdz as b; b.main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "mp_spdz.json").read_text())
    assert {"arguments", "ratios", "stream", "commit", "machine", "versions"} <= set(result)
    fit, cold, paper = (
        next(c for c in result["measured"] if c["program"] == name) for name in (b.FIT, b.COLD, b.PAPER)
    )
    assert (paper["d"], result["paper"]["d"], result["paper"]["scaled_from"]) == (4, d, 4)
    assert "~ scaled from d = 4" in done.stdout
    # What was timed is NormedSecSum: y = u is off by M units an entry, and its norm by that times sqrt(d).
    assert max(fit["error"], cold["error"]) <= M * (1 + math.sqrt(d))
    assert paper["error"] <= normed_sum_error(f, 4, norm=0.5) * (1 + math.sqrt(4))  # u is made a unit vector
    for cell in (fit, cold, paper):
        assert min(cell["rounds"], cell["offline_megabytes"]) > 0
