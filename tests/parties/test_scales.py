"""Offsets and scales of the features, agreed or by SecSum: what is factorised, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from pdml_spdz.errors import InputError
from pdml_spdz.fixedpoint import Format
from pdml_spdz.linalg import EPS, sine
from pdml_spdz.local import local_study
from pdml_spdz.threads_run import ThreadsResult, run_in_threads
from tests.parties.test_pca import TOL, angle_tolerance, centred_sigma, far_from_zero, mean_rounding, variance_tolerance
from tests.properties.test_nmf_transcript import whole_fit
from tests.unit.test_svd import angle_tolerance as svd_tolerance
from tests.unit.test_svd import pooled


def scale_rounding(tables: list[np.ndarray], mean: np.ndarray | float) -> float:
    """How far root mean squares around `mean` are off, relative to the smallest: half of what the squares' sums are.

    These are rounded as those of the mean; float64 adds up n squares, of differences that are off by EPS of the rows.
    """
    X = pooled(tables)
    size = np.sqrt(np.mean((X - mean) ** 2, axis=0))
    size = size[size > 0]
    total = 2 * sum(float(np.linalg.norm(np.sum((t - mean) ** 2, axis=0))) for t in tables)
    unit = Format.for_bound(total, len(tables)).tolerance / len(X)
    floats = len(X) * EPS * size**2 + 2 * EPS * float(np.abs(X).max()) * size + mean_rounding(tables) ** 2
    return float(np.max((unit + floats) / size**2)) / 2


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


def test_svd_of_scaled_rows() -> None:
    tables = [np.abs(t[:, :4]) for t in far_from_zero()[::2]]
    X, scales = np.vstack(tables), (0.5, 2.0, 8.0, 1.0)
    vectors = {"algorithm": "svd", "rank": 2, "tol": TOL, "engine": "secsum"}

    def angle(found: ThreadsResult, scale: Any) -> tuple[float, float]:
        allowed = svd_tolerance([t / scale for t in tables], 2, found.report["bound"]["addend"], TOL)
        return sine(np.linalg.svd(X / scale)[2][:2].T, found.result), allowed

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
    topics = {"algorithm": "nmf", "rank": 2, "engine": "secsum", "start": "seed", "seed": 1, "iterations": 5}
    # Powers of two, and one bound for both: nothing is rounded in another way.
    fixed: dict[str, Any] = topics | {"tol": 0.0, "bound": str(4.0 * np.sum((np.vstack(tables) / scales) ** 2))}
    scaled = run_in_threads([sp.csr_array(t) for t in tables], local_study(2, scales=scales, **fixed))
    given = run_in_threads([sp.csr_array(t / scales) for t in tables], local_study(2, **fixed))
    np.testing.assert_array_equal(scaled.result, given.result)


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
