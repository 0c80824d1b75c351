"""A sealed fit by the engine mp-spdz, as users have it."""

from __future__ import annotations

import numpy as np
import pytest

from pdml_spdz import svd
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.openings.sealed import GATE, RESULT, RITZ, SCALE
from pdml_spdz.numerics.linalg import sine

pytestmark = [
    pytest.mark.spdz_long,
    pytest.mark.skipif(
        home.find() is None, reason="MP-SPDZ was not found (MP_SPDZ_HOME, or the user's data directory)"
    ),
]


def test_components_are_right_and_nothing_else_is_seen() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 4)) * [5, 2, 1, 0.5]
    settings = {"engine": "mp-spdz", "protocol": "semi", "reveal": "sealed", "accuracy_goal": 1e-2, "decay": 0.1}
    result = svd(np.split(X, [20]), rank=1, **settings)  # type: ignore[arg-type]
    assert sine(result.V, np.linalg.svd(X)[2][:1].T) < 1e-2
    report = result.report
    assert {o for o in report["observables"] if "exponent" not in o} == {SCALE, RITZ, GATE, RESULT}
    assert report["program"] == "sealed_svd"
    assert report["mp_spdz"]["executions"] == 1
    assert report["gate"]["reached"] == 1
