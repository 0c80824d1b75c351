"""Offsets and scales of the features, agreed or by SecSum: what is factorised, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from pdml_spdz.errors import InputError, QuotaError
from pdml_spdz.local.joint import LocalResult, local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import EPS, sine
from pdml_spdz.primitives.bound import WINDOW
from pdml_spdz.primitives.sec_sum import positive_tolerance
from pdml_spdz.rows.reading import RowSettings
from tests.nmf.helpers import rounding as nmf_rounding
from tests.nmf.helpers import settings_for, topics
from tests.parties.test_pca import TOL, angle_tolerance, centred_sigma, far_from_zero, mean_rounding, variance_tolerance
from tests.properties.test_nmf_transcript import whole_fit
from tests.unit.test_svd import angle_tolerance as svd_tolerance
from tests.unit.test_svd import pooled


def scale_rounding(tables: list[np.ndarray], mean: np.ndarray | float) -> float:
    """How far root mean squares around `mean` are off, each relative to itself: half of what the squares' sums are.

    Each of these is opened to bits of its own; float64 adds up n squares, of differences that are off by EPS of the
    rows.
    """
    X = pooled(tables)
    size = np.sqrt(np.mean((X - mean) ** 2, axis=0))
    live = size > 4 * np.sqrt(EPS) * np.abs(mean)  # a constant is no more than its rounding
    floats = len(X) * EPS + 2 * EPS * (np.abs(X).max(axis=0)[live] / size[live])
    return float(positive_tolerance(len(tables)) + np.max(floats)) / 2


def standardised(tables: list[np.ndarray]) -> np.ndarray:
    return StandardScaler().fit_transform(np.vstack(tables))


def test_scales_by_sec_sum_give_the_components_of_the_correlations(tmp_path: Path) -> None:
    k, tables = 2, far_from_zero()
    for t in tables:
        t[:, 2] = 7.5  # a feature that does not vary keeps its scale
    reports = whole_fit(
        tables, tmp_path, algorithm="pca", rank=k, tol=TOL, engine="secsum", scale="secsum", variance=True
    )
    scaler, model = StandardScaler().fit(np.vstack(tables)), PCA(k, svd_solver="full").fit(standardised(tables))
    own, report = tmp_path / "party-1", reports[0]
    rounding = scale_rounding(tables, scaler.mean_)
    assert rounding <= 1e-12
    np.testing.assert_allclose(np.load(own / "scale.npy"), scaler.scale_, rtol=rounding)
    assert np.abs(np.load(own / "mean.npy") - scaler.mean_).max() <= mean_rounding(tables)
    # Scales that are off change the correlations by twice as much, and these turn the components by that over the gap.
    scaled = [t / scaler.scale_ for t in tables]
    lambdas = centred_sigma(scaled, report) ** 2
    turned = 2 * rounding * float(lambdas[0] / (lambdas[k - 1] - lambdas[k]))
    assert sine(model.components_.T, np.load(own / "V.npy")) <= angle_tolerance(scaled, k, report) + turned
    off = variance_tolerance(scaled, k, report) + 2 * turned
    np.testing.assert_allclose(report["explained_variance"], model.explained_variance_, rtol=off)
    np.testing.assert_allclose(report["explained_variance_ratio"], model.explained_variance_ratio_, rtol=2 * off)
    seen = " ".join(reports[0]["observables"])
    assert "the deviation of each feature over all rows" in seen
    assert "the explained variance of each component" in seen


@pytest.mark.parametrize("algorithm", ["pca", "svd"])
def test_scales_of_features_that_are_far_apart_are_all_found(tmp_path: Path, algorithm: str) -> None:
    """Small beside large by a factor of 2^61: none counts as a feature that does not vary, but for two that do not."""
    rng = np.random.default_rng(8)
    factors = np.array([2.0**45, 1.0, 2.0**-10, 2.0**-16, 0.0, 1.0])
    tables = [(rng.normal(size=(n, 6)) + 3.0) * factors for n in (20, 30, 25)]
    for t in tables:
        t[:, 5] = -7.0 if algorithm == "pca" else 0.0
    whole_fit(tables, tmp_path, algorithm=algorithm, rank=2, engine="secsum", scale="secsum", iterations=2, tol=0.0)
    scale, X = np.load(tmp_path / "party-1" / "scale.npy"), np.vstack(tables)
    mean = X.mean(axis=0) if algorithm == "pca" else np.zeros(6)
    expected = np.sqrt(np.mean((X - mean) ** 2, axis=0))
    np.testing.assert_allclose(scale[:4], expected[:4], rtol=scale_rounding(tables, mean))
    np.testing.assert_array_equal(scale[4:], 1.0)
    if algorithm == "pca":
        found = np.load(tmp_path / "party-1" / "mean.npy")
        # The mean is opened twice, the second time in units of what the first one left.
        left = expected + mean_rounding(tables, blurred=False)  # with reveal sum it is the norms' sum
        off = Format.for_bound(1.0, 3).tolerance * left + len(X) * EPS * (np.abs(X).max(axis=0) + left)
        assert np.all(np.abs(found - mean)[:4] <= off[:4])
        assert np.all(off[:4] <= 1e-6 * expected[:4])


def test_svd_of_scaled_rows() -> None:
    tables = [np.abs(t[:, :4]) for t in far_from_zero()[::2]]
    X, scales = np.vstack(tables), (0.5, 2.0, 8.0, 1.0)
    vectors = {"algorithm": "svd", "rank": 2, "tol": TOL, "engine": "secsum"}

    def angle(found: LocalResult, scale: Any) -> tuple[float, float]:
        allowed = svd_tolerance([t / scale for t in tables], 2, found.report["bound"]["addend"], TOL)
        return sine(np.linalg.svd(X / scale)[2][:2].T, found.V), allowed

    off, allowed = angle(run_in_threads(tables, local_study(2, scales=scales, **vectors)), scales)
    assert off <= allowed
    done = run_in_threads(tables, local_study(2, scale="secsum", **vectors))
    rms, rounding = np.sqrt(np.mean(X**2, axis=0)), scale_rounding(tables, 0.0)
    np.testing.assert_allclose(done.scale, rms, rtol=rounding)
    assert done.mean is None
    off, allowed = angle(done, rms)
    lambdas = np.linalg.svd(X / rms, compute_uv=False) ** 2
    assert off <= allowed + 2 * rounding * float(lambdas[0] / (lambdas[1] - lambdas[2]))


def test_nmf_of_scaled_rows_is_that_of_rows_given_so() -> None:
    tables, scales = [np.abs(t[:, :4]) for t in far_from_zero()[::2]], (0.5, 2.0, 8.0, 1.0)
    nmf = {"algorithm": "nmf", "rank": 2, "engine": "secsum", "start": "seed", "seed": 1, "iterations": 5}
    # Powers of two, and one bound for both: nothing is rounded in another way, but for what opening drops at random.
    fixed: dict[str, Any] = nmf | {"tol": 0.0, "bound": str(4.0 * np.sum((np.vstack(tables) / scales) ** 2))}
    scaled = run_in_threads([sp.csr_array(t) for t in tables], local_study(2, scales=scales, **fixed))
    given = run_in_threads([sp.csr_array(t / scales) for t in tables], local_study(2, **fixed))
    X = np.vstack(tables) / scales
    settings = replace(settings_for(X, 5), bound=float(fixed["bound"]))
    off = nmf_rounding(X, topics(2, 4, 1), settings, 2)[1]
    assert np.abs(scaled.V - given.V).max() <= 2 * off <= 1e-8


def test_sparse_rows_take_no_offsets(tmp_path: Path) -> None:
    study = local_study(2, algorithm="pca", rank=1, engine="secsum", offsets=(1.0, 0.0))
    with pytest.raises(InputError, match="sparse rows and the study has offsets, which would fill them"):
        run_in_threads([sp.csr_array(np.eye(2)), np.eye(2)], study)
    with pytest.raises(InputError, match="has 3 columns and the study 2 offsets"):
        run_in_threads([np.eye(3), np.eye(3)], study)


@pytest.mark.parametrize("centre", ["open", "none"])
def test_mean_is_what_was_taken_off_the_rows_as_they_came(centre: str) -> None:
    tables = [t[:, :4] for t in far_from_zero()[:2]]
    offsets, scales = (90.0, 80.0, 70.0, 60.0), (1.0, 2.0, 4.0, 8.0)
    study = local_study(
        2,
        algorithm="pca",
        rank=1,
        engine="secsum",
        centre=centre,
        offsets=offsets,
        scales=scales,
        iterations=3,
        tol=0.0,
    )
    mean = run_in_threads(tables, study).mean
    if centre == "none":
        np.testing.assert_array_equal(mean, np.array(offsets))
        return
    moved = [(t - offsets) / scales for t in tables]
    # As they come back, each is rounded once more: to EPS of the rows.
    allowed = mean_rounding(moved) * np.array(scales) + EPS * np.abs(np.vstack(tables)).max()
    assert np.all(np.abs(mean - np.mean(np.vstack(tables), axis=0)) <= allowed)


@pytest.mark.parametrize(("looser", "warned"), [(1.0, False), (1e3, False), (1e10, True)])
def test_a_bound_so_loose_that_the_sums_show_too_little_is_warned_of(looser: float, warned: bool) -> None:
    """With `--reveal sum` and 44 bits below the bound: no run that its noise has ended says only that it converged."""
    tables = [np.random.default_rng(m).normal(size=(40, 6)) * 2.0 ** -np.arange(6) for m in range(2)]
    bound = str(looser * max(float(np.linalg.norm(t.T @ t)) for t in tables))
    done = run_in_threads(tables, local_study(2, algorithm="svd", rank=2, engine="secsum", bound=bound, tol=1e-6))
    assert done.report["converged"]
    assert any("what is opened of the sums shows no more" in w for w in done.report["warnings"]) == warned
    V = np.linalg.svd(np.vstack(tables))[2][:2].T
    assert (sine(V, done.V) <= 1e-5) == (not warned)


def with_seconds() -> list[np.ndarray]:
    """Three parties' rows; the last column is a time in seconds, whose squares are beyond the window."""
    rng = np.random.default_rng(6)
    tables = [rng.normal(size=(n, 5)) * [5.0, 3.0, 1.0, 1.0, 1.0] for n in (40, 50, 60)]
    return [np.column_stack([t, 1.6e9 + 2e7 * (t[:, 0] + rng.normal(size=len(t)))]) for t in tables]


def test_times_in_seconds_are_scaled_in_the_window_with_and_without_gaps() -> None:
    tables = with_seconds()
    assert min(np.sum(t**2) for t in tables) > WINDOW / 3
    expected = np.linalg.svd(standardised(tables), full_matrices=False)[2][:2].T
    found = run_in_threads(tables, local_study(3, algorithm="pca", rank=2, scale="secsum"))
    assert found.report["bound"]["source"] == "public"
    assert sine(expected, found.V) < 1e-7  # tol
    tables[1][3, 2] = np.nan
    X = np.where(np.isnan(X := np.vstack(tables)), np.nanmean(X, axis=0), X)
    expected = np.linalg.svd(StandardScaler().fit_transform(X), full_matrices=False)[2][:2].T
    filled = local_study(3, algorithm="pca", rank=2, scale="secsum", rows=RowSettings(missing="mean"))
    assert sine(expected, run_in_threads(tables, filled).V) < 1e-7


@pytest.mark.parametrize("algorithm", ["pca", "svd"])
@pytest.mark.parametrize(
    ("bound", "advice"), [("auto", "scale the features (--scale secsum; in Python scale="), ("9", "")]
)
def test_a_column_that_is_too_large_is_named_with_what_to_do(algorithm: str, bound: str, advice: str) -> None:
    with pytest.raises(QuotaError) as caught:
        run_in_threads(with_seconds(), local_study(3, algorithm=algorithm, rank=2, bound=bound))
    said = str(caught.value)
    assert "it was not sent. Nearly all of it is column 6." in said
    assert f"Do this: {advice}" in said
    assert (
        "agree on a larger --bound (in Python bound=) or quota, leave that column out (--drop), or take off a" in said
    )
