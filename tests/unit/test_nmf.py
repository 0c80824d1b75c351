"""PD-NMF against centralised RRI-NMF as the paper prints it, and against scikit-learn."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from pdml_spdz.algorithms import nmf_start
from pdml_spdz.algorithms.nmf import CONVERGED, Result, Settings, State, addend_bounds, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import Alone, nnsvd, own_sum, pd_nmf_init, rri_nmf
from pdml_spdz.algorithms.rri import FullPart, Part, Penalties, part
from pdml_spdz.clock import Clock
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import QuotaError
from pdml_spdz.fixedpoint import Format
from pdml_spdz.linalg import EPS, Rows
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.sec_sum import SecSum
from pdml_spdz.transport.base import Link
from tests.threads import run_threads
from tests.unit.test_svd import digits, pooled

NONE = Penalties()
EACH = [Penalties(alpha=0.3), Penalties(beta=0.3), Penalties(gamma=0.3), Penalties(delta=0.3)]
ALL = Penalties(0.1, 0.2, 0.05, 0.1)


def topics(k: int, d: int, seed: int = 0) -> np.ndarray:
    """A start: rows of sum 1."""
    T = np.random.default_rng(seed).uniform(size=(k, d))
    return T / T.sum(axis=1, keepdims=True)


def dense_rows(n: int = 40, d: int = 9, seed: int = 1) -> np.ndarray:
    """Non-negative, with zeros, and not of low rank."""
    rng = np.random.default_rng(seed)
    return np.maximum(rng.gamma(0.5, size=(n, 3)) @ rng.gamma(0.5, size=(3, d)) + rng.normal(0.0, 0.3, (n, d)), 0.0)


def observed_rows(n: int = 40, d: int = 9, seed: int = 2) -> tuple[sp.csr_array, np.ndarray]:
    """Half of the entries, some of them zeros that are stored; and where they are."""
    B = np.random.default_rng(seed).random((n, d)) < 0.5
    X = np.floor(3.0 * dense_rows(n, d, seed))
    return sp.csr_array((X[B], np.nonzero(B)), shape=(n, d)), B


def split(X: Rows, M: int) -> list[Rows]:
    """Uneven parts; the first has one row."""
    cuts = [0, *(1 + (np.arange(M - 1) * (X.shape[0] - 1)) // M), X.shape[0]] if M > 1 else [0, X.shape[0]]
    return [X[a:b] for a, b in itertools.pairwise(cuts)]


def settings_for(X: Rows, tau: int, tol: float = 0.0, **options: object) -> Settings:
    return Settings(tau, tol, FullPart(X, 1).norm(), **options)  # type: ignore[arg-type]


def distributed(tables: Sequence[Rows], T: np.ndarray, settings: Settings) -> tuple[list[Result], list[np.ndarray]]:
    """Every party's result of PD-NMF-Iter between threads, and every party's W."""

    def party(link: Link) -> tuple[Result, np.ndarray]:
        local = part(tables[link.me], len(T), weighted=settings.weighted)
        sec_sum = SecSumEngine(link, b"test", "auto").sec_sum
        return pd_nmf_iter(local, State(T), settings, sec_sum, Agreement(link), clock=link.clock), local.W

    results = run_threads(len(tables), party)
    return [result for result, _ in results], [W for _, W in results]


def nearest(x: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex, by bisection."""
    low, high = x.max() - 1.0, x.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0.0).sum() > 1.0 else (low, middle)
    return np.maximum(x - low, 0.0)


@dataclass(frozen=True)
class Jolt:
    """Errors of the twin's numbers: signs from `rng`, each `factor` times what M parties' arithmetic may have."""

    rng: np.random.Generator
    factor: float
    M: int
    settings: Settings

    def __call__(self, x: np.ndarray, size: np.ndarray) -> np.ndarray:
        return x + self.factor * self.rng.choice([-1.0, 1.0], x.shape) * size


def centralised(
    X: np.ndarray, T: np.ndarray, settings: Settings, B: np.ndarray | None = None, jolt: Jolt | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(W, T) of RRI-NMF on all rows, [PDML Eq. nmf_update]: R_t is formed anew for every topic, as a dense matrix.

    B : 1 where X is observed
    """
    (n, d), k, p = X.shape, len(T), settings.penalties
    B = np.ones((n, d)) if B is None else B.astype(float)
    W, T = np.zeros((n, k)), T.copy()
    sums = Format.for_bound(1.0, jolt.M).tolerance * addend_bounds(settings, d) if jolt else np.zeros(d + 1)
    for _ in range(settings.tau):
        for t in range(k):
            R = B * (X - W @ T + np.outer(W[:, t], T[t]))
            below = B @ T[t] ** 2 + p.delta
            above = R @ T[t]
            # Each inner product is rounded by its number of terms, relative to the sum of their sizes.
            sizes = X + W @ T + np.outer(W[:, t], T[t])
            if jolt:
                above = jolt(above, (d + 2 * k) * EPS * (sizes @ T[t]))
            above = np.maximum(above - p.gamma, 0.0)
            W[:, t] = np.divide(above, below, out=np.zeros(n), where=below > 0)
            num, den = W[:, t] @ R, W[:, t] ** 2 @ B
            if jolt:
                num = jolt(num, (n + 2 * k) * EPS * (W[:, t] @ sizes) + sums[:d])
                den = jolt(den, n * EPS * den + sums[d])
            quotient = np.divide(num - p.alpha, den + p.beta, out=T[t].copy(), where=den + p.beta > 0)
            if settings.simplex and settings.paper_order:
                quotient = np.maximum(quotient, 0.0)
            T[t] = nearest(quotient) if settings.simplex else np.maximum(quotient, 0.0)
    return W, T


def rounding(
    X: np.ndarray, T: np.ndarray, settings: Settings, M: int, B: np.ndarray | None = None
) -> tuple[float, float]:
    """How far W and T of two correct runs may be apart.

    All updates together magnify an error by what the data make of it: measured on the twin, with all its numbers a
    thousand times as wrong as M parties' can be. A run's own errors, smaller than their bounds, are one more draw.
    """
    factor, exact = 1e3, centralised(X, T, settings, B)
    jolts = [Jolt(np.random.default_rng(i), factor, M, settings) for i in range(3)]
    wrong = [centralised(X, T, settings, B, jolt) for jolt in jolts]
    W, T = (2 * max(np.abs(w[i] - exact[i]).max() for w in wrong) / factor for i in range(2))
    return W, T


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
        assert tolerance <= 1e-9 * np.abs(exact).max()  # sharp enough to tell one rule from another
        assert np.abs(found - exact).max() <= tolerance


def test_theorem_1_orders_and_penalties_are_told_apart() -> None:
    """The test above could not confuse them: after six sweeps all of these are far from each other."""
    X = dense_rows()
    variants = [settings_for(X, 6, penalties=p) for p in (NONE, *EACH)] + [settings_for(X, 6, paper_order=True)]
    found = [rri_nmf(X, topics(4, 9), settings)[1] for settings in variants]
    apart = [np.abs(a - b).max() for i, a in enumerate(found) for b in found[:i]]
    assert min(apart) > 1e-6


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
        # A bound that W may not reach: where entries are missing and nothing is penalised, W may be of any size.
        settings = settings_for(1e6 * X, sweeps, penalties=penalties, weighted=weighted)
        watched = Watched(part(S if weighted else X, k, weighted=weighted), X, B if weighted else None, penalties)
        pd_nmf_iter(watched, State(topics(k, 9, seed)), settings, own_sum, Alone(), clock=Clock())
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


def best_error(Y: np.ndarray, Z: np.ndarray) -> float:
    """E_Y(Z) = min over W >= 0 of ||Y - W Z||_F^2 / 2, by an active-set solver."""
    return 0.5 * sum(scipy.optimize.nnls(Z.T, y)[1] ** 2 for y in Y)


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
        its: FullPart, state: State, settings: Settings, sec_sum: SecSum, *rest: object, **clock: Clock
    ) -> Result:
        result = pd_nmf_iter(its, state, settings, sec_sum, *rest, **clock)  # type: ignore[arg-type]
        if sec_sum is own_sum:
            local[next(m for m, X in enumerate(tables) if X is its.X)] = its.W, result.T
        else:
            merged[sec_sum.link.me] = its.X  # type: ignore[attr-defined]
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


def test_sparse_rows_are_never_dense() -> None:
    """Start, iterations, fit and error of a table that would take 3 GB."""
    n, d, k, nnz = 20_000, 20_000, 4, 60_000
    rng = np.random.default_rng(5)
    S = sp.csr_array((rng.uniform(1.0, 2.0, nnz), (rng.integers(0, n, nnz), rng.integers(0, d, nnz))), shape=(n, d))
    S.sum_duplicates()
    tracemalloc.start()
    T = nnsvd(S, k)
    for weighted in (False, True):
        settings = settings_for(S, 1, weighted=weighted, penalties=Penalties(delta=1.0))
        local = part(S, k, weighted=weighted)
        pd_nmf_iter(local, State(T), settings, own_sum, Alone(), clock=Clock())
        local.fit(T, settings.penalties, sweeps=1)
        local.restore(local.W, T)
        assert np.isfinite(local.error(T))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few vectors for each of 2 k + 1 Lanczos vectors, k topics or all stored entries.
    assert peak <= 8 * 8 * (nnz + (2 * k + 1) * (n + d))


def test_a_missing_entry_is_not_a_zero() -> None:
    """X = w t^T with holes has an exact fit of rank one; with zeros in the holes it has none."""
    rng = np.random.default_rng(6)
    X = np.outer(rng.uniform(1, 2, 30), rng.uniform(1, 2, 7))
    B = rng.random(X.shape) < 0.6
    S = sp.csr_array(np.where(B, X, 0.0))
    errors = {}
    for weighted in (True, False):
        settings = settings_for(S, 200, weighted=weighted)
        W, T = rri_nmf(S, topics(1, 7), settings)
        errors[weighted] = np.linalg.norm(B * (X - W @ T)) / np.linalg.norm(X)
    assert errors[True] <= X.size * EPS
    assert errors[False] > 0.1


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
    settings = settings_for(1e3 * X, 12, 1e-3, penalties=penalties, weighted=weighted)
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
    results, _ = distributed([X[:10], X[10:]], T_0, Settings(50, 1e-6, 1e4, penalties))
    for result in results:
        assert (result.state.t, result.state.stop) == (1, CONVERGED)
        np.testing.assert_array_equal(result.T, T_0)
        assert any("3 of 3 topics died" in warning for warning in result.warnings)


@pytest.mark.parametrize("k", [3, 8], ids=["k > rank", "k > d"])
def test_more_topics_than_the_rank(k: int) -> None:
    X = np.outer(np.arange(1.0, 21.0), np.arange(6.0))
    results, Ws = distributed([X[:4], np.zeros((3, 6)), X[4:]], topics(k, 6), settings_for(X, 30, 1e-9))
    T, W = results[0].T, np.vstack([Ws[0], Ws[2]])
    assert not np.any(Ws[1])
    assert np.all(np.isfinite(T))
    assert np.all(T >= 0)
    np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=6 * EPS)
    # Every column of a residual of rank one is explained by the first topic that is in use.
    assert np.linalg.norm(X - W @ T) <= X.size * EPS * np.linalg.norm(X)


@pytest.mark.parametrize(
    "empty", [np.zeros((5, 9)), sp.csr_array((5, 9)), np.zeros((1, 9))], ids=["dense", "sparse", "row"]
)
def test_init_with_a_party_that_has_only_zeros(empty: Rows) -> None:
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


@pytest.mark.parametrize("weighted", [False, True], ids=["full", "weighted"])
def test_an_iteration_goes_on_from_kept_coefficients(weighted: bool) -> None:
    S, B = observed_rows()
    X = S.toarray()
    settings = settings_for(S, 8, weighted=weighted)
    T_0 = topics(3, 9)
    half, first = replace(settings, tau=4), part(S, 3, weighted=weighted)
    T = pd_nmf_iter(first, State(T_0), half, own_sum, Alone(), clock=Clock()).T
    second = part(S, 3, weighted=weighted)
    second.restore(first.W, T)
    assert second.error(T) == pytest.approx(first.error(T), rel=X.size * EPS)
    T = pd_nmf_iter(second, State(T), half, own_sum, Alone(), clock=Clock()).T
    W, whole = rri_nmf(S, T_0, settings)
    tolerances = rounding(X, T_0, settings, 1, B if weighted else None)
    assert np.abs(second.W - W).max() <= tolerances[0]
    assert np.abs(T - whole).max() <= tolerances[1]


@pytest.mark.parametrize("weighted", [False, True], ids=["full", "weighted"])
def test_fit_of_coefficients_is_the_non_negative_least_squares_fit(weighted: bool) -> None:
    S, B = observed_rows()
    X, T = S.toarray(), topics(3, 9)
    B = B if weighted else np.ones_like(B)
    local = part(S, 3, weighted=weighted)
    local.fit(T, NONE)
    W = np.array([scipy.optimize.nnls((b * T).T, x)[0] for x, b in zip(X, B, strict=True)])
    # Every column is exact when it is set; those after it then move by at most 1e-10 of the largest: what is left of
    # the gradient is that times T T^T, and the distance is the gradient over the smallest curvature of a row.
    curvature = min(np.linalg.eigvalsh((b * T) @ T.T)[0] for b in B[B.sum(axis=1) >= 3])
    rows = B.sum(axis=1) >= 3  # with fewer entries than topics the fit is not unique
    moved = 1e-10 * max(1.0, local.W.max()) * np.abs(T @ T.T).sum()
    assert np.linalg.norm(local.W[rows] - W[rows], axis=1).max() <= moved / curvature
    # Convexity: the error is above the least one by at most gradient times distance, here of twice the half squares.
    apart = np.linalg.norm(local.W - W, axis=1).sum()
    error = np.sum((B * (X - W @ T)) ** 2)
    assert abs(local.error(T) - error) <= 2 * moved * apart + X.size * EPS * np.sum(X**2)


def test_sums_beyond_the_bound_are_refused() -> None:
    """One entry, of a feature that the topic hardly has: W is as large as that is small."""
    S = sp.csr_array(np.eye(1, 4))
    T = np.array([[1e-9, 1.0, 1.0, 1.0]])
    with pytest.raises(QuotaError, match=r"nothing of it was sent(.|\n)*keep W small \(--gamma, --delta\)"):
        rri_nmf(S, T, settings_for(S, 5, weighted=True))
    W, _ = rri_nmf(S, T, settings_for(S, 5, weighted=True, penalties=Penalties(delta=0.1)))
    assert np.all(np.isfinite(W))
