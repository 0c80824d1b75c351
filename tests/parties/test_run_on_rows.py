"""Runs from Python: arrays, sparse rows and paths in one run, each party a process."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import pdml_spdz
from pdml_spdz.errors import InputError, StorageError
from pdml_spdz.numerics.linalg import EPS, sine
from tests.unit.test_svd import angle_tolerance

D, TOL = 5, 1e-9


def tables() -> list[np.ndarray]:
    return [np.random.default_rng(m).normal(size=(20, D)) * 3.0 ** -np.arange(D) for m in range(2)]


def test_sparse_rows_and_a_path_give_the_vectors_of_the_pooled_rows(tmp_path: Path) -> None:
    X, k = tables(), 2
    np.save(tmp_path / "rows.npy", X[1])
    given = [sp.csr_array(X[0]), tmp_path / "rows.npy"]
    result = pdml_spdz.svd(given, rank=k, reveal="sum", seed=1, tol=TOL, out=tmp_path / "out")
    _, sigma, Vt = np.linalg.svd(np.vstack(X), full_matrices=False)
    tolerance = angle_tolerance(X, k, result.report["bound"]["addend"], TOL)
    assert sine(Vt[:k].T, result.V) <= tolerance
    np.testing.assert_allclose(result.singular_values, sigma[:k], rtol=tolerance * (sigma[0] / sigma[k - 1]) ** 2)
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "V.npy"), result.V)
    with pytest.raises(StorageError, match="already holds a finished run"):
        pdml_spdz.svd(given, rank=k, reveal="sum", out=tmp_path / "out")


def test_rows_go_through_a_pipe_where_memory_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds, so that its writer has to wait for the party."""
    monkeypatch.delattr(os, "memfd_create")
    X = [np.random.default_rng(m).normal(size=(400, 50)) for m in range(2)]
    given = [X[0], sp.csr_array(X[1])]
    settings = {"rank": 1, "engine": "plain", "seed": 1, "iterations": 3, "tol": 0.0}
    by_processes = pdml_spdz.svd(given, **settings)
    by_threads = pdml_spdz.svd(given, **settings, transport="threads")
    np.testing.assert_allclose(by_processes.V, by_threads.V, atol=1e3 * EPS)  # BLAS has other numbers of threads
    assert by_processes.report["bytes_sent"] == by_threads.report["bytes_sent"]


def test_normed_sum_is_the_direction_of_the_sum() -> None:
    x = [np.arange(1.0, 4.0) * (m + 1) for m in range(2)]
    u, s = pdml_spdz.normed_sum(x, engine="plain"), x[0] + x[1]
    np.testing.assert_allclose(u, s / np.linalg.norm(s), rtol=4 * EPS)


def test_what_is_no_array_of_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="not an array of numbers"):
        pdml_spdz.svd([np.array([[{}]]), np.eye(1)], rank=1)
