"""PD-NMF is centralised RRI-NMF from the same start. [PDML Theorem 1]"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf_start import rri_nmf
from pdml_spdz.algorithms.rri import Penalties
from tests.nmf.helpers import (
    ALL,
    EACH,
    NONE,
    centralised,
    dense_rows,
    distributed,
    observed_rows,
    rounding,
    settings_for,
    split,
    topics,
)

CASES = [
    *((kind, M, NONE, False) for kind in ("dense", "sparse", "weighted") for M in (1, 2, 5)),
    *((kind, 2, NONE, True) for kind in ("dense", "sparse")),
    *(("dense", 2, penalties, False) for penalties in EACH),
    *((kind, 5, ALL, False) for kind in ("dense", "sparse", "weighted")),
    ("dense", 30, NONE, False),
    ("weighted", 30, ALL, False),
]


@pytest.mark.parametrize(("kind", "M", "penalties", "paper_order"), CASES)
def test_theorem_1_equals_centralised_iteration_from_the_same_start(
    kind: str, M: int, penalties: Penalties, paper_order: bool
) -> None:
    weighted = kind == "weighted"
    S, B = observed_rows()
    X = S.toarray() if weighted else dense_rows()
    rows = {"dense": X, "sparse": sp.csr_array(X), "weighted": S}[kind]
    settings = settings_for(X, 6, penalties=penalties, weighted=weighted, paper_order=paper_order)
    T_0 = topics(4, X.shape[1])
    W, T = centralised(X, T_0, settings, B if weighted else None)
    if M == 1:
        W_found, T_found = rri_nmf(rows, T_0, settings)
    else:
        results, Ws = distributed(split(rows, M), T_0, settings)
        W_found, T_found = np.vstack(Ws), results[0].T
        for result in results:
            np.testing.assert_array_equal(result.T, T_found)
    tolerances = rounding(X, T_0, settings, M, B if weighted else None)
    for found, exact, tolerance in zip((W_found, T_found), (W, T), tolerances, strict=True):
        assert tolerance <= 1e-5 * np.abs(exact).max()  # sharp enough to tell one rule from another
        assert np.abs(found - exact).max() <= tolerance


def test_theorem_1_orders_and_penalties_are_told_apart() -> None:
    """The test above could not confuse them: after six sweeps all of these are far from each other."""
    X = dense_rows()
    variants = [settings_for(X, 6, penalties=p) for p in (NONE, *EACH)] + [settings_for(X, 6, paper_order=True)]
    found = [rri_nmf(X, topics(4, 9), settings)[1] for settings in variants]
    apart = [np.abs(a - b).max() for i, a in enumerate(found) for b in found[:i]]
    assert min(apart) > 1e-3
