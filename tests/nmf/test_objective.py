"""The objective never rises, and ends where scikit-learn's does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from pdml_spdz.algorithms.nmf import SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import nnsvd, rri_nmf
from pdml_spdz.algorithms.rri import Part, Penalties, part
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.transport.base import Clock
from tests.nmf.helpers import ALL, EACH, NONE, dense_rows, observed_rows, settings_for, topics


class Watched(Part):
    """A part that reports the objective after every update of a column of W and of a row of T."""

    def __init__(self, inner: Part, X: np.ndarray, B: np.ndarray | None, p: Penalties) -> None:
        self.inner, self.X, self.p = inner, X, p
        self.B = np.ones_like(X) if B is None else B
        self.W, self.d = inner.W, inner.d
        self.values: list[float] = []
        self.rounding = 0.0

    def objective(self, T: np.ndarray) -> None:
        """And how far rounding of X - W T, entry by entry, and of the sums may move it."""
        W, p, (n, d), k = self.W, self.p, self.X.shape, len(T)
        E = self.B * (self.X - W @ T)
        penalties = p.alpha * T.sum() + p.beta / 2 * np.sum(T**2) + p.gamma * W.sum() + p.delta / 2 * np.sum(W**2)
        value = 0.5 * np.sum(E**2) + penalties
        error = (2 * k + 4) * EPS * np.linalg.norm(self.X + W @ T)
        self.values.append(float(value))
        self.rounding = max(self.rounding, 2 * (error * np.linalg.norm(E) + error**2 + n * d * EPS * value))

    def update(self, t: int, T: np.ndarray, p: Penalties) -> tuple[np.ndarray, np.ndarray]:
        if not self.values:
            self.objective(T)
        sums = self.inner.update(t, T, p)
        self.objective(T)
        return sums

    def moved(self, t: int, before: np.ndarray, T: np.ndarray) -> None:
        self.inner.moved(t, before, T)
        self.objective(T)

    def error(self, T: np.ndarray) -> float:
        return self.inner.error(T)

    def normal_equations(self, T: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        return self.inner.normal_equations(T, rows)

    def norm(self) -> float:
        return self.inner.norm()


@pytest.mark.parametrize("weighted", [False, True], ids=["full", "weighted"])
@pytest.mark.parametrize("penalties", [NONE, *EACH, ALL])
def test_objective_never_rises(penalties: Penalties, weighted: bool) -> None:
    sweeps = 15
    for seed in range(4):
        k = 1 + seed
        S, B = observed_rows(seed=10 + seed)
        X = S.toarray() if weighted else dense_rows(seed=20 + seed)
        settings = settings_for(X, sweeps, penalties=penalties, weighted=weighted)
        watched = Watched(part(S if weighted else X, k, weighted=weighted), X, B if weighted else None, penalties)
        pd_nmf_iter(watched, SweepState(topics(k, 9, seed)), settings, own_sum, Alone(), clock=Clock())
        assert len(watched.values) == 1 + 2 * k * sweeps
        assert np.diff(watched.values).max() <= watched.rounding
        assert watched.rounding <= 1e-10 * watched.values[0]
        assert watched.values[-1] < watched.values[0]


def against_scikit_learn(X: np.ndarray, T_0: np.ndarray) -> float:
    """||X - W T||_F over that of scikit-learn's coordinate descent, both from T_0 and W = 0."""
    W, T = rri_nmf(X, T_0, settings_for(X, 100))
    # It refuses a W of nothing but zeros; its first step replaces W whatever it is.
    model = NMF(len(T_0), init="custom", solver="cd", tol=1e-6, max_iter=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, W=np.full((len(X), len(T_0)), 1e-12), H=T_0.copy())
    return float(np.linalg.norm(X - W @ T) / model.reconstruction_err_)


def test_error_is_that_of_scikit_learn_from_singular_vectors() -> None:
    X = load_digits().data[::3]
    assert abs(against_scikit_learn(X, nnsvd(X, 10)) - 1.0) <= 0.01


def test_error_is_that_of_scikit_learn_from_random_topics() -> None:
    # From one start the two may end in different local minima: on average they are equally good.
    X = load_digits().data[::3]
    ratios = [against_scikit_learn(X, topics(7, 64, seed)) for seed in range(3)]
    assert abs(np.mean(ratios) - 1.0) <= 0.01
