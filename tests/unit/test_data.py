"""Loaders: every format gives the same rows."""

from __future__ import annotations

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from pdml_spdz.errors import InputError
from pdml_spdz.rows import data
from pdml_spdz.rows.base import as_rows

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
    dense = loaded.rows.dense()
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


def written_csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


NO_NAMES = ("NA,,NA", "n/a,<NA>,#N/A", "n.a.,--,NULL")


@pytest.mark.parametrize("first", ["1,,3", "1,NA,3", "4,5,6", "a,2,c", "NA,1e5,x", " 7 ,b,c", "a,nan,c", *NO_NAMES])
def test_first_row_of_a_file_without_header_is_not_taken_for_one(tmp_path: Path, first: str) -> None:
    with pytest.raises(InputError, match="has no header") as caught:
        data.load(written_csv(tmp_path / "x.csv", first, "4,5,6"))
    if first not in NO_NAMES:
        assert "there are numbers in its first line" in str(caught.value)


def test_header_over_two_lines_and_empty_lines_are_read(tmp_path: Path) -> None:
    path = written_csv(tmp_path / "x.csv", "", 'a,"b', 'c"', "1,2", "", "3,4")
    loaded = data.load(path)
    assert loaded.features == ("a", "b\nc")
    assert loaded.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (",a,b", "columns without a name: number 1"),
        ("a,,b, ", "columns without a name: number 2, 4"),
        ("Unnamed: 0,a,b", "an index of pandas among its columns: 'Unnamed: 0'"),
        ("a,__index_level_0__,b", "an index of pandas among its columns: '__index_level_0__'"),
    ],
)
def test_index_of_pandas_and_unnamed_columns_are_refused(tmp_path: Path, header: str, text: str) -> None:
    row = ",".join("1" * (header.count(",") + 1))
    with pytest.raises(InputError, match=text) as caught:
        data.load(written_csv(tmp_path / "x.csv", header, row))
    assert "index=False" in str(caught.value)


def test_index_that_pandas_has_written_is_refused_by_name(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=NAMES, index=pd.Index([9, 4, 7, 1], name="key"))
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(InputError, match="an index of pandas among its columns: 'key'"):
        data.load(tmp_path / "x.parquet")
    frame.rename_axis(None).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(InputError, match="an index of pandas among its columns: '__index_level_0__'"):
        data.load(tmp_path / "y.parquet")
    frame.to_parquet(tmp_path / "z.parquet", index=False)
    assert data.load(tmp_path / "z.parquet").features == NAMES


@pytest.mark.parametrize("text", ["2024-01-31", "blue"])
def test_text_in_a_csv_column_is_refused_by_the_columns_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=f"column 'when' has '{text}' in row 2"):
        data.load(written_csv(tmp_path / "x.csv", "a,when", "1,2", f"3,{text}"))


DAY = dt.datetime(2024, 1, 31)
NOT_NUMBERS = {
    "stamp": pa.array([DAY, DAY], pa.timestamp("us")),
    "date": pa.array([DAY, DAY], pa.date32()),
    "hour": pa.array([1, 2], pa.time32("s")),
    "span": pa.array([1, 2], pa.duration("s")),
    "digits": pa.array(["1", "2"]),
    "bytes": pa.array([b"1", b"2"]),
    "level": pa.array(["1", "2"]).dictionary_encode(),
    "list": pa.array([[1], [2]]),
}
NUMBERS = {
    "float": pa.array([1.5, -2.0]),
    "half": pa.array(np.array([0.5, 2.0], np.float16)),
    "whole": pa.array([1, 2], pa.int8()),
    "unsigned": pa.array([1, 2], pa.uint64()),
    "yes": pa.array([True, False]),
    "cents": pa.array([Decimal("1.25"), Decimal("-3.50")]),
}
AS_FLOATS = [[1.5, 0.5, 1.0, 1.0, 1.0, 1.25], [-2.0, 2.0, 2.0, 2.0, 0.0, -3.5]]


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_columns_of_parquet_and_arrow_that_are_not_numbers_are_refused_by_name(tmp_path: Path, name: str) -> None:
    table = pa.table({"a": [1.0, 2.0], name: NOT_NUMBERS[name]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match=f"x.parquet has columns that are not numbers: '{name}'"):
        data.load(tmp_path / "x.parquet")
    for given in (table, table.to_batches()[0]):
        with pytest.raises(InputError, match=f"P1 has columns that are not numbers: '{name}'"):
            data.from_rows(given, "P1")


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([DAY, DAY]),
        pd.Series([DAY, DAY]).dt.tz_localize("UTC"),
        pd.Series(pd.to_timedelta([1, 2])),
        pd.Series(["1", "2"]),
        pd.Series(["1", "2"], dtype=object),
        pd.Series([1, 2], dtype="category"),
        pd.Series(pd.period_range("2024", periods=2)),
        pd.Series([1j, 2j]),
        pd.Series([DAY, DAY]).astype("timestamp[us][pyarrow]"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_columns_of_pandas_that_are_not_numbers_are_refused_by_name(column: pd.Series) -> None:
    with pytest.raises(InputError, match="P1 has columns that are not numbers: 'x'"):
        data.from_rows(pd.DataFrame({"a": [1.0, 2.0], "x": column}), "P1")


def test_numbers_of_every_type_are_read(tmp_path: Path) -> None:
    table = pa.table(NUMBERS)
    pq.write_table(table, tmp_path / "x.parquet")
    frame = table.to_pandas()
    nullable = table.to_pandas(types_mapper=pd.ArrowDtype)
    for found in (
        data.load(tmp_path / "x.parquet"),
        *(data.from_rows(given, "P1") for given in (table, table.to_batches()[0], frame, nullable, Stream(table))),
    ):
        assert found.X.tolist() == AS_FLOATS
        assert found.features == tuple(NUMBERS)


class Stream:
    """A table of a library that is not known, and that speaks Arrow's C interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


@pytest.mark.parametrize("given", [pa.table({"a": [1, None]}), pd.DataFrame({"a": pd.array([1, None], "Int64")})])
def test_missing_numbers_of_tables_are_refused(given: object) -> None:
    with pytest.raises(InputError, match=r"P1 has missing values: column 'a' 1 \(1 entry, in 1 of 2 rows"):
        data.from_rows(given, "P1")


def test_masked_entries_are_refused() -> None:
    assert data.from_rows(np.ma.masked_invalid([[1.0, 2.0]]), "P1").X.tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="P1 has masked entries"):
        data.from_rows(np.ma.masked_invalid([[1.0, np.nan]]), "P1")


@pytest.mark.parametrize(
    ("columns", "names"),
    [([0, 1, 2], None), ([2, 1, 0], ("2", "1", "0")), (["a", "b", 3], ("a", "b", "3")), (list(NAMES), NAMES)],
)
def test_labels_of_pandas_are_names_unless_it_has_only_counted(columns: list, names: tuple | None) -> None:
    assert data.from_rows(pd.DataFrame(X, columns=columns), "P1").features == names


def test_labels_of_pandas_that_are_not_texts_are_refused() -> None:
    with pytest.raises(InputError, match=r"names are not texts: \('a', 1\)"):
        data.from_rows(pd.DataFrame(X[:, :1], columns=pd.MultiIndex.from_tuples([("a", 1)])), "P1")


@pytest.mark.parametrize("names", [np.array(NAMES, object), np.array("abc"), np.arange(3)])
def test_names_in_npz_that_are_not_texts_are_refused(tmp_path: Path, names: np.ndarray) -> None:
    np.savez(tmp_path / "x.npz", X=X, features=names)
    with pytest.raises(InputError, match=r"`features` that are not a list of texts(.|\n)*dtype=str"):
        data.load(tmp_path / "x.npz")


def test_arrays_of_objects_and_of_records_are_refused(tmp_path: Path) -> None:
    records = np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)])
    np.save(tmp_path / "x.npy", records)
    with pytest.raises(InputError, match=r"an array of shape \(1,\)"):
        data.load(tmp_path / "x.npy")
    with pytest.raises(InputError, match="entries of type"):
        data.from_rows(records[None, :], "P1")
    with pytest.raises(InputError, match="not an array of numbers"):
        data.from_rows(np.array([[1.0, None]]), "P1")


def test_very_many_equal_names_are_refused(tmp_path: Path) -> None:
    """In a time that is linear in their number: a quadratic one would be noticed."""
    d = 10**5
    np.savez(tmp_path / "x.npz", X=np.zeros((1, d)), features=np.full(d, "a"))
    with pytest.raises(InputError, match="names features twice: a"):
        data.load(tmp_path / "x.npz")
    with pytest.raises(InputError, match="names features twice: a"):
        data.from_rows(pd.DataFrame(np.zeros((1, d)), columns=["a"] * d), "P1")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_columns_in_another_order_are_the_same_data(form: type) -> None:
    straight = data.Data(as_rows(form(X)), NAMES, "x")
    turned = data.Data(as_rows(form(X[:, ::-1])), NAMES[::-1], "x").in_order(NAMES, "the others")
    np.testing.assert_array_equal(turned.rows.dense(), X)
    assert turned.digest(b"salt") == straight.digest(b"salt")


def test_other_names_are_said_as_missing_and_not_known() -> None:
    own = data.Data(X, NAMES, "x.csv")
    with pytest.raises(
        InputError, match=r"x\.csv has other names than the study; missing: 'delta'; not known: 'gamma'"
    ):
        own.in_order(("alpha", "b,eta", "delta"), "the study")


def test_vectors_come_from_files_tables_series_and_numbers(tmp_path: Path) -> None:
    path = written_csv(tmp_path / "v.csv", "a,b", "1,2.5")
    series = pd.Series({"a": 1.0, "b": 2.5})
    for given in (path, str(path), series, pd.DataFrame([series]), pa.table({"a": [1], "b": [2.5]})):
        assert data.vector(given, "offsets") == data.FeatureVector((1.0, 2.5), ("a", "b"))
    np.save(tmp_path / "v.npy", np.array([1.0, 2.5]))
    for given in (tmp_path / "v.npy", [1, 2.5], np.array([1.0, 2.5]), pd.Series([1.0, 2.5])):
        assert data.vector(given, "offsets") == data.FeatureVector((1.0, 2.5))
    with pytest.raises(InputError, match="holds 2 rows"):
        data.vector(np.ones((2, 2)), "offsets")


def test_names_beside_offsets_and_scales_are_kept() -> None:
    beside = {"offset_features": ("b", "a")}
    for offsets in ([1.0, 2.5], np.array([1.0, 2.5]), pd.Series({"b": 1.0, "a": 2.5})):
        assert data.vector_settings({"offsets": offsets} | beside) == {"offsets": (1.0, 2.5)} | beside
    with pytest.raises(InputError, match="`offset_features` differ from the names that `offsets` have themselves"):
        data.vector_settings({"offsets": pd.Series({"a": 1.0, "b": 2.5})} | beside)


def test_rows_as_in_a_run_have_the_order_of_its_report() -> None:
    turned = data.Data(X[:, ::-1], NAMES[::-1], "x")
    np.testing.assert_array_equal(turned.as_in({"features": list(NAMES), "columns": "name"}).X, X)
    for report in ({"features": list(NAMES), "columns": "position"}, {"features": None, "columns": "name"}, {}):
        assert turned.as_in(report) is turned


def test_repr_of_data_has_sizes_and_neither_numbers_nor_names() -> None:
    found = data.Data(np.array([[1.25, 2.5], [3.75, 4.5]]), ("income", "age"), "rows.csv")
    assert repr(found) == "Data(rows.csv: 2 rows x 2 columns)"
