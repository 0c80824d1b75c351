"""What each level shows of single records: the mechanism computes what runs show, and nothing else."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

import pdml_spdz
from benchmarks.privacy import levels
from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.solver import start_by_seed
from pdml_spdz.engines.transcript import RecordingWarning
from pdml_spdz.numerics.linalg import EPS, sine
from pdml_spdz.primitives.normed_sum import Alone
from pdml_spdz.privacy import level_mechanism as level
from pdml_spdz.privacy import run_shows, sealed_shows
from pdml_spdz.privacy.attacks import scaled_covariance
from pdml_spdz.privacy.ksdp import Experiment, make_plan, run
from pdml_spdz.privacy.level_mechanism import LevelMechanism
from pdml_spdz.privacy.rank_one import Eigen
from pdml_spdz.privacy.row_spaces import projected
from pdml_spdz.privacy.sealed_shows import Sealed, SealedSettings
from pdml_spdz.privacy.svd_mechanism import SvdMechanism

SEALED = SealedSettings(columns=6, decay=0.4)


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    """With a spectrum that falls."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=(n, d)) * np.linspace(1, 0.2, d) ** 2 + 0.1)


def sealed(theta: np.ndarray, U: np.ndarray, start: np.ndarray) -> Sealed:
    (found,) = sealed_shows.sealed(Eigen(theta, U), np.zeros((1, len(U))), start, SEALED.precision(2, len(U), 3))
    return found


def eigen(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    theta, U = np.linalg.eigh(A)
    return theta[::-1], U[:, ::-1]


@pytest.mark.parametrize("d", [20, 150])
def test_small_space_holds_what_an_iteration_with_one_more_row_meets(d: int) -> None:
    X, more = rows(300, d), rows(3, d, 1)
    S, S_A, blocks = X.T @ X, X[:100].T @ X[:100], 6
    V_0 = np.linalg.qr(np.random.default_rng(2).normal(size=(d, 4)))[0]
    for x, space in zip(more, projected(S, S_A, V_0, more, blocks), strict=True):
        Phi, whole = space.Phi, S + np.outer(x, x)
        assert np.linalg.norm(Phi.T @ Phi - np.eye(Phi.shape[1]), 2) < 1e-8
        np.testing.assert_allclose(Phi[:, :4], V_0, atol=d * EPS)
        V = V_0
        for _ in range(blocks - 1):
            V = np.linalg.qr(whole @ V)[0]
            assert sine(Phi, V) < 1e-7
        np.testing.assert_allclose(space.A, Phi.T @ whole @ Phi, atol=1e-9 * np.linalg.norm(whole))
        np.testing.assert_allclose(space.part, Phi.T @ S_A @ Phi, atol=1e-6 * np.linalg.norm(S_A))  # single precision


@pytest.mark.parametrize("seed", range(4))
def test_quick_way_shows_what_the_solver_shows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 90)) * np.maximum(0.8 ** np.arange(90), 0.2)
    A = X.T @ X
    by_solver = run_shows.by_krylov(A, 5, 90, 2, rng)
    assert by_solver.B.shape[1] == 7 * by_solver.iterations  # nothing was opened twice
    for about in (by_solver.iterations, by_solver.iterations + 1):
        quick = run_shows.like_krylov(A, 5, 90, 2, about)
        assert quick.iterations == by_solver.iterations
        assert sine(quick.B, by_solver.B) < 1e-4  # directions that were opened at last are small, and so noisy


def test_mechanism_shows_what_a_recorded_run_shows() -> None:
    """Three threads on secret shares against the mechanism's solver from the same V_0: dimensions, span and S on it."""
    X = load_digits().data[:600]
    parts, k = np.array_split(X, 3), 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        result = pdml_spdz.svd(parts, rank=k, seed=3, transport="threads", record_transcript=True)
    assert result.transcript is not None
    shown = scaled_covariance(result.transcript, 1e-3)
    d = X.shape[1]
    V_0 = start_by_seed(d, krylov.block_size(k, d), 3, Alone())
    S = X.T @ X
    turn = np.linalg.qr(np.column_stack([V_0, np.eye(d)]))[0]
    turn[:, : V_0.shape[1]] = V_0
    fit = run_shows.by_krylov(turn.T @ S @ turn, k, d, 3, np.random.default_rng(0))
    assert fit.iterations == result.report["iterations"]
    B = turn @ fit.B
    assert B.shape[1] == shown.B.shape[1]
    assert sine(B, shown.B) < 1e-3
    values, E = run_shows.least_consistent(S, B)
    seen, F = run_shows.least_consistent(S, shown.B)
    np.testing.assert_allclose((E * values) @ E.T, (F * seen) @ F.T, atol=1e-6 * values.max())


def test_few_iterations_of_power_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(400, 60)
    theta, U = eigen(X.T @ X)
    few = run_shows.by_power(theta, U, 5)
    monkeypatch.setattr(run_shows, "SHOWN_AT", tuple(range(run_shows.POWER_ITERATIONS + 1)))
    every = run_shows.by_power(theta, U, 5)
    assert few.B.shape == every.B.shape
    assert sine(every.B, few.B) < 0.1  # at the edge of what is told apart
    assert few.B.shape[1] < 60


def test_least_matrix_agrees_where_it_was_seen_and_is_nowhere_larger() -> None:
    X, rng = rows(50, 20), np.random.default_rng(1)
    A, B = X.T @ X, np.linalg.qr(rng.normal(size=(20, 6)))[0]
    values, E = run_shows.least_consistent(A, B)
    found = (E * values) @ E.T
    np.testing.assert_allclose(found @ B, A @ B, atol=1e-9 * np.linalg.norm(A))
    np.testing.assert_allclose(E.T @ E, np.eye(len(values)), atol=1e-9)
    assert np.linalg.eigvalsh(A - found).min() > -1e-9 * np.linalg.norm(A)


def test_sealed_opens_at_the_checkpoint_that_suffices_or_not_at_all() -> None:
    rng = np.random.default_rng(2)
    U = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    start = np.linalg.qr(rng.normal(size=(30, 6)))[0]
    seen = []
    for tail in (0.2, 0.75, 0.999):
        theta = np.concatenate([[10.0, 8, 6], np.full(27, 6 * tail)])
        found = sealed(theta, U, start)
        seen.append(found.checkpoint)
        assert found.ratios.sum() == pytest.approx(1.0)
        if found.V is not None:
            assert sine(U[:, :3], found.V) < SEALED.goal
    assert seen == [0, 2, 3]
    assert found.V is None


@pytest.mark.parametrize("centred", [False, True])
def test_views_that_both_mechanisms_have_are_the_same(centred: bool) -> None:
    """On the same databases; V_k is found by an iteration in one, by the secular equation in the other."""
    X, others, size = rows(80, 12), rows(20, 12, 1), 15
    plan = make_plan(len(X), [0, 3], size, 4, seed=1)
    quick = run(Experiment(X, plan, LevelMechanism(others, 3, size, SEALED, centred)))
    exact = run(Experiment(X, plan, SvdMechanism(others, 3, size, centred)))
    mine = {name: quick.values[:, i] for i, name in enumerate(quick.names)}
    for i, name in enumerate(exact.names):
        np.testing.assert_allclose(mine[name], exact.values[:, i], rtol=1e-5, atol=1e-9)
    # V_k to 24 bits tells what V_k tells, but for its last bits.
    for name, values in mine.items():
        if name.startswith(f"{level.SEALED_LESS}/W"):
            other = mine[name.replace(level.SEALED_LESS, level.VECTORS)]
            np.testing.assert_allclose(values, other, rtol=1e-3, atol=1e-6 * np.abs(other).max())
    # The factor is all that sums add to krylov's columns.
    np.testing.assert_allclose(mine[f"{level.SUMS}/D sum"], mine[f"{level.BY_KRYLOV}/D sum"])


def test_observers_are_the_same_whoever_else_looks() -> None:
    X, others = rows(80, 12), rows(20, 12, 1)
    plan = make_plan(len(X), [0, 3], 15, 4, seed=1)
    every, some = (
        run(Experiment(X, plan, LevelMechanism(others, 3, 15, SEALED, True, views=views)))
        for views in (level.LEVEL_VIEWS, (level.SUMS, level.SEALED))
    )
    assert {name.partition("/")[0] for name in some.names} == set(some.features) == {level.SUMS, level.SEALED}
    for i, name in enumerate(some.names):
        np.testing.assert_array_equal(some.values[:, i], every.values[:, every.names.index(name)])


def test_steep_spectra_are_iterated_as_well() -> None:
    """Four steps at once, of values that fall by a factor of 1,000, are beyond what a Gram matrix carries."""
    rng = np.random.default_rng(0)
    U, start = (np.linalg.qr(rng.normal(size=(30, b)))[0] for b in (30, 6))
    theta = np.concatenate([[1e3, 1e2, 1e1, 1.0], np.full(26, 0.1)])
    found = sealed(theta, U, start)
    assert found.V is not None
    assert sine(U[:, :3], found.V) < SEALED.goal


def test_difference_of_levels_has_zero_in_its_interval_where_there_is_none() -> None:
    nothing, few, many = ({"told": "0" * 200}, {"told": "1" * 5 + "0" * 195}, {"told": "1" * 60 + "0" * 140})
    for a, b, wanted in ((nothing, nothing, 0), (few, few, 0), (few, nothing, 5), (many, few, 55)):
        found, low, high = levels.difference(a, b)
        assert found == wanted
        assert low < found < high
        assert (low <= 0 <= high) == (wanted == 0)
    # One record told by one and another by the other: no difference, and less certain.
    _, low, high = levels.difference({"told": "10" * 100}, {"told": "01" * 100})
    assert low < -20 < 20 < high
