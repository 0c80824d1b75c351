"""What the benchmarks of this directory share with `pdml_spdz.bench`, and where their results go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pdml_spdz.bench.links import run_processes
from pdml_spdz.bench.origin import origin
from pdml_spdz.bench.stats import quartiles

__all__ = ["quartiles", "run_processes", "save"]
RESULTS = Path(__file__).parent / "results"


def save(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content | origin(), indent=2) + "\n")
    print(f"\nwrote {path}")
