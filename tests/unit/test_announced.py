"""What a run will show is known before it begins, and is what it has shown when it has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdml_spdz.fits.announced import announced
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.study.model import NmfSettings

SUMS: dict[str, Any] = {"engine": "secsum", "iterations": 3, "tol": 0.0}
CASES: list[dict[str, Any]] = [
    {"algorithm": "pca", **SUMS},
    {"algorithm": "pca", **SUMS, "bound": "100000"},
    {"algorithm": "pca", **SUMS, "scale": "secsum", "variance": True},
    {"algorithm": "pca", **SUMS, "centre": "none", "variance": True},
    {"algorithm": "pca", **SUMS, "centre": "none", "bound": "exponent"},
    {"algorithm": "svd", **SUMS, "scale": "secsum"},
    {"algorithm": "svd", "engine": "plain", "iterations": 3, "tol": 0.0},
    {"algorithm": "pca", "iterations": 2, "tol": 0.0, "bound": "exponent"},
    {"algorithm": "pca", "iterations": 2, "tol": 0.0, "variance": True},
    *({"algorithm": "nmf", "iterations": 2, "nmf": NmfSettings(init=init)} for init in ("pd", "nnsvd", "best_of_M")),
    {"algorithm": "nmf", "iterations": 2, "scale": "secsum", "nmf": NmfSettings(init="random", objective=True)},
    {"algorithm": "nmf", "iterations": 2, "seed": 1, "start": "seed", "nmf": NmfSettings(weighted=True)},
]


@pytest.mark.parametrize("settings", CASES, ids=lambda s: "-".join(str(v) for v in s.values())[:60])
def test_run_shows_what_was_announced(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    rows = [np.abs(rng.standard_normal((20, 4))) * [8.0, 4.0, 2.0, 1.0] for _ in range(3)]
    study = local_study(3, **({"rank": 2} | settings))
    report = run_local(LocalRun(rows, study, transport="threads")).report
    assert sorted(announced(study)) == sorted(report["observables"])
