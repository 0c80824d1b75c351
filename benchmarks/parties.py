"""Where the results of this directory's benchmarks go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pdml_spdz.bench.results import origin

RESULTS = Path(__file__).parent / "results"


def save(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(content | origin(), indent=2) + "\n")
    print(f"\nwrote {path}")
