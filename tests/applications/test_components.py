"""Principal component regression and low rank approximation, against scikit-learn on the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression

from pdml_spdz.applications import low_rank, regression
from pdml_spdz.applications.low_rank import Score, joint
from pdml_spdz.applications.uplift import (
    Uplift,
    local_pca,
    local_svd,
    low_rank_uplift,
)
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import InputError, QuotaError
from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.numerics.linalg import sine
from tests.threads import fit as pd_svd_fit
from tests.threads import run_threads

CLOSE = 1e-6  # PD-SVD stops when a subspace changes by 1e-10; what comes of it is as good as that times ||X||


def rows(n: int, seed: int, noise: float = 0.3, d: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """n rows near a plane of three dimensions in d, away from the origin, and targets on that plane."""
    plane = np.linalg.qr(np.random.default_rng(7).normal(size=(d, 3)))[0].T
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3)) * [5.0, 4.0, 3.0]
    X = Z @ plane + noise * rng.normal(size=(n, d)) + 2.0
    return X, Z @ [1.0, -2.0, 0.5] + 10.0 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("as_printed", [False, True])
def test_regression_on_pooled_rows_equals_scikit_learn(as_printed: bool) -> None:
    (X, y), X_test = rows(90, 0), rows(40, 1)[0]
    mean = X.mean(axis=0)
    parts = np.array_split(X - mean, 3)
    V = pd_svd_fit(parts, 3)[0].result.V
    model = regression.fit(X, y, V, mean, as_printed=as_printed)
    pca = PCA(3).fit(X)
    theirs = LinearRegression().fit(pca.transform(X), y)
    np.testing.assert_allclose(model.predict(X_test), theirs.predict(pca.transform(X_test)), atol=CLOSE)


def test_regression_of_one_party_has_its_own_intercept() -> None:
    (X, y), X_test = rows(90, 0), rows(40, 1)[0]
    V, mean = local_pca(X, 3)
    own = slice(0, 20)
    theirs = LinearRegression().fit((X[own] - mean) @ V, y[own])
    model = regression.fit(X[own], y[own], V, mean)
    np.testing.assert_allclose(model.predict(X_test), theirs.predict((X_test - mean) @ V), atol=1e-9)
    printed = regression.fit(X[own], y[own], V, mean, as_printed=True)
    assert model.score(X[own], y[own]).total < printed.score(X[own], y[own]).total


def test_joint_regression_is_that_of_the_pooled_rows() -> None:
    (X, y), X_test = rows(90, 0), rows(40, 1)[0]
    V, mean = local_pca(X, 3)
    tables, scales = [slice(0, 4), slice(4, 50), slice(50, 90)], regression.Scales(100.0, 100.0, 1000)

    def party(link):
        sec_sum, own = SecSumEngine(link, b"test", "auto").sec_sum, tables[link.me]
        return regression.fit_jointly(X[own], y[own], V, mean, sec_sum, scales=scales).predict(X_test)

    theirs = LinearRegression().fit((X - mean) @ V, y).predict((X_test - mean) @ V)
    predictions = run_threads(3, party)
    for predicted in predictions:
        np.testing.assert_array_equal(predicted, predictions[0])
    rounded = joint_rounding((X - mean) @ V)
    assert np.abs(predictions[0] - theirs).max() <= rounded + 1e-9
    assert rounded < 1e-4 * np.ptp(theirs)


def joint_rounding(Xhat: np.ndarray) -> float:
    """How far off predictions are, of targets up to 100 by coordinates up to 100.

    The sums have 44 bits below most row^2; normal equations lose what the smallest curvature is smaller than that.
    """
    A = np.column_stack([Xhat / 100.0, np.ones(len(Xhat))])
    curvature = np.linalg.eigvalsh(A.T @ A / 1000)[0]
    return float(100.0 * A.shape[1] ** 2 * Format.for_bound(1.0, 3).tolerance / curvature)


def test_joint_regression_leaves_out_what_no_row_shows() -> None:
    """A component along which all rows are zero: what opening leaves of its moments is not divided by."""
    (X, y), X_test = rows(90, 0), rows(40, 1)[0]
    V, mean = local_pca(X, 2)
    rounded = joint_rounding((X - mean) @ V)
    theirs = LinearRegression().fit((X - mean) @ V, y).predict((X_test - mean) @ V)
    X, X_test = (np.hstack([Y, np.zeros((len(Y), 1))]) for Y in (X, X_test))
    V, mean = np.vstack([np.hstack([V, np.zeros((len(V), 1))]), np.eye(3)[2:]]), np.append(mean, 0.0)
    scales = regression.Scales(100.0, 100.0, 1000)

    def party(link):
        sec_sum, own = SecSumEngine(link, b"test", "auto").sec_sum, slice(30 * link.me, 30 * link.me + 30)
        return regression.fit_jointly(X[own], y[own], V, mean, sec_sum, scales=scales)

    model = run_threads(3, party)[0]
    assert np.abs(model.predict(X_test) - theirs).max() <= rounded + 1e-9
    assert abs(model.beta[2]) <= rounded


@pytest.mark.parametrize("loose", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("aside", [0.0, 1e5])
@pytest.mark.parametrize("k", [2, 3, 8])
def test_joint_coefficients_are_known_to_as_many_digits_as_it_says(k: int, aside: float, loose: float) -> None:
    """And to no more than four more: bounds of every last place and of their sum, where rounding is random."""
    X, y = rows(90, 0)
    V, mean = local_pca(X, k)
    Z, y = (X - mean) @ V, y + aside
    exact = LinearRegression().fit(Z, y).coef_
    longest = float(np.linalg.norm(Z, axis=1).max())
    scales = regression.Scales(longest * loose, float(np.abs(y).max()) * loose, 30)

    def party(link):
        sec_sum, own = SecSumEngine(link, b"test", "auto").sec_sum, slice(30 * link.me, 30 * link.me + 30)
        return regression.fit_jointly(X[own], y[own], V, mean, sec_sum, scales=scales)

    model = run_threads(3, party)[0]
    off = np.linalg.norm(model.beta - exact) / np.linalg.norm(exact)
    assert model.digits == 0 or 10.0 ** -(model.digits + 4) <= off <= 10.0**-model.digits
    assert model.digits >= 3 or loose * (1 + aside / 1e3) >= 100


def test_joint_regression_beyond_the_agreed_scales_sends_nothing() -> None:
    X, y = rows(30, 0)
    V, mean = local_pca(X, 2)
    for scales in (
        regression.Scales(0.1, 100.0, 99),
        regression.Scales(100.0, 0.1, 99),
        regression.Scales(100.0, 100.0, 9),
    ):
        with pytest.raises(QuotaError, match="nothing was sent"):
            regression.fit_jointly(X, y, V, mean, lambda x, bound, purpose: pytest.fail("sent"), scales=scales)


def test_regression_takes_sparse_rows() -> None:
    X, y = rows(30, 0)
    V, mean = local_pca(X, 2)
    dense = regression.fit(X, y, V, mean)
    np.testing.assert_allclose(regression.fit(sp.csr_array(X), y, V, mean).beta, dense.beta, atol=1e-9)


def test_rmse_by_hand() -> None:
    V = np.eye(2)[:, :1]
    model = regression.Regression(V, None, np.array([2.0]), 1.0)
    X, y = np.array([[1.0, 9.0], [2.0, 9.0]]), np.array([4.0, 2.0])  # predictions 3 and 5, errors 1 and -3
    assert model.rmse(X, y) == pytest.approx(np.sqrt(5.0))


@pytest.mark.parametrize(
    ("y", "text"), [(np.ones(3), "one target for each row"), (np.array([1.0, np.nan, 2.0, 3.0]), "not finite")]
)
def test_bad_targets_are_refused(y: np.ndarray, text: str) -> None:
    with pytest.raises(InputError, match=text):
        regression.fit(np.ones((4, 2)), y, np.eye(2))


def test_rows_with_other_columns_than_V_are_refused() -> None:
    with pytest.raises(InputError, match="as many columns"):
        low_rank.reconstruction_error(np.ones((4, 3)), np.eye(2))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_low_rank_error_equals_truncated_svd(make: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_rank, "BLOCK_NUMBERS", 64)  # several blocks
    X, X_test = rows(60, 0)[0], rows(30, 1)[0]
    theirs = TruncatedSVD(2, algorithm="arpack").fit(X)
    wanted = np.linalg.norm(X_test - theirs.inverse_transform(theirs.transform(X_test)))
    V = pd_svd_fit(np.array_split(X, 3), 2)[0].result.V
    assert low_rank.reconstruction_error(make(X_test), V) == pytest.approx(wanted, abs=CLOSE)


def test_low_rank_error_with_a_mean_equals_pca() -> None:
    X, X_test = rows(60, 0)[0], rows(30, 1)[0]
    theirs = PCA(2).fit(X)
    wanted = np.linalg.norm(X_test - theirs.inverse_transform(theirs.transform(X_test)))
    V, mean = local_pca(X, 2)
    for test in (X_test, sp.csr_array(X_test)):
        assert low_rank.reconstruction_error(test, V, mean) == pytest.approx(wanted, abs=CLOSE)


def test_a_party_alone_computes_its_own_svd() -> None:
    X = rows(25, 3)[0]
    V = np.linalg.svd(X)[2][:3].T
    assert sine(V, local_svd(X, 3)) < CLOSE


def test_joining_helps_small_parties() -> None:
    (X, y), held_out = rows(300, 0, 2.0, 40), rows(100, 1, 2.0, 40)
    owns = [slice(m, m + 15) for m in range(0, 300, 30)]
    V, mean = local_pca(X, 3)

    def uplift(own: slice, printed: bool) -> float:
        """Of principal component regression with the common components instead of the party's own."""
        errors = [
            regression.fit(X[own], y[own], *basis, as_printed=printed).rmse(*held_out)
            for basis in (local_pca(X[own], 3), (V, mean))
        ]
        return Uplift(*errors).percent

    gains = {printed: np.mean([uplift(own, printed) for own in owns]) for printed in (False, True)}
    # As printed, the common mean costs a party the intercept that its own mean gave it.
    assert gains[False] > 15
    assert gains[False] > gains[True]
    common = local_svd(X, 3)
    gained = [low_rank_uplift(X[own], held_out[0], common) for own in owns]
    assert min(gain.percent for gain in gained) > 3
    assert gained[0].joint == low_rank.reconstruction_error(held_out[0], common)


def test_percentage_is_of_the_local_error() -> None:
    assert Uplift(4.0, 3.0).percent == 25.0
    assert Uplift(2.0, 3.0).percent == -50.0


def test_joint_score_is_the_sum_of_all_parties() -> None:
    scores = [Score(2.5, 3), Score(0.0, 0), Score(7.25, 9)]

    def party(link):
        engine = SecSumEngine(link, b"test", "auto")
        return joint(scores[link.me], engine.sec_sum, largest=1.0, most=100)

    for total in run_threads(3, party):
        assert total.count == 12
        # Rounded to 44 bits below 100, what a party's total may be.
        assert abs(total.total - 9.75) <= 100 * Format.for_bound(1.0, 3).tolerance
    with pytest.raises(InputError, match="nothing held out"):
        _ = scores[1].mean
