"""Loaders: every format gives the same rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from pdml_spdz import data, linalg

X = np.array([[1.0, 0.0, -2.5], [0.0, 3.25, 0.0], [4.0, 0.0, 1e-7], [0.0, 0.0, 7.0]])
NAMES = ("alpha", "b,eta", "gamma")


def write(path: Path) -> Path:
    text = 'alpha,"b,eta",gamma\n' + "\n".join(",".join(repr(float(x)) for x in row) for row in X) + "\n"
    if path.name == "rows.npy":
        np.save(path, X)
    elif path.name == "single.npy":
        np.save(path, X.astype(np.float32))
    elif path.name == "fortran.npy":
        np.save(path, np.asfortranarray(X))
    elif path.name == "dense.npz":
        np.savez(path, X=X, features=np.array(NAMES))
    elif path.name == "sparse.npz":
        sp.save_npz(path, sp.csc_array(X))
    elif path.name == "rows.csv":
        path.write_text(text, encoding="utf-8-sig")  # as spreadsheets write it
    elif path.name == "rows.csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.name == "rows.mtx":
        scipy.io.mmwrite(path, sp.coo_array(X))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(dict(zip(NAMES, X.T, strict=True))), path)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "rows.npy",
        "fortran.npy",
        "single.npy",
        "dense.npz",
        "sparse.npz",
        "rows.csv",
        "rows.csv.gz",
        "rows.mtx",
        "rows.parquet",
    ],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    loaded = data.load(write(tmp_path / name))
    dense = linalg.dense(loaded.X)
    expected = X.astype(np.float32) if name == "single.npy" else X
    np.testing.assert_array_equal(dense, expected)
    assert dense.dtype == np.float64
    assert loaded.features in (NAMES, None)
    assert (loaded.features is None) == (name in ("rows.npy", "fortran.npy", "single.npy", "sparse.npz", "rows.mtx"))


def test_sparse_rows_stay_sparse(tmp_path: Path) -> None:
    for name in ("sparse.npz", "rows.mtx"):
        assert sp.issparse(data.load(write(tmp_path / name)).X)


def test_summary_says_rows_columns_memory_and_density(tmp_path: Path) -> None:
    text = data.load(write(tmp_path / "rows.npy")).summary()
    assert "4 rows x 3 columns, dense, 0.0 MB, density 0.5" in text


def test_digest_knows_the_data_and_the_salt(tmp_path: Path) -> None:
    first = data.load(write(tmp_path / "rows.npy"))
    np.save(tmp_path / "other.npy", X + np.array([0, 0, 1e-15]))
    other = data.load(tmp_path / "other.npy")
    assert first.digest(b"salt") == data.load(tmp_path / "rows.npy").digest(b"salt")
    assert first.digest(b"salt") != other.digest(b"salt")
    assert first.digest(b"salt") != first.digest(b"pepper")


def test_feature_digest_knows_the_order() -> None:
    assert data.feature_digest(2, ("a", "b")) != data.feature_digest(2, ("b", "a"))
    assert data.feature_digest(2, ("a", "b")) == data.feature_digest(2, ("a", "b"))
