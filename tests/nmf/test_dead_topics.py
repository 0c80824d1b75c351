"""Topics that no row uses, rows of zeros, more topics than there is rank."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf import CONVERGED, SweepSettings, addend_bounds, least_use
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.sec_sum import Accuracy
from tests.nmf.helpers import NONE, dense_rows, distributed, settings_for, topics


def dead_start() -> tuple[np.ndarray, np.ndarray]:
    """Rows that never have the last feature, and three topics of which one has nothing else."""
    X = np.hstack([dense_rows(d=6), np.zeros((40, 1))])
    T = topics(3, 7)
    T[1] = np.eye(7)[6]
    return X, T


@pytest.mark.parametrize("penalties", [NONE, Penalties(alpha=0.1, delta=0.1), Penalties(beta=0.1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_topic_that_no_row_uses_stays_and_is_reported(penalties: Penalties, weighted: bool) -> None:
    X, T_0 = dead_start()
    tables = [sp.csr_array(X[:10]), sp.csr_array(X[10:])] if weighted else [X[:10], X[10:]]
    settings = settings_for(X, 12, 1e-3, penalties=penalties, weighted=weighted)
    results, Ws = distributed(tables, T_0, settings)
    for result, W in zip(results, Ws, strict=True):
        assert np.all(np.isfinite(result.T))
        assert not np.any(W[:, 1])
        assert W[:, [0, 2]].any()
        # beta pulls a topic that explains nothing to zero: that is its minimum.
        np.testing.assert_array_equal(result.T[1], 0.0 if penalties.beta else T_0[1])
        assert any("1 of 3 topics died: no party's rows use them" in warning for warning in result.warnings)


@pytest.mark.parametrize("penalties", [NONE, Penalties(gamma=1e6)], ids=["zero rows", "gamma above all rows"])
def test_topics_that_are_dead_at_once_are_reported(penalties: Penalties) -> None:
    """The run converges in its first sweep, which is no success."""
    X = dense_rows() if penalties.any else np.zeros((40, 9))
    T_0 = topics(3, 9)
    results, _ = distributed([X[:10], X[10:]], T_0, SweepSettings(50, 1e-6, 1e4, penalties))
    for result in results:
        assert (result.state.t, result.state.stop) == (1, CONVERGED)
        np.testing.assert_array_equal(result.T, T_0)
        assert any("3 of 3 topics died" in warning for warning in result.warnings)


@pytest.mark.parametrize("k", [3, 8], ids=["k > rank", "k > d"])
def test_more_topics_than_the_rank(k: int) -> None:
    X = np.outer(np.arange(1.0, 21.0), np.arange(6.0))
    settings = settings_for(X, 30, 1e-9)
    results, Ws = distributed([X[:4], np.zeros((3, 6)), X[4:]], topics(k, 6), settings)
    T, W = results[0].T, np.vstack([Ws[0], Ws[2]])
    assert not np.any(Ws[1])
    assert np.all(np.isfinite(T))
    assert np.all(T >= 0)
    np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=6 * EPS)
    # Every column of a residual of rank one is explained by the first topic that is in use. What is left is what
    # rounding of the sums makes of T: (of num + of den) / den for every entry of T_t, times W_t; that is most for the
    # least den = ||W_t||^2 that counts.
    accuracy = Accuracy(0.0, Format.for_bound(1.0, 3).tolerance)
    least = least_use(6, accuracy, settings) - accuracy.tolerance
    rounded = X.size * EPS * np.linalg.norm(X)
    for T_t in T:
        of_num, of_den = addend_bounds(T_t, k, settings)[[0, -1]]
        rounded += np.sqrt(6) * accuracy.tolerance * (of_num + of_den) / np.sqrt(least * of_den)
    assert np.linalg.norm(X - W @ T) <= rounded <= 1e-4 * np.linalg.norm(X)
