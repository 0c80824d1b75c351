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
from pdml_spdz.fits.limits import MEAN_BLUR
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import EPS, sine
from pdml_spdz.run.output import two_parties
from tests.parties.helpers import EMBEDDED, Parties, rows, run
from tests.properties.test_nmf_transcript import whole_fit
from tests.unit.test_svd import pooled, stopped

D, TOL = 6, 1e-7


def far_from_zero() -> list[np.ndarray]:
    """Three parties whose rows are a hundred deviations from zero and as far from each other; one has a single row."""
    rng = np.random.default_rng(3)
    sizes, shape = (40, 1, 90), 4.0 ** -np.arange(D)
    return [rng.normal(size=(n, D)) * shape + 100.0 * rng.uniform(-1, 1, D) for n in sizes]


def angle_tolerance(tables: list[Any], k: int, report: dict[str, Any]) -> float:
    """As for PD-SVD (tests/unit/test_svd.py, tests/embedded/test_svd.py) on the rows as they are centred.

    Centring rounds: the products are exact to d EPS of the rows as they came, mean included, not of what is left of
    them. An error of the mean itself adds n times its square to the covariance, which is nothing.
    """
    X, M = pooled(tables), len(tables)
    sigma = centred_sigma(tables, report)
    q = float((sigma[k] / sigma[k - 1]) ** 2)
    if report["engine"] == "embedded":
        sums = np.sqrt(k) * (M + 1) * 2.0**-31 * np.sqrt(D)
        if report["centre"] == "hidden":
            # The scaled mean is off by M units of 2^-47, times kappa <= lambda_1 / lambda_k and what of the mean lies
            # along v, at most the root of the bound; and the parties' rows are rounded as they came, twice: S_m v and
            # t_m.v.
            sums += M * np.sqrt(D) * 2.0**-47 * (sigma[0] / sigma[k - 1]) ** 2
            sums += 2 * D * EPS * sum(float(np.sum(pooled([t]) ** 2)) for t in tables) / sigma[k - 1] ** 2
    else:
        sums = np.sqrt(D * k) * Format.for_bound(report["bound"]["addend"], M).tolerance / sigma[k - 1] ** 2
    noise = sums + D * EPS * (np.linalg.norm(X, 2) / sigma[k - 1]) ** 2
    return stopped(q, noise, TOL)


def centred_sigma(tables: list[Any], report: dict[str, Any]) -> np.ndarray:
    X = pooled(tables)
    return np.linalg.svd(X if report["centre"] == "none" else X - X.mean(axis=0), compute_uv=False)


def mean_rounding(tables: list[Any], *, blurred: bool = True) -> float:
    """Sums are rounded to 44 bits below their bound, and float64 adds up n rows.

    The bound is at most twice the sum of the parties' norms, or (blurred) 2^MEAN_BLUR of the largest of them.
    """
    X = pooled(tables)
    norms = [float(np.linalg.norm(t.sum(axis=0))) for t in tables]
    bound = max(2 * sum(norms), 2.0**MEAN_BLUR * max(norms) if blurred else 0.0)
    return Format.for_bound(bound, len(tables)).tolerance / len(X) + len(X) * EPS * float(np.abs(X).max())


def variance_tolerance(tables: list[Any], k: int, report: dict[str, Any]) -> float:
    """v.S v of a vector at an angle e to its own is off by e^2 of the largest, and its noise is at most e of itself."""
    sigma, angle = centred_sigma(tables, report), angle_tolerance(tables, k, report)
    return 2 * (angle + angle**2 * float(sigma[0] / sigma[k - 1]) ** 2)


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
        assert np.abs(np.load(tmp_path / f"party-{m}" / "mean.npy") - model.mean_).max() <= mean_rounding(tables)
    if engine == "secsum":
        off = variance_tolerance(tables, k, reports[0]) / 2  # of a square
        np.testing.assert_allclose(reports[0]["singular_values"], model.singular_values_, rtol=off)


@pytest.mark.parametrize(("M", "sparse"), [(2, True), pytest.param(3, False, marks=pytest.mark.long)])
def test_hidden_and_open_centring_and_scikit_learn_agree(tmp_path: Path, M: int, sparse: bool) -> None:
    k, tables = 3, far_from_zero()[3 - M :]
    X = np.vstack(tables)
    if sparse:
        tables = [sp.csr_array(t) for t in tables]
    found = {}
    for centre in ("open", "hidden"):
        out = tmp_path / centre
        reports = whole_fit(tables, out, algorithm="pca", rank=k, tol=TOL, engine="embedded", centre=centre)
        found[centre] = np.load(out / "party-0" / "V.npy"), reports[0]
        for m, report in enumerate(reports):
            assert report["converged"]
            assert (report["rows_all"], report["centre"]) == (len(X), centre)
            assert report["warnings"] == two_parties(local_study(M, algorithm="pca", rank=k, centre=centre))
            assert (out / f"party-{m}" / "mean.npy").exists() == (centre == "open")
            assert ("the mean of all rows, to every party" in report["observables"]) == (centre == "open")
    tolerance = {centre: angle_tolerance(tables, k, report) for centre, (_, report) in found.items()}
    components = PCA(k, svd_solver="full").fit(X).components_.T
    assert max(tolerance.values()) <= 1e-6
    assert sine(components, found["hidden"][0]) <= tolerance["hidden"]
    assert sine(found["open"][0], found["hidden"][0]) <= sum(tolerance.values())


@pytest.mark.parametrize("far", [0.0, 300.0, 3e4])
def test_hidden_centring_drops_columns_beyond_the_rank(tmp_path: Path, far: float) -> None:
    rng = np.random.default_rng(8)
    plane = rng.normal(size=(2, D))
    plane[:, 4] = 0.0  # and one feature is constant
    tables = [rng.normal(size=(n, 2)) @ plane + far * np.linspace(0.5, 1.0, D) for n in (12, 20)]
    hidden = {"algorithm": "pca", "rank": 4, "tol": 1e-6, "engine": "embedded", "centre": "hidden"}
    (report, _) = whole_fit(tables, tmp_path, **hidden)
    assert report["rank_found"] == 2
    assert any("2 of 4 columns were dropped" in warning for warning in report["warnings"])
    components = PCA(2, svd_solver="full").fit(np.vstack(tables)).components_.T
    # EPS of the squares of the means beside the deviations, twice for each party, and six features
    assert sine(components, np.load(tmp_path / "party-0" / "V.npy")) <= 1e-6 + 4 * D**2 * EPS * far**2


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.long)], ids=str)
def test_rounding_of_a_hidden_mean_is_no_direction(seeds: range) -> None:
    """Rounded as they came, rows left a third column, the same at every product, in every fifth fit or so."""
    hidden = {"algorithm": "pca", "rank": 4, "tol": 1e-6, "engine": "embedded", "centre": "hidden", "start": "seed"}
    found = []
    for seed in seeds:
        rng = np.random.default_rng(8 + seed)
        plane = rng.normal(size=(2, D))
        tables = [rng.normal(size=(n, 2)) @ plane + 300.0 * np.linspace(0.5, 1.0, D) for n in (200, 300)]
        found.append(run_in_threads(tables, local_study(2, **hidden, seed=seed)).report["rank_found"])
    assert found == [2] * len(seeds)


@pytest.mark.parametrize("solver", ["krylov", "power"])
def test_offset_near_the_means_brings_back_what_rounding_takes(tmp_path: Path, solver: str) -> None:
    k, offset = 2, 1e5 * np.linspace(0.5, 1.0, D)
    tables = [np.random.default_rng(m).normal(size=(20 + m, D)) * 3.0 ** -np.arange(D) + offset for m in range(2)]
    components = PCA(k, svd_solver="full").fit(np.vstack(tables)).components_.T
    hidden = {"algorithm": "pca", "rank": k, "tol": TOL, "engine": "embedded", "centre": "hidden"}
    off, warnings = {}, {}
    for name, given in (("without", ()), ("with", tuple(offset))):
        study = local_study(2, offsets=given, solver=solver, **hidden)
        done = run_in_threads(tables, study)
        off[name], warnings[name] = sine(components, done.V), done.report["warnings"]
    large = ["the means of the features are large beside their deviations" in w for w in warnings["without"]]
    assert sum(large) == 1
    assert warnings["with"] == two_parties(study)
    near = [t - offset for t in tables]
    assert off["with"] <= angle_tolerance(near, k, done.report) < off["without"]


@pytest.mark.parametrize(("centre", "asked"), [("open", True), ("open", False), ("none", True)])
def test_explained_variance_is_shown_only_if_asked_for(tmp_path: Path, centre: str, asked: bool) -> None:
    k, tables = 2, [t[:, :4] - 90.0 * (centre == "none") for t in far_from_zero()[::2]]
    study = {"algorithm": "pca", "rank": k, "tol": TOL, "engine": "embedded", "centre": centre, "variance": asked}
    (report, _) = whole_fit(tables, tmp_path, **study)
    assert report["singular_values"] is None
    assert ("explained_variance" in report) == asked
    assert any("explained variance" in seen for seen in report["observables"]) == asked
    if asked:
        X = np.vstack(tables)
        sigma = centred_sigma(tables, report)
        off = variance_tolerance(tables, k, report)
        np.testing.assert_allclose(report["explained_variance"], sigma[:k] ** 2 / (len(X) - 1), rtol=off)
        ratios = sigma[:k] ** 2 / sum(sigma**2)
        np.testing.assert_allclose(report["explained_variance_ratio"], ratios, rtol=2 * off)


def test_hidden_centring_by_command_takes_its_stock(tmp_path: Path) -> None:
    tables = far_from_zero()[::2]
    for m, table in enumerate(tables):
        np.save(tmp_path / f"{m}.npy", table)
    hidden = ["--rank", "2", "--centre", "hidden", "--iterations", "12", "--tol", str(TOL), "--stock", "stocks"]
    run("offline", "make", "--algorithm", "pca", "-M", "2", "--dim", str(D), *hidden, cwd=tmp_path).well()
    ended = run("pca", "0.npy", "1.npy", *hidden, "--offline", "stock", "--json", "--out", "out", cwd=tmp_path)
    ended.well()
    report = json.loads(ended.out)
    assert report["stock"]["mode"] == "stock"
    assert report["program"] == "scaled_sum_centred"
    assert report["accuracy"]["largest_angle_sine"] <= angle_tolerance(tables, 2, report)
    assert not (tmp_path / "out" / "party-0" / "mean.npy").exists()


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
    ended = run("pca", "a.npy", "b.npz", "c.csv", *options, "--columns-by", "position", cwd=tmp_path)
    ended.well()
    report = json.loads(ended.out)
    assert report["algorithm"] == "pca"
    assert report["accuracy"]["largest_angle_sine"] <= angle_tolerance(tables, 3, report)
    assert (tmp_path / "out" / "V.npy").exists()


def test_resume_goes_on_around_the_same_mean(parties: Callable[..., Parties]) -> None:
    fixed = {"algorithm": "pca", "rank": 2, "solver": "power", "tol": 0.0, "start": "seed", "seed": 7}
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


@pytest.mark.parametrize("settings", [{}, EMBEDDED, {"algorithm": "nmf"}], ids=["secsum", "embedded", "nmf"])
def test_rank_above_the_number_of_features_is_refused_by_everyone(
    parties: Callable[..., Parties], settings: dict[str, str]
) -> None:
    site = parties(**{"algorithm": "pca", "rank": 7} | settings)
    for end in site.run():
        end.failed(InputError, "the rank asked for is 7 and rows.npy has 6 columns", "Wanted: a rank of at most d")


def test_two_rows_in_all_are_enough(tmp_path: Path) -> None:
    tables = [np.array([[1.0, 2.0, 5.0]]), np.array([[3.0, 2.0, 4.0]])]
    (report, _) = whole_fit(tables, tmp_path, algorithm="pca", rank=1, engine="secsum")
    direction = (tables[1] - tables[0]).T / np.sqrt(5.0)
    # Three numbers of S v, with the one eigenvalue 5/2, rounded to 44 bits below their bound.
    opened = np.sqrt(3) * Format.for_bound(report["bound"]["addend"], 2).tolerance / 2.5
    assert sine(direction, np.load(tmp_path / "party-0" / "V.npy")) <= opened + 10 * EPS
