"""Loaders: whatever a table holds, it comes back as it was, from every format, or it is refused."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pdml_spdz.errors import InputError
from pdml_spdz.rows import data
from pdml_spdz.rows.formats import save_npz
from pdml_spdz.rows.text_form import NONE

few = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
numbers = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), min_size=1, max_size=8).map(str.strip)
cells = st.one_of(numbers.map(repr), st.integers().map(str), st.sampled_from(["", "NA", "nan", "?"]), words)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


REFUSED = ("#", "sep=")  # what a file that begins with it says of itself
names = words.filter(lambda w: w and not is_number(w) and not w.lower().startswith(REFUSED) and w.lower() not in NONE)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, tuple[str, ...]]:
    d = draw(st.integers(1, 5))
    X = draw(arrays(np.float64, (draw(st.integers(1, 5)), d), elements=numbers))
    return X, tuple(draw(st.lists(names, min_size=d, max_size=d, unique=True)))


def written(X: np.ndarray, header: tuple[str, ...], place: Path) -> list[Path]:
    paths = [place / f"x.{ending}" for ending in ("csv", "parquet", "npz")]
    # A name with what separates columns elsewhere has to be in quotes: of a file with one column nothing else tells.
    quoting = csv.QUOTE_ALL if any(set(name) & set(";\t") for name in header) else csv.QUOTE_MINIMAL
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=quoting).writerow(header)
        csv.writer(file).writerows([repr(x) for x in row] for row in X.tolist())
    pq.write_table(pa.table(list(X.T), names=list(header)), paths[1])
    save_npz(paths[2], X, header)
    save_npz(sparse := place / "sparse.npz", sp.csr_array(X), header)
    return [*paths, sparse]


@few
@given(tables())
@example((np.zeros((1, 1)), (":\t<",)))
@example((np.zeros((1, 1)), ("a;b",)))
def test_every_format_gives_back_numbers_and_names(table: tuple[np.ndarray, tuple[str, ...]]) -> None:
    X, header = table
    with tempfile.TemporaryDirectory() as place:
        found = [data.load(path) for path in written(X, header, Path(place))]
    found += [
        data.from_rows(pd.DataFrame(X, columns=list(header)), "x"),
        data.from_rows(pa.table(list(X.T), header), "x"),
    ]
    for loaded in found:
        np.testing.assert_array_equal(loaded.rows.dense(), X)
        assert loaded.features == header


@few
@given(tables(), st.randoms(use_true_random=False))
def test_any_order_is_brought_back(table: tuple[np.ndarray, tuple[str, ...]], random: object) -> None:
    X, header = table
    order = list(range(len(header)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = data.from_rows(pd.DataFrame(X, columns=list(header)).iloc[:, order], "x")
    back = shuffled.in_order(header, "the others")
    np.testing.assert_array_equal(back.X, X)
    assert back.digest(b"") == data.Data(X, header, "y").digest(b"")


@few
@given(st.lists(st.lists(cells, min_size=2, max_size=4), min_size=1, max_size=4))
def test_no_line_of_a_csv_file_vanishes(lines: list[list[str]]) -> None:
    """Read, a file has one row for each line but the first, in which there is no number; else it is refused."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    with tempfile.TemporaryDirectory() as place:
        (path := Path(place) / "x.csv").write_text(text.getvalue(), encoding="utf-8")
        try:
            loaded = data.load(path)
        except InputError:
            return
    assert loaded.features == tuple(cell.strip() for cell in lines[0])
    assert not any(is_number(cell) for cell in lines[0])
    np.testing.assert_array_equal(loaded.X, [[float(cell) for cell in line] for line in lines[1:]])


@few
@given(st.lists(st.sampled_from(["a", "b", "", " ", "Unnamed: 0", "__index_level_0__"]), min_size=1, max_size=4))
def test_only_distinct_names_are_accepted(header: list[str]) -> None:
    X = np.ones((1, len(header)))
    frame = pd.DataFrame(X, columns=header)
    if set(header) <= {"a", "b"} and len(set(header)) == len(header):
        assert data.from_rows(frame, "x").features == tuple(header)
    else:
        with pytest.raises(InputError, match=r"names features twice|without a name|index of pandas"):
            data.from_rows(frame, "x")


@few
@given(st.binary(max_size=200), st.sampled_from([".csv", ".csv.gz", ".npy", ".npz", ".mtx", ".parquet"]))
def test_bytes_of_any_kind_are_rows_or_an_error_in_words(content: bytes, ending: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        (path := Path(place) / f"x{ending}").write_bytes(content)
        try:
            loaded = data.load(path)
        except InputError:
            return
    assert np.all(np.isfinite(loaded.rows.dense()))
