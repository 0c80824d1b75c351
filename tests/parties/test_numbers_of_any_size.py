"""Features whose numbers are far apart, far from zero, or missing: what is filled in, taken off and divided by is as
exact as their deviations need it, or the run says that it is not.
"""

from __future__ import annotations

from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import pdml_spdz
from pdml_spdz.errors import InputError, QuotaError, StudyError
from pdml_spdz.fits.fill import FILLED
from pdml_spdz.local.joint import LocalResult, local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.rows.reading import RowSettings

SECONDS, NANOSECONDS = 1.7e9, 1.7e18
MEAN = RowSettings(missing="mean")


def components(X: np.ndarray, k: int, scaled: bool) -> np.ndarray:
    """In twice the digits of the numbers that are compared with them."""
    moved = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    if scaled:
        moved /= np.sqrt(np.mean(moved**2, axis=0))
    S = (moved.T @ moved).astype(np.float64)
    return np.linalg.eigh(S)[1][:, ::-1][:, :k]


def assert_within_its_bound(done: LocalResult, X: np.ndarray, *, scaled: bool) -> None:
    """LAPACK's own vectors are off by some rounding over the gap, which is wide here."""
    assert sine(components(X, done.V.shape[1], scaled), done.V) <= done.report["sine_bound"]["span"] + 1e-14


def correlated(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))


@pytest.mark.parametrize("unit", [SECONDS, NANOSECONDS])
@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "pieces"])
def test_what_is_filled_in_beside_a_feature_of_times_is_the_mean(unit: float, lazy: bool) -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([np.round(unit * (1 + 0.01 * rng.normal(size=600))), correlated(600)])
    X[rng.random(600) < 0.1, 1] = np.nan
    X[:200, 2] = np.nan  # of which one party has nothing
    tables = [da.from_array(t, chunks=(70, 4)) if lazy else t for t in np.split(X, 3)]
    done = run_in_threads(tables, local_study(3, algorithm="pca", rank=1, engine="secsum", scale="secsum", rows=MEAN))
    filled = np.where(np.isnan(X), np.nanmean(X.astype(np.longdouble), axis=0), X).astype(np.float64)
    found, deviation = done.arrays["fill.npy"][0], np.nanstd(X, axis=0)
    assert np.all(np.abs(found - np.nanmean(X, axis=0))[1:] <= 1e-11 * deviation[1:])
    assert_within_its_bound(done, filled, scaled=True)


@pytest.mark.parametrize("engine", ["secsum", "embedded"])
def test_what_is_filled_in_beside_a_large_constant_is_the_mean(engine: str) -> None:
    rng = np.random.default_rng(2)
    X = np.column_stack([np.full(120, 2e8), 0.01 * correlated(120)])
    X[rng.random(120) < 0.1, 1] = np.nan
    done = run_in_threads(np.split(X, 3), local_study(3, algorithm="pca", rank=1, engine=engine, rows=MEAN))
    assert_within_its_bound(done, np.where(np.isnan(X), np.nanmean(X, axis=0), X), scaled=False)


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "pieces"])
@pytest.mark.parametrize("settings", [{"scale": "secsum"}, {}], ids=["scale", "as it is"])
@pytest.mark.parametrize("there", [6, 40])
def test_few_values_far_from_zero_have_their_own_mean(there: int, settings: dict[str, Any], lazy: bool) -> None:
    """What stands for the others is rounded as they are, in the file's units: that must not add up."""
    rng = np.random.default_rng(there)
    X = np.column_stack([NANOSECONDS + 256.0 * np.round(8.0 * rng.normal(size=2000)), rng.normal(size=(2000, 2))])
    X[rng.permutation(2000)[there:], 0] = np.nan
    tables = [da.from_array(t, chunks=(300, 3)) if lazy else t for t in np.split(X, 2)]
    study = local_study(2, algorithm="pca", rank=1, engine="secsum", rows=MEAN, offsets=(1.7e18, 0.0, 0.0), **settings)
    found = run_in_threads(tables, study).arrays["fill.npy"][0][0]
    exact = NANOSECONDS + float(np.mean(X[~np.isnan(X[:, 0]), 0] - NANOSECONDS))
    assert abs(found - exact) <= 256.0  # the numbers there are next to each other


def few_beside_a_constant(constant: float) -> np.ndarray:
    """Three values of a feature, in 3,000 rows."""
    X = np.column_stack([np.full(3000, constant), correlated(3000)])
    X[np.random.default_rng(2).permutation(3000)[3:], 1] = np.nan
    return X


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "pieces"])
@pytest.mark.parametrize("algorithm", ["pca", "svd"])
@pytest.mark.parametrize("constant", [1e6, 1e10])
def test_few_values_beside_a_large_constant_have_their_own_mean(constant: float, algorithm: str, lazy: bool) -> None:
    X = few_beside_a_constant(constant)
    tables = [da.from_array(t, chunks=(300, 4)) if lazy else t for t in np.split(X, 3)]
    done = run_in_threads(tables, local_study(3, algorithm=algorithm, rank=1, engine="secsum", rows=MEAN))
    off = np.abs(done.arrays["fill.npy"][0] - np.nanmean(X.astype(np.longdouble), axis=0))
    assert np.all(off <= FILLED * np.nanstd(X, axis=0).max())
    assert not any("what is filled in is known to" in text for text in done.report["warnings"])


def two_far_apart(n: int, far: float) -> np.ndarray:
    X = correlated(n)
    X[:, 1] = np.nan
    X[5, 1], X[n // 3 + 7, 1] = far, -far
    return X


def test_a_fill_that_float64_has_few_digits_of_is_told_and_is_in_the_bound() -> None:
    """The mean of two values that are far from it, in 300,000 rows."""
    X = two_far_apart(300_000, 1e4)
    study = local_study(3, algorithm="svd", rank=2, engine="secsum", rows=MEAN, tol=1e-9)
    done = run_in_threads(np.split(X, 3), study)
    filled = np.where(np.isnan(X), 0.0, X)
    V = np.linalg.eigh(filled.T @ filled)[1][:, ::-1][:, :2]
    assert sine(V, done.V) <= done.report["sine_bound"]["span"]
    warnings = " ".join(done.report["warnings"])
    assert "what is filled in is known to" in warnings
    assert "bits only: what is filled in for missing values is known no better" in warnings
    assert "--offset" not in warnings  # the means are about 0
    assert any("beside the deviations and, if rows are not centred" in text for text in done.report["observables"])
    # S is off by 2^-35 of its largest eigenvalue or more, and the next ones are 10^4 below that one.
    assert done.report["sine_bound"]["span"] > 2.0**-35 * 1e4 / 10


@pytest.mark.parametrize("algorithm", ["pca", "svd"])
def test_a_fill_that_float64_does_not_have_is_refused(algorithm: str) -> None:
    X = few_beside_a_constant(1e25)
    with pytest.raises(InputError, match="float64 has too few digits of the means that would be filled in"):
        run_in_threads(np.split(X, 3), local_study(3, algorithm=algorithm, rank=1, engine="secsum", rows=MEAN))


def test_rows_that_do_not_deviate_are_filled_with_what_they_are() -> None:
    X = np.full((60, 3), 0.1)
    X[::7, 1] = np.nan
    done = run_in_threads(np.split(X, 3), local_study(3, algorithm="svd", rank=1, engine="secsum", rows=MEAN))
    np.testing.assert_array_equal(done.arrays["fill.npy"][0], 0.1)


@pytest.mark.parametrize("algorithm", ["pca", "svd"])
def test_rows_in_pieces_with_holes_are_taken_with_any_bound(algorithm: str) -> None:
    X = correlated(60)
    X[5, 1] = np.nan
    tables = [da.from_array(t, chunks=(7, 3)) for t in np.split(X, 2)]
    done = run_in_threads(tables, local_study(2, algorithm=algorithm, rank=1, scale="secsum", rows=MEAN))
    np.testing.assert_allclose(done.arrays["fill.npy"][0], np.nanmean(X, axis=0), rtol=1e-9, atol=1e-11)


def test_numbers_that_are_large_but_for_an_offset_are_within_the_window() -> None:
    X = np.column_stack([NANOSECONDS + 1e4 * np.round(correlated(90)[:, 0], 2), correlated(90)[:, 1:]])
    study = local_study(3, algorithm="pca", rank=1, offsets=(1.7e18, 0.0, 0.0), scales=(1e4, 1.0, 1.0))
    assert_within_its_bound(run_in_threads(np.split(X, 3), study), (X - [1.7e18, 0, 0]) / [1e4, 1, 1], scaled=False)


def test_topics_get_no_fill_below_zero() -> None:
    rng = np.random.default_rng(8)
    X = np.column_stack([1e9 * rng.uniform(size=60), np.zeros(60), rng.uniform(size=60)])
    X[::7, 1] = np.nan
    for _ in range(6):  # opening rounds at random, with three parties below zero in every other run
        study = local_study(3, algorithm="nmf", rank=1, iterations=1, rows=MEAN)
        assert np.all(run_in_threads(np.split(X, 3), study).arrays["fill.npy"][0] >= 0)


def test_missing_values_in_pieces_are_those_of_their_column_in_any_order() -> None:
    rng = np.random.default_rng(3)
    tables = [pd.DataFrame(rng.normal([10.0, 20.0, 30.0], size=(60, 3)), columns=list("abc")) for _ in range(2)]
    for table in tables:
        table.loc[rng.random(60) < 0.3, "a"] = np.nan
    whole = pd.concat(tables)
    given = [dd.from_pandas(tables[0], npartitions=2), dd.from_pandas(tables[1][list("cba")], npartitions=2)]
    done = run_in_threads(given, local_study(2, algorithm="pca", rank=1, engine="secsum", rows=MEAN))
    np.testing.assert_allclose(done.arrays["fill.npy"][0], whole.mean(), rtol=1e-12)
    assert not any("'c'" in text for text in done.report["warnings"])


def test_an_infinite_entry_in_pieces_is_named_by_its_column_in_any_order() -> None:
    table = pd.DataFrame(correlated(20), columns=list("abc"))
    table.loc[7, "a"] = np.inf
    given = [pd.DataFrame(correlated(20), columns=list("abc")), dd.from_pandas(table[list("cba")], npartitions=2)]
    with pytest.raises(InputError, match="row 8, column 1 'a'"):
        run_in_threads(given, local_study(2, algorithm="pca", rank=1, engine="secsum"))


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "pieces"])
@pytest.mark.parametrize("mean", [1e6, 1e8])
def test_a_mean_is_taken_off_filled_rows_before_they_are_divided(mean: float, lazy: bool) -> None:
    rng = np.random.default_rng(4)
    X = mean + np.where(correlated(600, 4) > 0, 1.0, -1.0)
    X[rng.random(600) < 0.1, 1] = np.nan
    tables = [da.from_array(t, chunks=(70, 3)) if lazy else t for t in np.split(X, 3)]
    study = local_study(3, algorithm="pca", rank=1, engine="secsum", rows=MEAN, scales=(0.3, 0.7, 0.9))
    done = run_in_threads(tables, study)
    whole = (np.where(np.isnan(X), done.arrays["fill.npy"][0], X).astype(np.longdouble) - mean) / [0.3, 0.7, 0.9]
    assert sine(components(whole, 1, scaled=False), done.V) <= 5e-13  # the bound at means of no size


@pytest.mark.parametrize("centre", ["open", "hidden"])
def test_a_first_piece_far_from_the_others_costs_no_digits(centre: str) -> None:
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(60_000, 3)) @ rng.normal(size=(3, 3)), 1)
    X[0] += [1e6, -7e5, 0.0]
    tables = [da.from_array(X[:30_000], chunks=((1, 29_999), (3,))), da.from_array(X[30_000:], chunks=(9_000, 3))]
    study = local_study(2, algorithm="pca", rank=2, centre=centre)
    assert_within_its_bound(run_in_threads(tables, study), X, scaled=False)


@pytest.mark.parametrize("unit", [1e-30, 1e-40, 1e-60])
def test_a_feature_is_no_constant_for_being_small_beside_others(unit: float) -> None:
    X = (correlated(300) + 3.0) * [1.0, unit, 1.0]
    study = local_study(3, algorithm="pca", rank=1, engine="secsum", scale="secsum")
    done = run_in_threads(np.split(X, 3), study)
    assert_within_its_bound(done, X / [1.0, unit, 1.0], scaled=True)
    assert not any("constant" in text for text in done.report["warnings"])


@pytest.mark.parametrize("algorithm", ["pca", "svd"])
def test_a_feature_of_which_there_are_no_squares_is_refused(algorithm: str) -> None:
    X = (correlated(60) + 3.0) * [1.0, 1e-160, 1.0]
    study = local_study(3, algorithm=algorithm, rank=1, engine="secsum", scale="secsum")
    with pytest.raises(InputError, match="column 2 of all parties' rows: numbers so small that float64 has no squares"):
        run_in_threads(np.split(X, 3), study)


def test_a_small_number_of_one_party_is_fine_beside_those_of_others() -> None:
    X = np.array([[0.3, 1e-200], [0.5, 0.4], [0.9, 0.7], [0.1, 0.2]])
    study = local_study(4, algorithm="pca", rank=1, engine="secsum", scale="secsum")
    assert_within_its_bound(run_in_threads(np.split(X, 4), study), X, scaled=True)


def near_a_constant(deviation: float) -> list[np.ndarray]:
    X = correlated(300)
    X[:, 1] = 1e15 + np.where(X[:, 0] > 0, deviation, -deviation)
    return np.split(X, 3)


def test_a_feature_of_few_last_places_is_refused_and_less_an_offset_it_is_not() -> None:
    study: dict[str, Any] = {"algorithm": "pca", "rank": 1, "engine": "secsum", "scale": "secsum"}
    tables = near_a_constant(1.0)
    with pytest.raises(InputError, match="column 2 of all parties' rows: float64 has too few digits"):
        run_in_threads(tables, local_study(3, **study))
    done = run_in_threads(tables, local_study(3, offsets=(0.0, 1e15, 0.0), **study))
    assert_within_its_bound(done, np.vstack(tables) - [0.0, 1e15, 0.0], scaled=True)


@pytest.mark.parametrize("value", [7.5, 0.1, 1e15, 0.0, -1e-8])
def test_constants_are_named_and_have_no_weight(value: float) -> None:
    X = correlated(300)
    X[:, 1] = value
    study = local_study(3, algorithm="pca", rank=2, engine="secsum", scale="secsum")
    done = run_in_threads(np.split(X, 3), study)
    assert any(text.startswith("column 2 of all parties' rows: constant") for text in done.report["warnings"])
    np.testing.assert_allclose(done.V[1], 0.0, atol=1e-7)
    assert sine(components(X[:, [0, 2]], 1, scaled=True), done.V[[0, 2], :1]) <= 1e-10


@pytest.mark.parametrize("size", [1e-80, 1e-142, 1e-185, 1e-300])
@pytest.mark.parametrize("settings", [{}, {"solver": "power"}, {"algorithm": "pca"}, {"bound": "1e-200"}])
@pytest.mark.parametrize("engine", ["plain", "secsum"])
def test_rows_too_small_for_products_are_refused_and_nobody_is_blamed(
    engine: str, settings: dict[str, Any], size: float
) -> None:
    X = size * np.random.default_rng(1).normal(size=(90, 8))
    with pytest.raises((InputError, QuotaError), match=r"too small for|as the agreed bound|; it was not sent"):
        run_in_threads(np.split(X, 3), local_study(3, rank=2, engine=engine, reveal="sum", **settings))


@pytest.mark.parametrize("size", [1e-150, 1e-158, 1e-162, 1e-200])
@pytest.mark.parametrize("engine", ["plain", "secsum"])
def test_direction_of_a_sum_that_is_too_small_for_its_square_is_refused(engine: str, size: float) -> None:
    with pytest.raises(InputError, match="too small for"):
        pdml_spdz.normed_sum(
            [size * np.ones((1, 3)) for _ in range(2)], engine=engine, reveal="sum", transport="threads"
        )


@pytest.mark.parametrize("scale", [1e-160, 1e170])
def test_agreed_scales_of_which_there_are_no_squares_are_refused(scale: float) -> None:
    with pytest.raises(StudyError, match="of which float64 has squares"):
        local_study(2, algorithm="pca", rank=1, scales=(1.0, scale))


@pytest.mark.parametrize("lazy", [False, True], ids=["memory", "pieces"])
def test_whole_numbers_that_float64_has_not_are_warned_of(lazy: bool) -> None:
    rng = np.random.default_rng(6)
    tables = [np.column_stack([2**60 + rng.integers(-100, 100, 50), rng.integers(-9, 9, 50)]) for _ in range(2)]
    tables[0] = np.where(np.arange(100).reshape(50, 2) == 6, np.nan, tables[0])  # one hole
    given = [da.from_array(t, chunks=(20, 2)) if lazy else t for t in tables]
    study = local_study(2, algorithm="pca", rank=1, engine="secsum", offsets=(2.0**60, 0.0), rows=MEAN)
    warned = [t for t in run_in_threads(given, study).report["warnings"] if "may have been rounded" in t]
    assert len(warned) == 1  # the same words at both parties
    assert warned[0].startswith("column 1 ")


def test_times_in_nanoseconds_over_years_are_not_warned_of() -> None:
    rng = np.random.default_rng(7)
    X = np.column_stack([NANOSECONDS + 3e16 * rng.normal(size=90), rng.normal(size=90)])
    done = run_in_threads(np.split(X, 3), local_study(3, algorithm="pca", rank=1, engine="secsum", scale="secsum"))
    assert not any("may have been rounded" in text for text in done.report["warnings"])
