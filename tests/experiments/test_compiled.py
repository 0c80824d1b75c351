"""Compiled loops of the grids against the package's own code, which is the reference."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.compiled import parts
from benchmarks.compiled.counting import together_in
from benchmarks.compiled.entries import of_counts
from benchmarks.privacy import lane_starts
from benchmarks.privacy.compiled_runs import CompiledNmf
from pdml_spdz.algorithms import nmf_start, rri
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.applications import recommender, text, topics
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism

# Loops of the experiments, not of the package, a minute of compiling in a fresh clone.
pytestmark = pytest.mark.long

SAME = 1e-12  # relative to the largest number: sums are taken in another order
OBJECTIVES = {
    "all entries": (False, Penalties()),
    "observed, capped": (True, Penalties()),
    "observed, all penalties": (True, Penalties(0.1, 0.2, 0.05, 0.3)),
    "observed, squares": (True, Penalties(beta=1.0, delta=1.0)),
}


def assert_same(found: Reals, wanted: Reals, tol: float = SAME) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=tol * max(float(np.abs(wanted).max()), 1e-300))


@pytest.fixture
def X() -> sp.csr_array:
    """With empty rows, an empty column and a stored zero."""
    rng = np.random.default_rng(1)
    some = sp.random(90, 60, 0.15, random_state=rng, format="csr")
    some.data[3] = 0.0
    X = sp.csr_array(sp.vstack([some[:40], sp.csr_array((2, 60)), some[40:]])).tolil()
    X[:, 7] = 0.0
    return sp.csr_array(X.tocsr())


@pytest.fixture
def T() -> Reals:
    T = np.random.default_rng(2).uniform(size=(5, 60))
    T[2, 10:20] = 0.0
    return np.asarray(T / T.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("tau", [1, 4, 15])
def test_sweeps_from_nothing(objective: str, tau: int, X: sp.csr_array, T: Reals) -> None:
    weighted, penalties = OBJECTIVES[objective]
    settings = SweepSettings(tau, 0.0, 1e4, penalties, weighted)
    for found, wanted in zip(parts.rri_nmf(X, T, settings), nmf_start.rri_nmf(X, T, settings), strict=True):
        assert_same(found, wanted)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_sweeps_go_on_from_coefficients(objective: str, X: sp.csr_array, T: Reals) -> None:
    weighted, penalties = OBJECTIVES[objective]
    settings = SweepSettings(3, 0.0, 1e4, penalties, weighted)
    W = np.random.default_rng(3).uniform(size=(X.shape[0], len(T)))
    ours, theirs = parts.part(X, len(T), weighted=weighted), rri.part(X, len(T), weighted=weighted)
    for one in (ours, theirs):
        one.restore(W, T)
    assert ours.error(T) == pytest.approx(theirs.error(T), rel=SAME)
    found = parts.swept(ours, T, settings)
    wanted = nmf_start.pd_nmf_iter(
        theirs, nmf_start.SweepState(T), settings, nmf_start.own_sum, nmf_start.Alone(), clock=nmf_start.Clock()
    )
    assert_same(found, wanted.T)
    assert_same(ours.W, theirs.W)
    assert ours.error(found) == pytest.approx(theirs.error(wanted.T), rel=1e-11)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_they_stop_when_topics_stand_still(objective: str, X: sp.csr_array, T: Reals) -> None:
    weighted, penalties = OBJECTIVES[objective]
    settings = SweepSettings(500, 1e-3, 1e4, penalties, weighted)
    heard: list[int] = []
    parts.swept(parts.part(X, len(T), weighted=weighted), T, settings, lambda t, _: heard.append(t))
    theirs = rri.part(X, len(T), weighted=weighted)
    state = nmf_start.pd_nmf_iter(
        theirs, nmf_start.SweepState(T), settings, nmf_start.own_sum, nmf_start.Alone(), clock=nmf_start.Clock()
    ).state
    assert heard == [*range(1, state.t + 1)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_fit_of_coefficients(objective: str, X: sp.csr_array, T: Reals) -> None:
    weighted, penalties = OBJECTIVES[objective]
    ours, theirs = parts.part(X, len(T), weighted=weighted), rri.part(X, len(T), weighted=weighted)
    ours.fit(T, penalties, sweeps=2000, tol=1e-13)
    theirs.fit(T, penalties)
    # Ours stop when a sweep changes less than tol: what is left of the way is some hundred times as much.
    assert_same(ours.W, theirs.W, 1e-9)
    assert ours.error(T) == pytest.approx(theirs.error(T), rel=1e-9)


def test_a_topic_that_no_row_uses_stays(X: sp.csr_array, T: Reals) -> None:
    T = T.copy()
    T[1] = 0.0
    T[1, 7] = 1.0  # a feature that no row has
    settings = SweepSettings(3, 0.0, 1e4)
    assert_same(parts.rri_nmf(X, T, settings)[1], nmf_start.rri_nmf(X, T, settings)[1])


def test_own_topics(X: sp.csr_array) -> None:
    settings = SweepSettings(5, 0.0, 1.0)
    for found, wanted in zip(parts.own_topics(X, 4, settings), nmf_start.own_topics(X, 4, settings), strict=True):
        assert_same(found, wanted, 1e-10)  # singular vectors are only as exact as that


def test_scores_of_topics_and_ratings(X: sp.csr_array, T: Reals) -> None:
    counts = sp.csr_array((np.ceil(9.0 * X.data), X.indices, X.indptr), shape=X.shape)
    first, second = topics.split_documents(counts, 1)
    found, wanted = (topics.log_likelihood(first, second, T, make=make) for make in (parts.part, rri.part))
    assert found.total == pytest.approx(wanted.total, rel=1e-8)
    ours, theirs = (recommender.fit_users(X, T, Penalties(delta=0.5), make=make) for make in (parts.part, rri.part))
    assert_same(ours, theirs, 1e-8)


@pytest.mark.parametrize("window", [None, 1, 10, 110])
def test_words_in_windows(window: int | None) -> None:
    rng = np.random.default_rng(4)
    documents = [np.minimum(rng.geometric(0.05, size=n) - 2, 39) for n in (0, 1, 5, 30, 110, 111, 400)]
    wanted = topics.occurrences(documents, np.arange(40), window)
    together, windows = together_in(documents, 40, window)
    np.testing.assert_array_equal(together.toarray(), wanted.together)
    assert windows == wanted.windows


@pytest.mark.parametrize("start", ["random", "pd"])
@pytest.mark.parametrize("records", [0, 1, 11], ids=["without", "one", "more than lanes"])
def test_runs_that_differ_in_a_row(start: str, records: int, X: sp.csr_array) -> None:
    """Columns that nobody has an entry in are merged on the way, as `nmf_runs.Same` says."""
    wide = sp.csr_array(sp.hstack([X, sp.csr_array((X.shape[0], 9))]))
    others, victim, own = wide[:30], wide[30:70], wide[70:85]
    kinds = [kind(others, 4, 8, start) for kind in (CompiledNmf, NmfMechanism)]
    found, wanted = (
        kind.sample_with(victim, own[:records], np.random.default_rng(5))
        if records
        else kind.sample_without(victim, np.random.default_rng(5))
        for kind in kinds
    )
    assert [*found] == [*wanted]
    for name, value in found.items():
        assert_same(value, wanted[name], 1e-9 if start == "pd" else SAME)
    assert kinds[0].settings() == kinds[1].settings()


@pytest.mark.parametrize("sweeps", [1, 8])
@pytest.mark.parametrize("start", ["random", "pd"])
def test_runs_with_topics_that_no_row_uses(start: str, sweeps: int) -> None:
    """They keep their noise in columns that nobody has an entry in, which are one column from the first sweep on."""
    rows = np.zeros((5, 30))
    rows[[0, 1, 2, 3, 4], [0, 1, 0, 1, 2]] = [1.0, 2.0, 3.0, 1.0, 2.0]
    kinds = [kind(rows[:1], 6, sweeps, start) for kind in (CompiledNmf, NmfMechanism)]
    found, wanted = (kind.sample_with(rows[1:3], rows[3:], np.random.default_rng(5)) for kind in kinds)
    assert len(np.unique(wanted["T"][0], axis=1).T) > 4  # there are such topics
    for name, value in found.items():
        assert_same(value, wanted[name], 1e-9)


def test_starts_of_tables_that_differ_in_a_row(X: sp.csr_array) -> None:
    own = X[80:90].toarray()[:, None]
    for rows in (X[:40], X[:3], X[:75]):  # also fewer than topics, and more than columns
        wanted = [nmf_start.nnsvd(sp.vstack([rows, sp.csr_array(one)]).tocsr(), 4) for one in own]
        assert_same(lane_starts.starts(rows, own, 4), np.array(wanted), 1e-10)
    tables = lane_starts.Tables(X[:40], own)
    assert lane_starts.leading(tables, 4) is not None


@pytest.mark.parametrize("penalties", [Penalties(beta=1.0, delta=1.0), Penalties(0.01, 0.0, 0.02, 0.0), Penalties()])
@pytest.mark.parametrize("records", [1, 3, 11])
def test_runs_on_ratings(records: int, penalties: Penalties, X: sp.csr_array) -> None:
    kinds = [kind(X[:30], 4, 8, "random", True, penalties) for kind in (CompiledNmf, NmfMechanism)]
    found, wanted = (kind.sample_with(X[30:70], X[70 : 70 + records], np.random.default_rng(5)) for kind in kinds)
    for name, value in found.items():
        assert_same(value, wanted[name], 1e-10)


def test_counts_and_weights_are_the_rows_that_they_make() -> None:
    """Two parties' documents, each with its own IDF weights; one document is empty, one has a word 300 times."""
    rng = np.random.default_rng(6)
    tables = [sp.csr_array(rng.poisson(0.2, size=(n, 60)).astype(float)) for n in (150, 40)]
    tables[1] = sp.csr_array(sp.vstack([tables[1], sp.csr_array((1, 60)), 300.0 * tables[1][:1]]))
    weights, by = [rng.uniform(1.0, 5.0, size=60) for _ in tables], [rng.uniform(1.0, 2.0, size=n) for n in (150, 42)]
    X = sp.csr_array(
        sp.vstack([text.tf_idf(C, w).multiply(b[:, None]) for C, w, b in zip(tables, weights, by, strict=True)])
    )
    T = rng.uniform(size=(5, 60))
    T /= T.sum(axis=1, keepdims=True)
    settings, counted = SweepSettings(8, 0.0, 1e4), parts.Full(X, 5, of_counts(tables, weights, by))
    assert_same(parts.swept(counted, T, settings), nmf_start.rri_nmf(X, T, settings)[1])
