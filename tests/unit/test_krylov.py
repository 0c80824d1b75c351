"""Block Lanczos on openings with noise: the plain twin of an engine that opens y to 31 bits."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.experiments import datasets, official
from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.krylov_state import KrylovState, restored, saved
from pdml_spdz.algorithms.shown import Shown, ritz, sines
from pdml_spdz.algorithms.solver import CONVERGED, EXHAUSTED, GO_ON, Fitting, SvdSettings, start_by_seed
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.errors import InputError, ProtocolError
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.normed_sum import Alone, NormedColumns, own_directions
from pdml_spdz.transport.base import Clock, Link
from pdml_spdz.transport.inprocess import between_threads
from tests.opened import Case, Counting, Matrix, Twin, off

KINDS = 6  # of spectra


def symmetric(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(S, W): a matrix with these eigenvalues, largest first, and its eigenvectors."""
    W = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    S = (W * values) @ W.T
    return (S + S.T) / 2, W


def random_case(seed: int) -> tuple[Case, np.ndarray]:
    """Up to six orders of magnitude; by seed: multiplicities above k, a near-tie at k|k+1, ranks up to k, and starts
    that are nearly orthogonal to one of the vectors; any scale; 2 to 10 parties.
    """
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 90))
    k, M = int(rng.integers(1, min(d, 10) + 1)), int(rng.choice([2, 3, 5, 10]))
    values = np.sort(10.0 ** rng.uniform(-rng.uniform(0, 6), 0, d))[::-1].copy()
    kind = seed % KINDS
    if kind == 1 and d > k + 4:
        values[: k + int(rng.integers(1, 5))] = 1.0
    elif kind == 2 and d > k:
        values[k] = values[k - 1] * (1 - 10.0 ** rng.uniform(-10, -2))
    elif kind == 3:
        values[int(rng.integers(1, k + 1)) :] = 0.0
    S, W = symmetric(np.sort(values)[::-1], rng)
    start = rng.normal(size=(d, krylov.block_size(k, d)))
    if kind == 4:
        w = W[:, int(rng.integers(0, k))]
        start -= np.outer(w, w @ start) * (1 - 10.0 ** rng.uniform(-6, -1))
    return Case(S * 10.0 ** rng.uniform(-12, 12), k, M, seed, np.linalg.qr(start)[0]), W


@pytest.mark.parametrize("seeds", [range(120), pytest.param(range(120, 500), marks=pytest.mark.long)], ids=str)
def test_true_sines_are_below_the_bound_in_500_random_cases(seeds: range) -> None:
    slack = []
    for seed in seeds:
        case, W = random_case(seed)
        result, _ = case.by_krylov()
        columns, span = off(result.V, W)
        bound, d = result.state.bound, len(W)
        # W itself, and what it is compared by, are exact to some d EPS.
        assert np.all(columns <= bound.columns + 10 * d * EPS), seed
        assert span <= bound.span + 10 * d * EPS, seed
        if bound.span < 1 and result.V.shape[1] < d:
            slack.append(bound.span / span)
        assert result.state.stop == CONVERGED, seed
    assert np.median(slack) < 100
    assert len(slack) > 0.7 * len(seeds)  # in most cases it says something


def wide(n: int, d: int) -> np.ndarray:
    """Columns scaled by 10^0 .. 10^6."""
    return np.random.default_rng(1).normal(size=(n, d)) * 10.0 ** np.linspace(0, 6, d)


def counts() -> np.ndarray:
    rng = np.random.default_rng(2)
    return rng.poisson(np.outer(rng.gamma(0.3, 10, 300), rng.gamma(0.2, 1, 100))).astype(np.float64)


FILES = Path(os.environ.get("PDML_DATA", "data"))


def counts_of_20_newsgroups() -> np.ndarray:
    """1,000 posts, the 300 most frequent terms."""
    found = datasets.corpus(FILES, "20NG", 300, 1_000)
    rows = [np.bincount(words[words >= 0], minlength=found.d) for words in found.documents]
    return np.array(rows, np.float64)


there = pytest.mark.skipif(not official.has(FILES, "20NG"), reason=f"20NG is not in {FILES} (PDML_DATA)")
DATA = {
    "raw breast cancer": lambda: load_breast_cancer().data,
    "columns of 7 scales": lambda: wide(500, 7),
    "columns of 30 scales": lambda: wide(500, 30),
    "counts": counts,
    "digits": lambda: load_digits().data.astype(np.float64),
    "counts of 20 newsgroups": counts_of_20_newsgroups,
}
NAMES = [pytest.param(name, marks=there if "newsgroups" in name else ()) for name in DATA]


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_never_less_accurate_than_power_by_more_than_a_factor_of_2(name: str, k: int) -> None:
    X = DATA[name]()
    case = Case(X.T @ X, k)
    W = np.linalg.svd(X, full_matrices=False)[2].T
    (columns, span), (by_power, span_by_power) = (off(r.V, W) for r in (case.by_krylov(0.0)[0], case.by_power()))
    rounding = len(W) * EPS
    assert span <= 2 * span_by_power + rounding
    assert columns.max() <= 2 * by_power.max() + rounding


@pytest.mark.parametrize(("name", "most"), [("digits", 14), ("raw breast cancer", 14)])
def test_a_few_openings_do(name: str, most: int) -> None:
    X = DATA[name]()
    result, opening = Case(X.T @ X, 7).by_krylov()
    assert opening.calls == result.state.t <= most
    assert result.state.bound.all.max() < 1e-7
    assert not result.warnings


def test_multiplicity_that_no_block_holds_wraps_and_is_opened_again() -> None:
    # Directions of the first eigenvalue that the start has not, made of noise, come out far longer than expected.
    S, W = symmetric(np.r_[np.ones(20), 10.0 ** -np.arange(1, 31) / 3], np.random.default_rng(0))
    result, opening = Case(S, 3, seed=2).by_krylov()
    assert opening.runner.wraps > 0
    assert result.state.bound.span == 1.0
    assert any("vectors 1, 2, 3 cannot be told from those that were not asked for" in w for w in result.warnings)
    assert np.linalg.norm(W[:, 20:].T @ result.V) < 1e-6


def test_numbers_that_wrap_whatever_is_done_are_refused() -> None:
    X = load_digits().data.astype(np.float64)
    case = Case(X.T @ X, 5)

    def halved(x: np.ndarray, g: np.ndarray, lengths: np.ndarray | None = None) -> NormedColumns:
        y = opening(x, g, lengths)
        bad = np.array(y.scaled)
        bad[3] += 2.0 * (lengths is not None) * np.abs(bad).max()  # what a ring would make of a row too large
        return replace(y, scaled=bad)

    opening = Counting(Twin(3, np.random.default_rng(0)), 7)
    start = krylov.start(start_by_seed(64, 7, 0, Alone()))
    with pytest.raises(ProtocolError, match="do not fit together"):
        krylov.pd_krylov(Fitting(Matrix(case.S), halved, Alone(), Clock()), start, SvdSettings(5, 60, 1e-7))
    assert opening.calls == 3  # the block, and the same once more


@pytest.mark.parametrize("later", [False, True], ids=["first block", "later block"])
def test_party_that_is_not_consistent_is_refused(later: bool) -> None:
    X = load_digits().data.astype(np.float64)
    rng = np.random.default_rng(0)
    S = X.T @ X
    lie = 1e-6 * rng.normal(size=S.shape) * np.linalg.norm(S) / 64  # not symmetric
    calls = []

    class Lying(Matrix):
        def times(self, V: np.ndarray) -> np.ndarray:
            calls.append(V.shape[1])
            return self.S @ V + (lie @ V if len(calls) > later else 0.0)

    fitting = Fitting(Lying(S), Counting(Twin(3, rng), 7), Alone(), Clock())
    with pytest.raises(ProtocolError, match="do not fit together"):
        krylov.pd_krylov(fitting, krylov.start(start_by_seed(64, 7, 0, Alone())), SvdSettings(5, 60, 1e-7))


def test_sums_that_are_not_positive_are_refused() -> None:
    S, _ = symmetric(np.r_[5.0, 4.0, 3.0, 2.0, 1.0, -0.5, np.zeros(14)], np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="not positive"):
        Case(S, 3).by_krylov(tol=1e-9)


def test_rank_below_k_drops_the_others_and_says_so() -> None:
    S, W = symmetric(np.r_[9.0, 4.0, 1.0, np.zeros(27)], np.random.default_rng(0))
    result, _ = Case(S, 5).by_krylov()
    assert result.V.shape == (30, 3)
    assert off(result.V, W)[0].max() < 1e-7
    assert any("2 of 5 columns were dropped" in w for w in result.warnings)


def test_directions_that_the_first_block_hides_in_its_noise_are_found() -> None:
    # 2^-40 of the largest: the first opening shows 2^-31 of it.
    S, W = symmetric(np.r_[1.0, 0.5, 2.0**-38, 2.0**-40, np.zeros(26)], np.random.default_rng(0))
    result, _ = Case(S, 4).by_krylov()
    columns, _ = off(result.V, W)
    assert result.V.shape[1] == 4
    assert np.all(columns <= result.errors)
    # float64's products leave d EPS 2^40 = 0.007 of the fourth.
    assert columns[2] < 30 * EPS * 2.0**38
    assert columns[3] < 30 * EPS * 2.0**40


def test_vectors_whose_values_coincide_are_named_and_their_span_is_not_affected() -> None:
    S, W = symmetric(np.r_[4.0, 3.0, 3.0, 2.0, 1.0 / np.arange(1, 37)], np.random.default_rng(0))
    result, _ = Case(S, 4).by_krylov()
    assert off(result.V, W)[1] < 1e-7
    assert result.state.stop == CONVERGED
    assert result.errors[[1, 2]].tolist() == [1.0, 1.0]
    assert result.errors[[0, 3]].max() < 1e-7
    assert result.state.bound.span < 1e-7
    assert any("vectors 2, 3 cannot be told apart" in w for w in result.warnings)


def test_all_of_d_columns_are_singular_vectors() -> None:
    S, W = symmetric(np.array([4.0, 3.0, 2.5, 1.0]), np.random.default_rng(0))
    result, _ = Case(S, 4).by_krylov()
    assert off(result.V, W)[0].max() <= result.errors.max() < 1e-7


def test_too_few_iterations_warn_with_the_bound() -> None:
    X = load_digits().data.astype(np.float64)
    result, opening = Case(X.T @ X, 7).by_krylov(tau=3)
    assert (result.state.stop, opening.calls) == (EXHAUSTED, 3)
    assert any("not converged" in w and "raise --iterations" in w for w in result.warnings)


def test_zero_rows_are_an_error() -> None:
    fitting = Fitting(Matrix(np.zeros((6, 6))), own_directions, Alone(), Clock())
    with pytest.raises(InputError, match="together are zero"):
        krylov.pd_krylov(fitting, krylov.start(start_by_seed(6, 4, 0, Alone())), SvdSettings(2, 60, 1e-7))


def test_thick_restart_keeps_within_the_memory_and_finds_the_same() -> None:
    rng = np.random.default_rng(0)
    S, W = symmetric(1.0 / (10.0 + np.arange(300)), rng)  # close values: many blocks
    case, most = Case(S, 2), 24
    whole, _ = case.by_krylov(tau=100)
    restarted, _ = case.by_krylov(tau=300, memory=most * 16 * 300)
    assert whole.state.shown.m > most >= restarted.state.shown.m
    for result in (whole, restarted):
        assert result.state.stop == CONVERGED
        columns, span = off(result.V, W)
        assert span <= result.state.bound.span < 1e-7
        assert np.all(columns <= result.errors)


def interrupted(case: Case, at: int, tau: int = 60) -> KrylovState:
    """After `at` openings, as a checkpoint gives it back."""
    b = krylov.block_size(case.k, len(case.S))
    states: list[KrylovState] = []
    opening = Counting(Twin(case.M, np.random.default_rng(case.seed)), b)
    fitting = Fitting(Matrix(case.S), opening, Alone(), Clock(), states.append)
    start = krylov.start(start_by_seed(len(case.S), b, case.seed, Alone()))
    krylov.pd_krylov(fitting, start, SvdSettings(case.k, tau, 1e-7))
    numbers, arrays = saved(states[at - 1])
    return restored(states[at - 1].V, dict(numbers), arrays)


@pytest.mark.parametrize("at", [1, 3, 5])
def test_resumed_fit_has_another_factor_and_goes_on_from_all_that_was_shown(at: int) -> None:
    X = load_digits().data.astype(np.float64)
    case, W = Case(X.T @ X, 7), np.linalg.svd(X, full_matrices=False)[2].T
    state = interrupted(case, at)
    assert (state.stop, state.t) == (GO_ON, at)
    runner = Twin(3, np.random.default_rng(1))
    opening = Counting(runner, 9)
    opening.inner.lengths = krylov.KRYLOV.lengths(state)
    fitting = Fitting(Matrix(7.3 * case.S), opening, Alone(), Clock())  # as another c would make it
    result = krylov.pd_krylov(fitting, state, SvdSettings(7, 60, 1e-7))
    uninterrupted = case.by_krylov()[1]
    # The Ritz vectors are opened again, and the block that was next has to be found again.
    assert at + opening.calls <= uninterrupted.calls + 2
    columns, span = off(result.V, W)
    assert np.all(columns <= result.errors)
    assert span <= result.state.bound.span < 1e-7


def test_cut_off_where_ritz_vectors_were_to_be_opened_again_nothing_is_lost() -> None:
    S, W = symmetric(np.r_[1.0, 0.5, 2.0**-38, 2.0**-40, np.zeros(26)], np.random.default_rng(0))
    case = Case(S, 4)
    for at in range(1, case.by_krylov()[1].calls):
        back = interrupted(case, at)
        opening = Counting(Twin(3, np.random.default_rng(1)), 6)
        opening.inner.lengths = krylov.KRYLOV.lengths(back)
        result = krylov.pd_krylov(Fitting(Matrix(S), opening, Alone(), Clock()), back, SvdSettings(4, 60, 1e-7))
        assert result.V.shape[1] == 4
        assert np.all(off(result.V, W)[0] <= result.errors), at


def test_noise_stays_what_it_was_when_the_basis_is_turned() -> None:
    rng = np.random.default_rng(0)
    d, m = 40, 12
    Q, U = np.linalg.qr(rng.normal(size=(d, m)))[0], np.linalg.qr(rng.normal(size=(m, m)))[0]
    shown = Shown(Q, rng.normal(size=(d, m)), np.diag(10.0 ** -np.arange(m)))
    turned = shown.turned(U)
    u = rng.normal(size=m)
    assert np.linalg.norm(turned.N.T @ (U.T @ u)) == pytest.approx(np.linalg.norm(shown.N.T @ u), rel=1e-12)
    some = shown.turned(U[:, :3])
    assert some.N.shape == (3, 3)
    assert np.linalg.norm(some.N.T @ u[:3]) == pytest.approx(np.linalg.norm(shown.N.T @ (U[:, :3] @ u[:3])), rel=1e-12)


def test_bound_is_one_where_the_next_value_is_as_large() -> None:
    S, W = symmetric(np.r_[3.0, 2.0, 2.0, 1.0], np.random.default_rng(0))
    shown = Shown.nothing(4).with_block(W, S @ W, np.full(4, 1e-9))
    bound = sines(shown, ritz(shown), 2)
    assert bound.span == bound.columns[1] == 1.0
    assert bound.columns[0] < 1e-8
    assert bound.tied[:, 2].tolist() == [False, True]


def fitted(link: Link, S: np.ndarray, settings: SvdSettings) -> KrylovState:
    """Where a party of several ends, all of which see the same sums."""
    d, b = len(S), krylov.block_size(settings.k, len(S))
    agree, opening = Agreement(link), Counting(Twin(2, np.random.default_rng(3)), b)
    V = start_by_seed(d, b, 5, agree)
    return krylov.pd_krylov(Fitting(Matrix(S), opening, agree, link.clock), krylov.start(V), settings).state


@pytest.mark.parametrize("tols", [(1e-2, 1e-9), (1e-9, 1e-2)], ids=["too early", "too late"])
def test_party_0_that_stops_elsewhere_ends_the_run(tols: tuple[float, float]) -> None:
    """Both see the same sums; which of them is at its goal is party 0's word, and the other one's to check."""
    S = symmetric(0.9 ** np.arange(40.0), np.random.default_rng(1))[0]

    with pytest.raises(ProtocolError, match="P0 came to another verdict than this party"):
        between_threads(2, lambda link: fitted(link, S, SvdSettings(2, 60, tols[link.me])))


@pytest.mark.parametrize("sees", [0, 1])
def test_rounding_of_means_that_one_party_sees_alone_does_not_end_the_run(
    sees: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not symmetric is at the limit from which on it counts, and libraries round in different ways."""
    of = threading.local()
    asymmetry = Shown.asymmetry

    def rounded(shown: Shown, b: int) -> tuple[np.ndarray, np.ndarray]:
        found, allowed = asymmetry(shown, b)
        if shown.m != 3 * b:
            return found, allowed
        return np.sign(found) * allowed * (1 + 1e-3 if of.me == sees else 1 - 1e-3), allowed

    monkeypatch.setattr(Shown, "asymmetry", rounded)
    monkeypatch.setattr(FixedScale, "_doubt", lambda scale: 1e-30)  # as of a hidden mean
    S = symmetric(0.9 ** np.arange(40.0), np.random.default_rng(1))[0]

    def party(link: Link) -> tuple[float, float, int]:
        of.me = link.me
        state = fitted(link, S, SvdSettings(2, 12, 1e-4))
        return state.shown.level, state.change, state.stop

    found = between_threads(2, party)
    assert found[0] == found[1]
    assert (found[0][0] > 0) == (sees == 0)


def test_noise_of_party_0_that_others_do_not_see_ends_the_run() -> None:
    S = symmetric(0.9 ** np.arange(40.0), np.random.default_rng(1))[0]
    with pytest.raises(ProtocolError, match="P0 chose another basis"):
        between_threads(2, lambda link: fitted(link, S, SvdSettings(2, 12, 1e-4, off=0.0 if link.me else 1e-6)))
