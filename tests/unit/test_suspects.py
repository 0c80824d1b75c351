"""Columns that are probably not features: which ones a party is warned of."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.rows.base import as_rows
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.suspects import dominant_column, identifiers

RNG = np.random.default_rng(0)
N = 20


def rows(column: np.ndarray, name: str = "b", form: type = np.asarray) -> Data:
    """Three features, of which the second is `column`."""
    X = RNG.normal(size=(len(column), 3))
    X[:, 1] = column
    return Data(as_rows(form(X)), ("a", name, "c"), "x")


@pytest.mark.parametrize("column", [np.arange(N), np.arange(N) * 10.0 + 7, -np.arange(N), np.arange(10**6, 10**6 + N)])
def test_integers_by_equal_steps_look_like_an_identifier(column: np.ndarray) -> None:
    (warning,) = identifiers(rows(column))
    assert warning.startswith("column 'b' looks like an identifier")
    unnamed = identifiers(Data(rows(column).X, None, "x"))
    assert unnamed[0].startswith("column 2 looks like")


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "Patient ID", "patient-id", "patientId", "CustomerID"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_different_integers_under_the_name_of_an_identifier_look_like_one(name: str, form: type) -> None:
    assert len(identifiers(rows(RNG.permutation(10 * N)[:N], name, form))) == 1


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (RNG.permutation(10 * N)[:N], "count"),
        (RNG.permutation(10 * N)[:N], "humid"),
        (RNG.integers(0, 3, N), "group_id"),
        (RNG.normal(size=N), "id"),
        (np.arange(N) * 0.1, "seconds"),
        (np.ones(N), "constant"),
        (np.arange(5), "few"),
        (np.append(np.arange(N - 1), 0), "nearly"),
    ],
)
def test_features_do_not_look_like_identifiers(column: np.ndarray, name: str) -> None:
    assert identifiers(rows(column, name)) == []


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_column_with_nearly_all_variance_or_squares_is_named(form: type) -> None:
    large = rows(1000 * RNG.normal(size=N), form=form)
    far = rows(1000 + RNG.normal(size=N), form=form)
    for centred, wanted in ((True, "variance"), (False, "sum of squares")):
        (warning,) = dominant_column(large, centred=centred)
        assert f"column 'b' carries nearly all of the {wanted}" in warning
    assert len(dominant_column(far, centred=False)) == 1
    assert dominant_column(far, centred=True) == []
    assert dominant_column(rows(RNG.normal(size=N)), centred=False) == []


def test_rounding_of_a_large_constant_is_not_variance() -> None:
    assert dominant_column(rows(np.full(N, 1e9 + 0.1)), centred=True) == []


def test_no_column_of_zeros_or_single_column_is_named() -> None:
    assert dominant_column(Data(np.zeros((3, 2)), None, "x"), centred=True) == []
    assert dominant_column(Data(np.ones((3, 1)), None, "x"), centred=False) == []
