"""The scikit-learn transformers: scikit-learn's own checks, equality with its pooled results, both transports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import rri_nmf
from pdml_spdz.errors import EngineError, InputError, StudyError
from pdml_spdz.estimators import PDNMF, PDPCA, PDSVD, split
from pdml_spdz.study.model import choose_engine

ESTIMATORS = [PDSVD, PDPCA, PDNMF]
CLOSE = 1e-6  # a subspace that changes by less than tol = 1e-9, times entries of about 10 and a spectral gap
OPEN = {"engine": "secsum", "transport": "threads"}  # quick, and singular values are seen


# No check is expected to fail: {check's name: reason}, by estimator.
EXPECTED_FAILURES: dict[type, dict[str, str]] = {PDSVD: {}, PDPCA: {}, PDNMF: {}}


# Two iterations do: the checks ask for the same result twice, not for a good one.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*components. the rows have no more:UserWarning")
@parametrize_with_checks(
    [kind(transport="threads", max_iter=2, engine="secsum") for kind in ESTIMATORS],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES[type(estimator)],
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


def rows(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(40, 5)) * [6.0, 4.0, 2.0, 1.0, 0.5] + [3.0, 0.0, 0.0, 1.0, 0.0]


def counts(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(40 * rng.dirichlet(np.ones(3), 30) @ rng.dirichlet(np.full(8, 0.3), 3)).astype(float)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_svd_equals_truncated_svd(make: type) -> None:
    X, ours = rows(), PDSVD(2, **OPEN).fit(make(rows()))
    theirs = TruncatedSVD(2, algorithm="arpack").fit(X)
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.components_ * signs[:, None], theirs.components_, atol=CLOSE)
    np.testing.assert_allclose(ours.singular_values_, theirs.singular_values_, rtol=CLOSE)
    back = ours.inverse_transform(ours.transform(make(X)))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(X)), atol=10 * CLOSE)
    assert list(ours.get_feature_names_out()) == ["pdsvd0", "pdsvd1"]


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_pca_equals_pooled_pca(make: type) -> None:
    X, ours, theirs = rows(), PDPCA(2, **OPEN).fit(make(rows())), PCA(2).fit(rows())
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-9)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=CLOSE)
    back = ours.inverse_transform(ours.transform(make(X)))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(X)), atol=10 * CLOSE)


def test_pca_with_a_hidden_mean() -> None:
    X = rows()
    settings = {"engine": "embedded", "bound": 1e5, "transport": "threads", "random_state": 0}
    ours, theirs = PDPCA(2, centre="hidden", **settings).fit(X, parties=[15, 25]), PCA(2).fit(X)
    assert ours.mean_ is None
    assert ours.explained_variance_ is None
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.components_ * signs[:, None], theirs.components_, atol=CLOSE)
    # Coordinates are off by those of the mean, and by nothing else.
    Z = ours.transform(X) * signs
    np.testing.assert_allclose(Z - Z.mean(axis=0), theirs.transform(X), atol=10 * CLOSE)
    assert ours.inverse_transform(Z).shape == X.shape


def test_pca_of_correlations() -> None:
    X = rows()
    ours = PDPCA(2, scale="secsum", variance=True, **OPEN).fit(X)
    Z = StandardScaler().fit_transform(X)
    theirs = PCA(2).fit(Z)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=CLOSE)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(Z)), atol=10 * CLOSE)
    back = StandardScaler().fit(X).inverse_transform(theirs.inverse_transform(theirs.transform(Z)))
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), back, atol=100 * CLOSE)


def test_nmf_equals_pooled_rri() -> None:
    X = counts()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        ours = PDNMF(3, transport="threads", max_iter=20, tol=1e-12, random_state=0).fit(X)
    seed = ours.report_["start"]["seed"]
    start = np.random.default_rng(seed).uniform(size=(3, 8))
    start /= start.sum(axis=1, keepdims=True)
    T = rri_nmf(X, start, SweepSettings(20, 0.0, 1.0e6))[1]
    np.testing.assert_allclose(ours.components_, T, atol=1e-9)
    W = ours.transform(X)
    assert W.min() >= 0
    assert np.linalg.norm(X - ours.inverse_transform(W)) < 0.3 * np.linalg.norm(X)


def test_weighted_nmf_ignores_what_is_not_stored() -> None:
    rng = np.random.default_rng(0)
    whole = rng.uniform(1, 2, (40, 1)) @ rng.uniform(1, 2, (1, 6))
    X = sp.csr_array(np.where(rng.random(whole.shape) < 0.6, whole, 0.0))
    ours = PDNMF(1, weighted=True, beta=1e-9, transport="threads").fit(X)
    np.testing.assert_allclose(ours.inverse_transform(ours.transform(X)), whole, rtol=1e-5)


@pytest.mark.parametrize("kind", [PDSVD, PDPCA])
def test_engine_is_that_of_functions_and_commands_by_default(kind: type) -> None:
    engine, reveal = choose_engine(None, None)
    assert (kind().engine, reveal) == (engine, "normed")
    fit = kind(1, bound=1e5, transport="threads", random_state=0).fit(rows(), parties=[15, 25])
    assert (fit.report_["engine"], fit.report_["reveal"], fit.singular_values_) == (engine, "normed", None)
    assert abs(fit.components_[0] @ kind(1, **OPEN).fit(rows()).components_[0]) > 1 - 1e-6


@pytest.mark.parametrize("kind", [PDPCA, PDNMF])
def test_processes_and_threads_find_the_same(kind: type) -> None:
    X, settings = counts(), {"n_components": 2, "random_state": 0, "max_iter": 12, "tol": 0.0, "engine": "secsum"}
    by = {t: kind(**settings, transport=t).fit(X, parties=[10, 20]) for t in ("processes", "threads")}
    np.testing.assert_allclose(by["processes"].components_, by["threads"].components_, atol=1e-9)
    reports = by["processes"].report_, by["threads"].report_
    assert set(reports[0]) == set(reports[1])
    assert reports[0]["bytes_sent"] == reports[1]["bytes_sent"]
    assert reports[0]["observables"] == reports[1]["observables"]


def frame() -> pd.DataFrame:
    return pd.DataFrame(rows(), columns=["e", "d", "c", "b", "a"])


def arrow(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("form", [pd.DataFrame, arrow, lambda f: arrow(f).to_batches()[0]])
def test_transform_finds_the_columns_of_a_table_by_their_names(kind: type, form: type) -> None:
    X = frame().abs()
    fitted = kind(2, max_iter=5, tol=0.0, random_state=0, **OPEN).fit(form(X))
    assert list(fitted.feature_names_in_) == list("edcba")
    assert fitted.report_["features"] == list("edcba")
    Z = fitted.transform(form(X[list("abcde")]))
    np.testing.assert_array_equal(Z, fitted.transform(form(X)))
    for other in (X.rename(columns={"a": "x"}), X.assign(x=1.0), X[list("abcd")]):
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.transform(form(other))
    named = pd.DataFrame(Z, columns=fitted.get_feature_names_out())
    np.testing.assert_array_equal(fitted.inverse_transform(form(named.iloc[:, ::-1])), fitted.inverse_transform(Z))
    with pytest.raises(InputError, match=r"the components 'pd\w+0', 'pd\w+1', in any order"):
        fitted.inverse_transform(form(named.rename(columns=str.upper)))


@pytest.mark.parametrize("labels", [(2020, 2019, 2021, 2018, 2022), range(5)])
def test_transform_finds_columns_that_are_called_by_numbers(labels: Sequence[int]) -> None:
    X = frame().set_axis(list(labels), axis=1)
    fitted = PDPCA(2, max_iter=5, tol=0.0, random_state=0, **OPEN).fit(X)
    assert fitted.report_["features"] == (None if labels == range(5) else [str(label) for label in labels])
    np.testing.assert_array_equal(fitted.transform(X[sorted(labels, reverse=True)]), fitted.transform(X))
    with pytest.raises(InputError, match=r"X has other names than the table that was fitted; .*not known: '9'"):
        fitted.transform(X.rename(columns={labels[0]: 9}))
    with pytest.raises(InputError, match="X has other names than the table that was fitted"):
        PDSVD(2, max_iter=5, tol=0.0, **OPEN).fit(frame()).transform(X.rename(columns={labels[0]: 9}))


def test_other_names_than_numbers_are_refused() -> None:
    fitted = PDSVD(2, max_iter=5, tol=0.0, **OPEN).fit(frame().set_axis([5, 6, 7, 8, 9], axis=1))
    with pytest.raises(InputError, match="X has other names than the table that was fitted"):
        fitted.transform(frame())


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.astype("M8[D]"),
        lambda X: X.astype("m8[s]"),
        lambda X: X.astype(str),
        lambda X: X.astype(str).astype(object),
        lambda X: X.astype(str).tolist(),
    ],
)
def test_arrays_of_texts_and_dates_are_not_numbers(change: Callable[[np.ndarray], object]) -> None:
    X = np.rint(rows()).astype(int)
    with pytest.raises(InputError, match="X holds entries of type"):
        PDSVD(2, **OPEN).fit(change(X))
    fitted = PDSVD(2, max_iter=5, tol=0.0, **OPEN).fit(X.astype(object))  # numbers, whatever holds them
    with pytest.raises(InputError, match="X holds entries of type"):
        fitted.transform(change(X))


@pytest.mark.parametrize("column", ["2024-01-31", "7", pd.Timestamp(2024, 1, 31)])
def test_texts_and_dates_are_not_numbers(column: object) -> None:
    with pytest.raises(InputError, match="X has columns that are not numbers: 'when'"):
        PDSVD(2, **OPEN).fit(frame().assign(when=column))
    fitted = PDSVD(2, **OPEN).fit(frame())
    with pytest.raises(InputError, match="X has columns that are not numbers: 'a'"):
        fitted.transform(frame().assign(a=column))


def test_index_of_pandas_is_not_a_feature() -> None:
    with pytest.raises(InputError, match="X has an index of pandas among its columns: 'Unnamed: 0'"):
        PDSVD(2, transport="threads").fit(frame().rename(columns={"a": "Unnamed: 0"}))


def test_columns_that_are_no_features_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="^column ") as said:
        PDSVD(2, max_iter=5, tol=0.0, **OPEN).fit(frame().assign(patient_id=1000.0 * np.arange(40)))
    texts = [str(warning.message) for warning in said]
    assert any("column 'patient_id' looks like an identifier" in text for text in texts)
    assert any("column 'patient_id' carries nearly all of the sum of squares" in text for text in texts)
    assert {warning.filename for warning in said} == {__file__}


def test_parties_by_labels_or_numbers() -> None:
    assert [len(part) for part in split(7)] == [3, 2, 2]
    assert [part.tolist() for part in split(4, [3, 1])] == [[0, 1, 2], [3]]
    assert [part.tolist() for part in split(4, ["b", "a", "b", "a"])] == [[1, 3], [0, 2]]
    for wrong in ([3, 2], [4, 0], [[2, 2]], [1.5, 2.5], ["a", "b"]):
        with pytest.raises(InputError, match="labels, or numbers of rows"):
            split(4, wrong)


def test_how_rows_are_split_changes_nothing() -> None:
    fits = [PDSVD(2, **OPEN).fit(rows(), parties=p) for p in ([20, 20], np.arange(40) % 5)]
    assert [fit.report_["parties"] for fit in fits] == [2, 5]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=CLOSE)


def test_transformers_work_in_a_pipeline() -> None:
    pipeline = make_pipeline(MinMaxScaler(clip=True), PDNMF(2, max_iter=5, tol=0, transport="threads"))
    assert pipeline.fit_transform(rows()).shape == (40, 2)


def test_rank_that_the_rows_do_not_have_is_said() -> None:
    X = np.outer(np.arange(1.0, 13.0), [1.0, 2.0, 3.0])
    with pytest.warns(UserWarning, match="found 1 of 2 components"):
        found = PDSVD(2, **OPEN).fit(X)
    assert found.transform(X).shape == (12, 1)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"transport": "pigeons"}, StudyError, "one of processes, threads"),
        ({"engine": "mp-spdz"}, EngineError, "needs processes"),
        ({"engine": "abacus"}, StudyError, "abacus"),
        ({"n_components": 2.5}, StudyError, "a whole number"),
        ({"n_components": 9}, InputError, "the rank asked for is 9 and X has 5 columns"),
        ({"bound": 1.0}, ValueError, "at most 1"),
    ],
)
def test_wrong_settings_are_refused(settings: dict, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        PDSVD(**OPEN | settings).fit(rows())


def test_more_topics_than_features_are_refused() -> None:
    with pytest.raises(InputError, match="the rank asked for is 9 and X has 8 columns"):
        PDNMF(9, transport="threads").fit(counts())


def test_missing_scikit_learn_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sklearn", "sklearn.base"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "pdml_spdz.estimators")
    with pytest.raises(ImportError, match=r"pip install 'scikit-learn>=1.6'"):
        importlib.import_module("pdml_spdz.estimators")
