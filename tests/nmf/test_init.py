"""PD-NMF-Init: what it merges, the bound on what that costs, and topics from singular vectors. [PDML Theorem 2]"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from pdml_spdz.algorithms import nmf_start
from pdml_spdz.algorithms.nmf import SweepResult, SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import nnsvd, pd_nmf_init, rri_nmf
from pdml_spdz.algorithms.rri import FullPart, Penalties
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.normed_sum import own_sum
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.transport.base import Clock, Link
from tests.nmf.helpers import best_error, dense_rows, settings_for, topics
from tests.threads import run_threads
from tests.unit.test_svd import digits, pooled


@dataclass(frozen=True)
class Init:
    """PD-NMF-Init of all parties: the local models, the rows that stand for them, and the topics of those."""

    X: list[np.ndarray]
    W: list[np.ndarray]
    T: list[np.ndarray]
    That: list[np.ndarray]
    T_init: np.ndarray


@pytest.fixture(scope="module")
def init() -> Init:
    """On some of the digits; party 1 has fewer rows than topics."""
    tables, k = [X[::6] for X in digits(700, 740)], 8
    local, merged = {}, {}

    def iterate(
        its: FullPart, state: SweepState, settings: SweepSettings, sec_sum: SecSum, *rest: object, **clock: Clock
    ) -> SweepResult:
        result = pd_nmf_iter(its, state, settings, sec_sum, *rest, **clock)  # type: ignore[arg-type]
        if sec_sum is own_sum:
            local[next(m for m, X in enumerate(tables) if X is its.X.dense())] = its.W, result.T
        else:
            merged[sec_sum.link.me] = its.X.dense()  # type: ignore[attr-defined]
        return result

    def party(link: Link) -> np.ndarray:
        sec_sum, settings = SecSumEngine(link, b"test", "auto").sec_sum, settings_for(pooled(tables), 20)
        return pd_nmf_init(tables[link.me], k, link.M, settings, sec_sum, Agreement(link), clock=link.clock).T

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmf_start, "pd_nmf_iter", iterate)
        T_init = run_threads(3, party)[0]
    return Init(
        tables, [local[m][0] for m in range(3)], [local[m][1] for m in range(3)], [merged[m] for m in range(3)], T_init
    )


def test_init_merges_the_local_topics_weighted_by_their_use(init: Init) -> None:
    for W, T, That in zip(init.W, init.T, init.That, strict=True):
        np.testing.assert_allclose(That, np.diag(np.sqrt(np.sum(W**2, axis=0))) @ T, rtol=len(W) * EPS)
        np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=64 * EPS)


def test_theorem_2_bounds_the_error_of_every_basis(init: Init) -> None:
    """sqrt(E_X(Z)) <= sqrt(E_X(W, T)) + sigma_max(W V^-1) sqrt(E_That(Z)): for Z given to the rows of That, W V^-1
    times the best coefficients is one choice for X.
    """
    X, That = np.vstack(init.X), np.vstack(init.That)
    local = sum(0.5 * np.sum((X_m - W @ T) ** 2) for X_m, W, T in zip(init.X, init.W, init.T, strict=True))
    # Block diagonal over the parties, so the largest of theirs; a topic that no row uses has neither W nor That.
    sigma = max(
        np.linalg.norm(W[:, use] / np.linalg.norm(W[:, use], axis=0), 2) for W in init.W for use in [W.any(axis=0)]
    )
    bases = [topics(8, 64, seed) for seed in range(3)]
    bases += [np.eye(8, 64), That[:8], That[-8:], init.T_init, rri_nmf(X, init.T_init, settings_for(X, 10))[1]]
    for Z in bases:
        bound = np.sqrt(local) + sigma * np.sqrt(best_error(That, Z))
        # Both sides are norms, computed by sums of as many squares as there are entries.
        assert np.sqrt(best_error(X, Z)) <= bound * (1 + X.size * EPS)


def test_theorem_2_init_lowers_both_errors(init: Init) -> None:
    """From random topics: of the merged rows, which it minimises, and with them of the parties' rows."""
    for Y in (np.vstack(init.That), np.vstack(init.X)):
        assert best_error(Y, init.T_init) < 0.5 * min(best_error(Y, topics(8, 64, seed)) for seed in range(5))


@pytest.mark.parametrize(
    "empty", [np.zeros((5, 9)), sp.csr_array((5, 9)), np.zeros((1, 9))], ids=["dense", "sparse", "row"]
)
def test_init_with_a_party_that_has_only_zeros(empty: RowsLike) -> None:
    X = dense_rows()
    X[7] = 0.0
    tables, settings = [X[:20], empty, X[20:]], settings_for(X, 10)

    def party(link: Link) -> np.ndarray:
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        return pd_nmf_init(tables[link.me], 3, link.M, settings, sec_sum, Agreement(link), clock=link.clock).T

    T = run_threads(3, party)[0]
    assert np.all(np.isfinite(T))
    assert np.all(T >= 0)
    assert best_error(X, T) < 0.5 * best_error(X, topics(3, 9))


@pytest.mark.parametrize("scale", [2.0**-600, 2.0**-40, 2.0**40])
def test_nnsvd_does_not_depend_on_the_scale(scale: float) -> None:
    X = dense_rows()
    np.testing.assert_array_equal(nnsvd(scale * X, 3), nnsvd(X, 3))  # powers of two: nothing is rounded


def test_nnsvd_topics_are_positive_and_explain_the_rows() -> None:
    X = load_digits().data
    for rows in (X, sp.csr_array(X)):
        T = nnsvd(rows, 8)
        assert np.all(T > 0)
        np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=64 * EPS)
        assert best_error(X[::9], T) < 0.5 * min(best_error(X[::9], topics(8, 64, seed)) for seed in range(5))


def test_init_keeps_its_topics_whatever_the_penalties_are() -> None:
    """Penalties that suit many rows would leave one topic of the few that the parties' topics are."""
    X = np.vstack(digits(700, 740))[::6]
    tables, settings = [X[:100], X[100:]], settings_for(X, 10, penalties=Penalties(1.0, 1.0, 1.0, 1.0))

    def party(link: Link) -> np.ndarray:
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        return pd_nmf_init(tables[link.me], 5, link.M, settings, sec_sum, Agreement(link), clock=link.clock).T

    T = run_threads(2, party)[0]
    np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=64 * EPS)
    assert best_error(X, T) < 0.5 * min(best_error(X, topics(5, 64, seed)) for seed in range(3))
