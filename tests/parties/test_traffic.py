"""Communication of whole runs, with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.local.joint import LocalRun, local_study, run_local


def reports(directory: Path, n: int, engine: str) -> list[dict[str, Any]]:
    files = []
    for m in range(2):
        np.save(path := directory / f"rows-{n}-{m}.npy", np.random.default_rng(m).normal(size=(n // 2, 8)))
        files.append(path)
    study = local_study(2, rank=2, solver="power", iterations=20, tol=0.0, engine=engine, reveal="sum")
    return run_local(LocalRun(files, study, directory / f"{engine}-{n}")).party_reports


@pytest.mark.parametrize("engine", ["secsum", "plain"])
def test_traffic_does_not_depend_on_the_number_of_rows(tmp_path: Path, engine: str) -> None:
    few, many = (reports(tmp_path, n, engine) for n in (1_000, 100_000))
    for a, b in zip(few, many, strict=True):
        assert (a["bytes_sent"], a["bytes_received"], a["rounds"]) == (
            b["bytes_sent"],
            b["bytes_received"],
            b["rounds"],
        )
        assert a["iterations"] == b["iterations"] == 20
