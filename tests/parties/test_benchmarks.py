"""The benchmarks run, at a size that says nothing about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "sizes", "keys"),
    [
        ("sec_sum", ["50", "2"], {"rows", "time_ratio"}),
        ("svd", ["60", "8", "2"], {"loops", "ratio", "memory_over_data"}),
        ("privacy", ["20", "3", "4"], {"quick", "ratios", "worst"}),
        ("embedded", ["40", "2", "2"], {"loop", "ratio", "cold", "material"}),
    ],
)
def test_benchmark_runs_and_says_where_its_numbers_come_from(
    tmp_path: Path, name: str, sizes: list[str], keys: set[str]
) -> None:
    program = f"import benchmarks.parties as p, pathlib; p.RESULTS = pathlib.Path({str(tmp_path)!r}); "
    program += f"import sys; sys.argv[1:] = {sizes!r}; import benchmarks.bench_{name} as b; b.main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / f"{name}.json").read_text())
    assert keys | {"commit", "machine", "versions"} <= set(result)
