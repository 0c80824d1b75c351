"""The nearest point of the simplex, against bisection in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdml_spdz.algorithms.nmf import project
from pdml_spdz.numerics.linalg import EPS

# Of all sizes, near each other and far apart: quotients num/den are anything.
NUMBERS = st.one_of(
    st.floats(-3.0, 3.0), st.floats(-1e300, 1e300), st.sampled_from([0.0, 1.0, 1e16, 1e16 + 2.0, 5e-324])
)
VECTORS = st.lists(NUMBERS, min_size=1, max_size=8).map(np.array)


def tolerance(d: int) -> float:
    """Less its maximum, only numbers in (-1, 0] matter: each is rounded by EPS, a sum of up to d of them by d EPS each,
    and their mean and the final division by a few more.
    """
    return (2 * d + 4) * EPS


def nearest(x: np.ndarray) -> np.ndarray:
    """[x - theta]_+ of sum 1, theta by bisection: no sorting, no rounding but the last."""
    exact = [Fraction(float(number)) for number in x]
    high = max(exact)
    low = high - 1
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(number - middle, Fraction(0)) for number in exact) > 1 else (low, middle)
    return np.array([float(max(number - low, Fraction(0))) for number in exact])


@given(VECTORS)
@example(np.array([1e16, 1e16 + 2.0, 1e16 - 2.0]))
@example(np.zeros(8))
@example(np.array([-1e300, 1e300]))
@example(np.array([0.5, -0.5]))  # the second is exactly at the edge
def test_projection_equals_bisection(x: np.ndarray) -> None:
    y = project(x)
    assert np.all(y >= 0)
    assert abs(y.sum() - 1.0) <= len(x) * EPS
    np.testing.assert_allclose(y, nearest(x), rtol=0, atol=tolerance(len(x)))


@given(VECTORS)
def test_projection_of_a_projection_changes_nothing(x: np.ndarray) -> None:
    y = project(x)
    np.testing.assert_allclose(project(y), y, rtol=0, atol=tolerance(len(x)))


@given(VECTORS)
def test_projection_keeps_the_order(x: np.ndarray) -> None:
    y = project(x)
    assert np.all(np.diff(y[np.argsort(x, kind="stable")]) >= 0)


@given(VECTORS.flatmap(lambda x: st.tuples(st.just(x), st.lists(st.floats(-2.0, 2.0), min_size=8, max_size=8))))
def test_projections_are_no_further_apart_than_the_points(pair: tuple[np.ndarray, list[float]]) -> None:
    x = pair[0]
    y = x + np.array(pair[1][: len(x)])
    allowed = np.linalg.norm(x - y) * (1 + 4 * EPS) + 2 * np.sqrt(len(x)) * tolerance(len(x))
    assert np.linalg.norm(project(x) - project(y)) <= allowed


def test_no_point_of_the_simplex_is_nearer() -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 30, 1000):
        x = rng.normal(size=d) * rng.choice([1e-3, 1.0, 30.0])
        others = rng.dirichlet(np.full(d, 0.1), size=200)
        rounding = 4 * np.sqrt(d) * tolerance(d)
        assert np.linalg.norm(project(x) - x) <= np.linalg.norm(others - x, axis=1).min() + rounding


@pytest.mark.parametrize("shift", [-7.0, 1e3])
def test_a_common_shift_changes_nothing(shift: float) -> None:
    x = np.random.default_rng(1).integers(-64, 64, 50) / 64.0  # numbers that a shift does not round
    np.testing.assert_array_equal(project(x + shift), project(x))


@given(st.lists(VECTORS, min_size=1, max_size=4), st.integers(1, 5))
def test_many_vectors_at_once_whose_last_number_stands_for_several(vectors: list[np.ndarray], last: int) -> None:
    d = min(len(x) for x in vectors)
    x = np.array([v[:d] for v in vectors])
    near = np.where(x > np.median(x), 1.0, 0.0)
    written_out = np.concatenate([x, np.repeat(x[:, -1:], last - 1, axis=1)], axis=1)
    for y, row in zip(project(x, near, last), written_out, strict=True):
        np.testing.assert_allclose(y, nearest(row)[:d], rtol=0, atol=tolerance(d + last))
