"""PD-PCA against scikit-learn's PCA of the pooled rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA

from pdml_spdz.errors import InputError
from pdml_spdz.fixedpoint import Format
from pdml_spdz.linalg import EPS, sine
from tests.parties.helpers import EMBEDDED, Parties, rows, run
from tests.properties.test_nmf_transcript import whole_fit
from tests.unit.test_svd import pooled

D, TOL = 6, 1e-7


def far_from_zero() -> list[np.ndarray]:
    """Three parties whose rows are a hundred deviations from zero and as far from each other; one has a single row."""
    rng = np.random.default_rng(3)
    sizes, shape = (40, 1, 90), 4.0 ** -np.arange(D)
    return [rng.normal(size=(n, D)) * shape + 100.0 * rng.uniform(-1, 1, D) for n in sizes]


def angle_tolerance(tables: list[Any], k: int, report: dict[str, Any]) -> float:
    """As for PD-SVD (tests/unit/test_svd.py, tests/embedded/test_svd.py) on the centred rows.

    Centring rounds: the products are exact to d EPS of the rows as they came, mean included, not of what is left of
    them. An error of the mean itself adds n times its square to the covariance, which is nothing.
    """
    X, M = pooled(tables), len(tables)
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    q = float((sigma[k] / sigma[k - 1]) ** 2)
    if report["engine"] == "embedded":
        sums = np.sqrt(k) * (M + 1) * 2.0**-31 * np.sqrt(D)
    else:
        sums = np.sqrt(D * k) * Format.for_bound(report["bound"]["addend"], M).tolerance / sigma[k - 1] ** 2
    noise = sums + D * EPS * (np.linalg.norm(X, 2) / sigma[k - 1]) ** 2
    return (max(TOL, 2 * noise) * q + 2 * noise) / (1 - q)


@pytest.mark.parametrize(
    ("engine", "sparse"),
    [("secsum", ()), ("secsum", (0, 1, 2)), ("secsum", (1,)), ("embedded", ()), ("embedded", (0, 1, 2))],
)
def test_components_equal_those_of_scikit_learn(tmp_path: Path, engine: str, sparse: tuple[int, ...]) -> None:
    k, tables = 3, [sp.csr_array(X) if m in sparse else X for m, X in enumerate(far_from_zero())]
    reports = whole_fit(tables, tmp_path, algorithm="pca", rank=k, tol=TOL, engine=engine)
    V = np.load(tmp_path / "party-0" / "V.npy")
    X = pooled(tables)
    model = PCA(k, svd_solver="full").fit(X)
    tolerance = angle_tolerance(tables, k, reports[0])
    assert tolerance <= 1e-6
    assert sine(model.components_.T, V) <= tolerance
    assert np.abs(V.T @ V - np.eye(k)).max() <= 10 * k * EPS
    for m, report in enumerate(reports):
        assert report["converged"]
        assert report["rows_all"] == len(X)
        assert report["rows_own"] == tables[m].shape[0]
        assert any("the mean of all rows" in seen for seen in report["observables"])
        np.testing.assert_array_equal(np.load(tmp_path / f"party-{m}" / "V.npy"), V)
        # The sums are below twice the sum of the parties' norms and rounded to that.
        total = 2 * sum(float(np.linalg.norm(t.sum(axis=0))) for t in tables)
        rounding = Format.for_bound(total, 3).tolerance / len(X) + len(X) * EPS * np.abs(X).max()
        assert np.abs(np.load(tmp_path / f"party-{m}" / "mean.npy") - model.mean_).max() <= rounding
    if engine == "secsum":
        # ||S v|| is off by the noise of S, and by the square of the angle times the largest of all.
        spread = (model.singular_values_[0] / model.singular_values_[-1]) ** 2
        np.testing.assert_allclose(
            reports[0]["singular_values"], model.singular_values_, rtol=tolerance + tolerance**2 * spread
        )


def test_centring_by_the_parties_own_means_would_be_seen() -> None:
    """What the paper prints, and no centring at all, are far from the components."""
    tables, k = far_from_zero(), 3
    X = pooled(tables)
    components = PCA(k, svd_solver="full").fit(X).components_.T
    printed = [X_m - len(X_m) / len(X) * X_m.sum(axis=0) for X_m in tables]
    for wrong in ([X_m - X_m.mean(axis=0) for X_m in tables], tables, printed):
        V = np.linalg.svd(pooled(wrong), full_matrices=False)[2][:k].T
        assert sine(components, V) > 0.1


def test_command_compares_itself_with_the_pooled_rows(tmp_path: Path) -> None:
    tables = far_from_zero()
    np.save(tmp_path / "a.npy", tables[0])
    sp.save_npz(tmp_path / "b.npz", sp.csr_array(tables[1]))
    np.savetxt(tmp_path / "c.csv", tables[2], delimiter=",", header=",".join("abcdef"), comments="", fmt="%.17g")
    options = ["--rank", "3", "--tol", str(TOL), "--reveal", "sum", "--json", "--out", "out"]
    ended = run("pca", "a.npy", "b.npz", "c.csv", *options, cwd=tmp_path)
    ended.well()
    report = json.loads(ended.out)
    assert report["algorithm"] == "pca"
    assert report["accuracy"]["largest_angle_sine"] <= angle_tolerance(tables, 3, report)
    assert (tmp_path / "out" / "V.npy").exists()


def test_resume_goes_on_around_the_same_mean(parties: Callable[..., Parties]) -> None:
    fixed = {"algorithm": "pca", "rank": 2, "tol": 0.0, "start": "seed", "seed": 7}
    site, whole = parties(**fixed, iterations=4), parties(**fixed, iterations=9)
    for end in (*site.run(), *whole.run()):
        end.well()
    site.change_studies(iterations=9)
    for end in site.run("--resume"):
        end.well()
    assert "resuming after iteration 4" in site.processes[0].out
    X = np.vstack([rows(0), rows(1)])
    lambdas = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    # Nine iterations, each off by the rounding of the sums (below twice the total) and of products, over lambda_k.
    unit = Format.for_bound(2 * lambdas.sum(), 2).tolerance + 6 * EPS * np.sum(X**2)
    tolerance = 2 * 9 * np.sqrt(12) * unit / lambdas[1]
    V, expected = (np.load(s.results(1) / "V.npy") for s in (site, whole))
    assert sine(expected, V) <= tolerance


@pytest.mark.parametrize("settings", [{}, EMBEDDED], ids=["secsum", "embedded"])
def test_rank_above_the_number_of_features_is_refused_by_everyone(
    parties: Callable[..., Parties], settings: dict[str, str]
) -> None:
    site = parties(algorithm="pca", rank=7, **settings)
    for end in site.run():
        end.failed(InputError, "the rank asked for is 7 and rows.npy has 6 columns", "Wanted: a rank of at most d")


def test_two_rows_in_all_are_enough(tmp_path: Path) -> None:
    tables = [np.array([[1.0, 2.0, 5.0]]), np.array([[3.0, 2.0, 4.0]])]
    whole_fit(tables, tmp_path, algorithm="pca", rank=1, engine="secsum")
    direction = (tables[1] - tables[0]).T / np.sqrt(5.0)
    assert sine(direction, np.load(tmp_path / "party-0" / "V.npy")) <= 10 * EPS
