"""The scale that level normed hides, computed from what a run has opened and what is known of S besides: where a study
says that it follows, it does.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.engines.openings import one_scale
from pdml_spdz.fits.functionals import follows, suspected
from pdml_spdz.local.joint import local_study
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.reading import RowSettings
from pdml_spdz.rows.suspects import CONSTANT_KIND, EQUAL_SUMS, TWO_VALUES, UNIT_ROWS, WHOLE_KIND, kinds

RNG = np.random.default_rng(5)
REAL = RNG.normal(size=(300, 6)) * [3, 2, 1.5, 1, 0.7, 0.5] + 1.0
Opened = tuple[np.ndarray, Any]


def opened(monkeypatch: pytest.MonkeyPatch, algorithm: str, X: np.ndarray, **settings: Any) -> Opened:
    """c S, as any party computes it from a whole run at level normed; and the result."""
    blocks, honest = [], one_scale.FixedScale.__call__

    def call(scale: Any, x: np.ndarray, g: np.ndarray, lengths: Any = None) -> Any:
        found = honest(scale, x, g, lengths)
        if scale.runner.sec_sum.link.me == 0:
            blocks.append((g.copy(), found.scaled.copy()))
        return found

    monkeypatch.setattr(one_scale.FixedScale, "__call__", call)
    # No tolerance is reached before all directions are opened: then Q is square.
    settings |= {"rank": 3, "tol": 0.0, "iterations": 4, "transport": "threads"}
    result = getattr(pdml_spdz, algorithm)(np.array_split(X, 3), **settings)
    Q, C = (np.hstack(part) for part in zip(*blocks, strict=True))
    assert Q.shape[1] >= X.shape[1]
    cS = C @ np.linalg.pinv(Q)
    return (cS + cS.T) / 2, result


def assert_scale(c: float, cS: np.ndarray, S: np.ndarray) -> None:
    assert np.abs(cS / c - S).max() < 1e-6 * np.abs(S).max()


def centred(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))


def test_scaled_features_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cS, result = opened(monkeypatch, "pca", REAL, scale="secsum")
    n = result.report["rows_all"]
    assert_scale(float(np.trace(cS)) / (6 * n), cS, len(REAL) * np.corrcoef(REAL.T))
    assert any("c, and so S and its singular values" in seen for seen in result.report["observables"])


def test_variance_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cS, result = opened(monkeypatch, "pca", REAL, variance=True)
    v, n = result.V[:, 0], result.report["rows_all"]
    assert_scale(float(v @ cS @ v) / (result.report["explained_variance"][0] * (n - 1)), cS, centred(REAL))
    assert any("c, and so S and its singular values" in seen for seen in result.report["observables"])


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (-1.5, 2.25)])
def test_two_values_with_an_open_mean_give_it(a: float, b: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.column_stack([REAL, np.where(RNG.random(300) < 0.3, a, b)])
    cS, result = opened(monkeypatch, "pca", X)
    n, mu = result.report["rows_all"], result.mean[6]
    assert_scale(cS[6, 6] / (n * (b - mu) * (mu - a)), cS, centred(X))
    assert TWO_VALUES in kinds(Data(X, None, "x"))


def test_unit_rows_around_an_open_mean_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    X = REAL / np.linalg.norm(REAL, axis=1)[:, None]
    cS, result = opened(monkeypatch, "pca", X)
    n, mu = result.report["rows_all"], result.mean
    assert_scale(float(np.trace(cS)) / (n * (1 - mu @ mu)), cS, centred(X))


def test_whole_numbers_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    X = RNG.integers(0, 5, (300, 6)).astype(float)
    cS, _ = opened(monkeypatch, "svd", X)
    ratio = Fraction(cS[0, 0] / cS[1, 1]).limit_denominator(10_000)
    least = cS[1, 1] / ratio.denominator  # c times a divisor of all that is whole
    multiples = [k for k in range(1, 100) if np.abs(cS / (least / k) - np.rint(cS / (least / k))).max() < 1e-3]
    assert_scale(least / multiples[0], cS, X.T @ X)


@pytest.mark.parametrize("kind", [CONSTANT_KIND, UNIT_ROWS, EQUAL_SUMS])
def test_what_rows_have_in_common_gives_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.column_stack([REAL, np.ones(300)])
    X = {CONSTANT_KIND: X, UNIT_ROWS: X / np.linalg.norm(X, axis=1)[:, None]}.get(kind, np.abs(X))
    X = X / X.sum(axis=1)[:, None] if kind == EQUAL_SUMS else X
    cS, _ = opened(monkeypatch, "svd", X)
    of_S = {CONSTANT_KIND: cS[6, 6], UNIT_ROWS: np.trace(cS), EQUAL_SUMS: cS.sum()}
    assert_scale(float(of_S[kind]) / len(X), cS, X.T @ X)
    assert kind in kinds(Data(X, None, "x"))


@pytest.mark.parametrize(
    ("settings", "there", "known"),
    [
        ({}, (), False),
        ({}, (WHOLE_KIND,), True),
        ({}, (TWO_VALUES,), True),
        ({}, (CONSTANT_KIND, EQUAL_SUMS), False),  # around a mean nothing is left of a constant
        ({}, (UNIT_ROWS,), True),
        ({"algorithm": "svd"}, (EQUAL_SUMS,), True),
        ({"algorithm": "svd"}, (CONSTANT_KIND,), True),
        ({"algorithm": "svd"}, (UNIT_ROWS,), True),
        ({"centre": "hidden"}, (WHOLE_KIND, TWO_VALUES), True),
        ({"centre": "hidden"}, (TWO_VALUES, UNIT_ROWS), False),
        ({"centre": "hidden"}, (CONSTANT_KIND,), False),
        ({"scale": "secsum"}, (), True),
        ({"variance": True}, (), True),
        ({"rows": RowSettings(encode=(("smoker", ("yes", "no")),))}, (), True),
        ({"reveal": "sealed", "scale": "secsum"}, (), False),
        ({"engine": "secsum", "reveal": "sum", "scale": "secsum"}, (), False),
    ],
)
def test_a_study_says_so(settings: dict[str, Any], there: tuple[str, ...], known: bool) -> None:
    study = local_study(3, **({"algorithm": "pca", "rank": 2, "engine": "embedded"} | settings))
    assert bool(follows(study, there)) == known


def test_a_party_is_told_what_its_own_columns_mean_for_the_scale() -> None:
    study = local_study(3, algorithm="pca", rank=2, engine="embedded")
    (said,) = suspected(study, kinds(Data(np.column_stack([REAL, RNG.random(300) < 0.3]).astype(float), None, "x")))
    assert "level normed does not hide the scale" in said
    assert "features of two values" in said
    assert suspected(study, kinds(Data(REAL, None, "x"))) == []
    for values in (np.arange(300) % 7 / 2, np.arange(300) % 11 / 10):  # half stars, one decimal
        assert WHOLE_KIND in kinds(Data(np.column_stack([REAL, values]), None, "x"))
    unit = Data(REAL / np.linalg.norm(REAL, axis=1)[:, None], None, "x")
    assert kinds(unit) == {UNIT_ROWS}
