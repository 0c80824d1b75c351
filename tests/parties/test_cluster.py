"""Rows on a real cluster: two worker processes, TLS, a worker that dies, a cluster that is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pdml_spdz import NmfSettings
from pdml_spdz.errors import ClusterError, InputError
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows import cluster as connecting
from pdml_spdz.rows.data import Data, load
from pdml_spdz.rows.reading import RowsWanted
from tests.parties.clusters import Cluster

N, D = 400, 5
NAMES = tuple("abcde")
SVD = {"algorithm": "pca", "rank": 2, "iterations": 20}
NMF = {"algorithm": "nmf", "rank": 2, "iterations": 8, "nmf": NmfSettings(w_start="nnls")}
FIXED: dict[str, Any] = {"engine": "plain", "seed": 1, "start": "seed", "tol": 0.0}


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1.0, size=(N, D)) * [9, 7, 4, 2, 1] + 3.0


def files(directory: Path, X: np.ndarray) -> Path:
    directory.mkdir()
    pd.DataFrame(X, columns=list(NAMES)).to_parquet(directory / "x.parquet", index=False, row_group_size=90)
    return directory


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.kill()


@pytest.mark.parametrize("settings", [SVD, NMF], ids=["pca", "nmf"])
def test_memory_threads_and_cluster_have_the_same_result(
    tmp_path: Path, cluster: Cluster, settings: dict[str, Any]
) -> None:
    study, place = local_study(2, **settings, **FIXED), files(tmp_path / "x", numbers())
    other = Data(numbers(1), NAMES, "y")
    threads, there = load(place), load(place, wanted=RowsWanted(cluster.reading))
    results = [run_in_threads([rows, other], study).V for rows in (Data(numbers(), NAMES, "x"), threads, there)]
    # Sums of 2 n d products in another order, over gaps above 1/100 of the largest, in every iteration.
    for found in results[1:]:
        np.testing.assert_allclose(found, results[0], rtol=0, atol=100 * 2 * N * D * EPS * 20)
    np.testing.assert_allclose(there.rows.gram(), numbers().T @ numbers(), rtol=0, atol=N * EPS * 1e4)
    assert there.digest(b"salt") == threads.digest(b"salt")


def test_what_is_wrong_with_rows_is_said_by_a_worker(tmp_path: Path, cluster: Cluster) -> None:
    X = numbers()
    X[300, 1] = np.nan
    there = load(files(tmp_path / "x", X), wanted=RowsWanted(cluster.reading))
    with pytest.raises(
        InputError, match=r"missing values: column 'b' 1 \(1 entry, in 1 of 400 rows; the first in row 301\)"
    ):
        there.looked_at("refuse")
    with pytest.raises(InputError, match="has no Parquet files"):
        load(tmp_path / "*.nothing", wanted=RowsWanted(cluster.reading))


def test_workers_of_another_version_are_refused(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = files(tmp_path / "x", numbers())
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0.1")  # here, not there
    with pytest.raises(
        ClusterError, match=r"have another version: tls://\S+ has pdml-spdz \d(.|\n)*and this machine has 0\.0\.1"
    ):
        load(place, wanted=RowsWanted(cluster.reading))


def test_a_cluster_without_workers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdml_spdz.rows.cluster.CONNECT_SECONDS", 2.0)
    empty = Cluster(tmp_path, workers=0)
    try:
        with pytest.raises(ClusterError, match="had no workers for 2 s"):
            load(files(tmp_path / "x", numbers()), wanted=RowsWanted(empty.reading))
    finally:
        empty.kill()


def test_a_worker_that_dies_in_the_middle_changes_nothing(tmp_path: Path, cluster: Cluster) -> None:
    X, V = numbers(), np.random.default_rng(3).random((D, 2))
    there = load(files(tmp_path / "x", X), wanted=RowsWanted(cluster.reading)).rows
    products = [there.gram_times(V)]  # the pieces are in the workers' memory now
    part = there.coefficients(2)  # type: ignore[attr-defined]
    killer = threading.Timer(0.1, cluster.kill_worker)
    killer.start()
    products += [there.gram_times(V) for _ in range(20)]
    killer.join()
    products.append(there.gram_times(V))
    assert all(np.array_equal(product, products[0]) for product in products)
    np.testing.assert_allclose(products[0], X.T @ (X @ V), rtol=1e-12)
    assert [W.shape for W in part.parts()] == [(n, 2) for n in (90, 90, 90, 90, 40)]


def test_a_cluster_that_is_lost_ends_the_run_and_the_run_goes_on_with_another(tmp_path: Path, cluster: Cluster) -> None:
    study, place = local_study(2, **SVD, **FIXED, memory=0.001, solver="power"), files(tmp_path / "x", numbers())
    with pytest.MonkeyPatch.context() as patch:  # so long it tries to find the scheduler again
        patch.setattr(connecting, "CONNECT_SECONDS", 4.0)
        tables = [load(place, wanted=RowsWanted(cluster.reading)), Data(numbers(1), NAMES, "y")]

    def lost(party: int, event: dict[str, Any]) -> None:
        if event["event"] == "iteration" and event["t"] == 3:
            cluster.kill()

    out = tmp_path / "out"
    run = {"study": study, "out": out, "transport": "threads"}
    # The operator form: every iteration needs the cluster.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdml_spdz.rows.blocked.LARGEST_GRAM", 0)
        patch.setattr("pdml_spdz.rows.covariance.GRAM_BYTES", 0)
        with pytest.raises(ClusterError, match=r"was lost(.|\n)*--resume"):
            run_local(LocalRun(tables, notify=lost, **run))  # type: ignore[arg-type]
        cluster.start(1)
        tables[0] = load(place, wanted=RowsWanted(cluster.reading))
        done = run_local(LocalRun(tables, resume=True, **run))  # type: ignore[arg-type]
    whole = run_in_threads([Data(numbers(m), NAMES, "x") for m in range(2)], study)
    assert done.report["iterations"] == whole.report["iterations"]
    np.testing.assert_allclose(done.V, whole.V, rtol=0, atol=100 * 2 * N * D * EPS * 20)
