"""A sealed fit by the engine mp-spdz, as users have it."""

from __future__ import annotations

import numpy as np
import pytest

from pdml_spdz import svd
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.openings.sealed import GATE, RESULT, RITZ, SCALE
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.programs.sealed_precision import SealedPrecision
from tests.spdz.helpers import need

pytestmark = [
    pytest.mark.spdz_long,
    pytest.mark.skipif(
        home.find() is None, reason="MP-SPDZ was not found (MP_SPDZ_HOME, or the user's data directory)"
    ),
]


@pytest.mark.parametrize(("protocol", "M", "d"), [("semi", 2, 4), ("hemi", 3, 5)])
def test_components_are_right_and_nothing_else_is_seen(protocol: str, M: int, d: int) -> None:
    need(protocol)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, d)) * ([5, 2, 1, 0.5, 0.2][:d])
    parts = np.array_split(X, M)
    settings = {"rank": 1, "reveal": "sealed", "accuracy_goal": 1e-2, "decay": 0.1, "seed": 1}
    result = svd(parts, engine="mp-spdz", protocol=protocol, **settings)  # type: ignore[arg-type]
    assert sine(result.V, np.linalg.svd(X)[2][:1].T) < 1e-2
    report = result.report
    assert {o for o in report["observables"] if "exponent" not in o} == {SCALE, RITZ, GATE, RESULT}
    assert report["program"] == "sealed_svd"
    assert report["mp_spdz"]["executions"] == 1
    assert report["gate"]["reached"] == 1
    # The same program from the same start: both open V to its last place, up to carries that are lost.
    embedded = svd(parts, **settings).V  # type: ignore[arg-type]
    f_out = SealedPrecision(M, d, 1, 2, report["precision"]["goal_bits"]).f_out
    assert np.abs(np.ldexp(result.V - embedded * np.sign(np.sum(result.V * embedded)), f_out)).max() <= M + 1
