"""Files as people have them: each is read right, or refused with the column, the row as a person counts it, and what
to do.
"""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from pdml_spdz.errors import InputError, StudyError
from pdml_spdz.rows import delimited
from pdml_spdz.rows.data import Data, from_rows, load
from pdml_spdz.rows.reading import Reading, RowSettings, RowsWanted

X = [[1.5, 2.0], [3.25, -4.0]]
COMMAS = "a,b\n1.5,2\n3.25,-4\n"


def read(path: Path, rows: RowSettings | None = None, features: tuple[str, ...] = (), **own: Any) -> Data:
    return load(path, wanted=RowsWanted(Reading(**own), rows or RowSettings(), features))


def written(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


RIGHT: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "commas": ("x.csv", COMMAS.encode(), {}),
    "byte order mark": ("x.csv", COMMAS.encode("utf-8-sig"), {}),
    "CRLF": ("x.csv", COMMAS.replace("\n", "\r\n").encode(), {}),
    "CR in quotes": ("x.csv", COMMAS.replace("a,b", '"a","b"').encode(), {}),
    "semicolons": ("x.csv", COMMAS.replace(",", ";").encode(), {}),
    "semicolons, decimal commas": ("x.csv", b"a;b\n1,5;2\n3,25;-4\n", {"decimal": "comma"}),
    "semicolons in quotes": ("x.csv", b'"a";"b"\n"1,5";"2"\n"3,25";"-4"\n', {"decimal": ","}),
    "tabs": ("x.csv", COMMAS.replace(",", "\t").encode(), {}),
    "tsv": ("x.tsv", COMMAS.replace(",", "\t").encode(), {}),
    "separator said": ("x.csv", COMMAS.replace(",", ";").encode(), {"sep": ";"}),
    "tsv with points and commas in names": ("2024.1.tsv", COMMAS.replace(",", "\t").encode(), {}),
    "no line end": ("x.csv", COMMAS.strip().encode(), {}),
    "blank lines": ("x.csv", COMMAS.replace("\n", "\n\n").encode(), {}),
    "spaces": ("x.csv", b"a, b\n 1.5 , 2\n3.25, -4\n", {}),
    "UTF-16": ("x.csv", COMMAS.encode("utf-16"), {}),
    "UTF-16, big": ("x.csv", b"\xfe\xff" + COMMAS.encode("utf-16-be"), {}),
    "UTF-16 without a mark": ("x.csv", COMMAS.encode("utf-16-le"), {}),
    "gzip": ("x.csv.gz", gzip.compress(COMMAS.encode(), mtime=0), {}),
    "bzip2": ("x.tsv.bz2", bz2.compress(COMMAS.replace(",", "\t").encode()), {}),
    "ending in capitals": ("X.CSV.GZ", gzip.compress(COMMAS.encode(), mtime=0), {}),
    "everything at once": (
        "x.csv",
        '"a";"b"\r\n1,5;"2"\r\n"3,25"; -4\r\n'.encode("utf-16"),
        {"decimal": "comma"},
    ),
    "zstandard": ("x.csv.zst", pa.compress(COMMAS.encode(), "zstd", asbytes=True), {}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_text_files_are_read_however_they_are_written(tmp_path: Path, name: str) -> None:
    file, content, own = RIGHT[name]
    (path := tmp_path / file).write_bytes(content)
    found = read(path, **own)
    assert found.X.tolist() == X
    assert found.features == ("a", "b")


def test_latin_1_is_read_when_it_is_said_and_refused_in_words_otherwise(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "größe,b\n1.5,2\n3.25,-4\n", "latin-1")
    with pytest.raises(InputError, match=r"x\.csv is not UTF-8: byte 0xf6(.|\n)*--encoding latin-1"):
        read(path)
    found = read(path, encoding="latin-1")
    assert (found.features, found.X.tolist()) == (("größe", "b"), X)


def test_names_and_texts_with_newlines_and_separators_stay_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", '"a\nx",who,b\n1.5,"Smith,\nJohn",2\n3.25,"O""Hara",-4\n')
    found = read(path, id_column="who")
    assert (found.features, found.X.tolist()) == (("a\nx", "b"), X)
    assert found.ids is not None
    assert found.ids.tolist() == ["Smith,\nJohn", 'O"Hara']


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ('a,b,note\n1,2,"x\n3,4,y\n', 2, 3),
        ('a,b,note\n1,2,"x\n3,4,y\n5,6,"z\n7,8,w\n', 2, 4),
        ('a,b,note\n1,2,"x\ny"\n3,4,"y', 4, 4),
        ('a,b,note\n1,2,"x\n3,4,y', 2, 3),
    ],
)
def test_no_row_is_lost_in_a_text_that_does_not_end(tmp_path: Path, text: str, begins: int, ends: int) -> None:
    with pytest.raises(
        InputError, match=rf"quotation mark in line {begins} and does not end .*\(read up to line {ends}\)"
    ):
        read(written(tmp_path / "x.csv", text), RowSettings(drop=("note",)))
    whole = 'a,b,note\n1.5,2,"x\n\ny"\n3.25,-4,5" long\n'
    assert read(written(tmp_path / "y.csv", whole), RowSettings(drop=("note",))).X.tolist() == X


@pytest.mark.parametrize(
    ("name", "content", "own", "said"),
    [
        ("x.csv", b"PK\x03\x04\0\0", {}, "is no text: it is a ZIP archive, such as a workbook of Excel"),
        ("x.csv", gzip.compress(COMMAS.encode(), mtime=0), {}, r"compressed by gzip \(\.csv\.gz\)"),
        ("x.csv.gz", COMMAS.encode(), {}, r"cannot be read as \.csv\.gz: Not a gzipped file"),
        ("x.csv.gz", gzip.compress(COMMAS.encode(), mtime=0)[:-9], {}, r"cannot be read as \.csv\.gz"),
        ("x.csv", COMMAS.encode("utf-16"), {"encoding": "latin-1"}, "begins with the mark of UTF-16"),
        ("x.csv", COMMAS.encode("utf-32"), {}, r"is in UTF-32(.|\n)*save the file as UTF-8"),
        ("x.csv", b"\n<!DOCTYPE html>\n<p>Sign in</p>", {}, "is no table: it is a page of HTML"),
        ("x.csv", b'[{"a": 1}]', {}, "is no table: it is JSON"),
        ("x.xlsx", b"PK", {}, r"not known \('\.xlsx'\)(.|\n)*save the sheet as CSV"),
        ("x.txt", COMMAS.encode(), {}, r"not known \('\.txt'\)(.|\n)*call the file by what it is"),
        ("x.csv", COMMAS.encode("utf-8-sig"), {"encoding": "latin-1"}, "begins with the mark of UTF-8"),
        ("x.csv", COMMAS.encode(), {"encoding": "utf-16"}, "is not UTF-16"),
        ("x.csv", b"a,b,a\n1,2,3\n", {"id_column": "a"}, "several columns called 'a', which --id-column names"),
        ("nothing", None, {}, "is not there"),
    ],
)
def test_files_that_are_not_what_they_are_called(
    tmp_path: Path, name: str, content: bytes | None, own: dict[str, str], said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read(tmp_path / name, **own)


def test_a_name_that_two_columns_have_is_not_chosen_by_chance(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "a,b,a\n1,2,3\n")
    with pytest.raises(InputError, match="several columns called 'a', which --columns names"):
        read(path, RowSettings(columns=("a", "b")))
    assert read(path, RowSettings(drop=("a",))).X.tolist() == [[2.0]]


def test_an_agreed_category_may_be_called_none(tmp_path: Path) -> None:
    rows = RowSettings(encode={"pain": ["none", "-"]}, missing="mean")  # type: ignore[arg-type]
    found = read(written(tmp_path / "x.csv", "pain,a\nnone,1\n-,2\nNA,3\n"), rows)
    np.testing.assert_array_equal(found.X, [[1, 0, 1], [0, 1, 2], [np.nan, np.nan, 3]])
    one = read(written(tmp_path / "y.csv", "a\n1,5\n"), decimal="comma")
    assert one.X.tolist() == [[1.5]]


def test_truth_values_are_zeros_and_ones_wherever_they_begin(tmp_path: Path) -> None:
    late = "a,b\n" + ",1\n" * 40_000 + "true,2\nfalse,3\n"
    found = read(written(tmp_path / "y.csv", late), RowSettings(missing="drop-rows"))
    assert found.X.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    assert read(written(tmp_path / "x.csv", "a,b\ntrue,1\nFalse,2\n")).X.tolist() == [[1.0, 1.0], [0.0, 2.0]]


WRONG: dict[str, tuple[str, list[str]]] = {
    "text": ("a,b\n1,2\n3,blue\n", ["column 'b' has 'blue' in row 2 (line 3)", "--drop", "--encode NAME=A,B"]),
    "text after blank lines": ("a,b\n\n\n1,2\n3,blue\n", ["column 'b' has 'blue' in row 2 (line 5)"]),
    "several": ("a,b,c\nx,1,y\n", ["column 'a' has 'x' in row 1", "Other columns that are not numbers there: 'c'"]),
    "date": ("a,when\n1,2024-01-31\n", ["column 'when' has '2024-01-31' in row 1", "columns of dates"]),
    "other date": ("a,when\n1,31.01.2024\n", ["'31.01.2024' in row 1", "columns of dates"]),
    "thousands": ('a,b\n1,"1,234,567.5"\n', ["'1,234,567.5' in row 1", "without thousands separators"]),
    "decimal commas": ("a;b\n1,5;2\n", ["column 'a' has '1,5' in row 1", "--decimal comma"]),
    "comma or thousands": ("a;b\n1,234;2\n", ["--decimal comma", "without thousands separators"]),
    "comment first": ("# from the laboratory\na,b\n1,2\n", ["begins with a comment", "take comment lines out"]),
    "comment later": ("a,b\n1,2\n# checked\n3,4\n", ["a comment in line 3 (row 2): '# checked'"]),
    "too few": ("a,b,c\n1,2,3\n4,5\n", ["has 2 columns in row 2 (line 3), and its header has 3"]),
    "too many": ("a;b\n1;2;3\n", ["has 3 columns in row 1 (line 2)", "a ';' too many or too few"]),
    "empty": ("", ["is empty", "a header line"]),
    "header alone": ("a,b\n", ["has a header and no rows", "leave this party out"]),
    "no header": ("1,2\n3,4\n", ["has no header", "numbers in its first line"]),
    "twice": ("a,b,a\n1,2,3\n", ["names features twice: a"]),
    "index of pandas": (",a\n0,1\n1,2\n", ["columns without a name: number 1", "index=False"]),
    "missing": ("a,b\n1,\nNA,2\n3,\n", ["missing values: column 'b' 2, column 'a' 1 (3 entries, in 3 of 3 rows"]),
    "infinite": ("a,b\n1,2\n3,inf\n", ["not finite (the first in row 2, column 2 'b')"]),
    "truth and numbers": ("a,b\ntrue,1\n2,2\n", ["column 'a' has '2' in row 2 (line 3), and true and false before it"]),
    "Arabic digits": ("a,b\n1,\u0662\n", ["column 'b' has '\u0662' in row 1 (line 2)"]),
    "a line of Excel's": ("sep=;\na;b\n1;2\n", ["begins with the line 'sep=", "take that line out"]),
    "a title": ("Laboratory\na,b\n1,2\n", ["has 2 columns in row 1 (line 2)", "a title above the names"]),
    "separators at the end": ("a,b,\n1,2,\n", ["without a name: number 3", "separators at the end of the lines"]),
    "bars": ("a|b\n1|2\n", ["column 'a|b' has '1|2' in row 1", "commas, semicolons or tabs"]),
    "spaces": ("a,b\n1,  \n3, NA \n", ["missing values: column 'b' 2 (2 entries, in 2 of 2 rows"]),
    "nothing as databases write it": ("a,b\n1,2\n\\N,3\n", ["missing values: column 'a' 1 (1 entry, in 1 of 2 rows"]),
    "files put together": ("a,b\n1,2\na,b\n3,4\n", ["its header again in row 2 (line 3)", "take that line out"]),
    "decimal commas in every column": ('a,b\n"1,5","2,5"\n"3,5","4,25"\n', ["has '1,5' in row 1", "--decimal comma"]),
    "units below the names": ("a,b\nkg,cm\n1,2\n", ["has 'kg' in row 1", "if it belongs to the header"]),
    "a last line of a database": ("a,b\n1,2\n(1 row)\n", ["in row 2 (line 3)", "That line begins '(1 row)'"]),
    "years for names": ("who,2023,2024\nx,1,2\n", ["numbers in its first line (2023, 2024)", "(y2024)"]),
    "per cent": ("a,b\n1,5 %\n", ["signs of per cent"]),
    "money": ("a,b\n1,$5\n", ["signs of currencies"]),
    "brackets": ("a,b\n1,(12.5)\n", ["with a minus, not in brackets"]),
    "a long minus": ("a,b\n1,\u22125\n", ["the minus as -"]),
    "below a limit": ("a,b\n1,<0.5\n", ["values beyond a limit"]),
    "units": ("a,b\n1,5 mg\n", ["units out of the cells"]),
    "errors of Excel": ("a,b\n1,#DIV/0!\n", ["an error of Excel's"]),
    "yes and no": ("a,b\n1,yes\n", ["true and false"]),
    "lakhs": ('a,b\n1,"12,34,567"\n', ["without thousands separators"]),
    "an empty line of one column": ("a\n1\n\n2\n\n", ["has a single column, and line 3 is empty", "write NA"]),
}


def test_numbers_are_nearly_numbers_only_if_they_are_not_read(tmp_path: Path) -> None:
    right = "a\n+1\n-.5\n5.\n1e-3\n\n\n"  # empty lines at the end are no rows
    assert read(written(tmp_path / "x.csv", right)).X[:, 0].tolist() == [1.0, -0.5, 5.0, 0.001]


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_said_with_its_place_and_what_to_do(tmp_path: Path, name: str) -> None:
    text, phrases = WRONG[name]
    with pytest.raises(InputError) as caught:
        read(written(tmp_path / "x.csv", text))
    for phrase in phrases:
        assert phrase in str(caught.value)


BY_ARROW = ("decimal commas", "comma or thousands", "too many", "a line of Excel's")


@pytest.mark.parametrize("name", [n for n in WRONG if n not in BY_ARROW])
def test_the_plain_reader_says_the_same(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, phrases = WRONG[name]
    path = written(tmp_path / "x.csv", text)
    monkeypatch.setattr(delimited, "WIDE", 0)
    with pytest.raises(InputError) as caught:
        read(path)
    for phrase in phrases:
        assert phrase in str(caught.value)


@pytest.mark.parametrize("name", RIGHT)
def test_the_plain_reader_reads_the_same(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file, content, own = RIGHT[name]
    (path := tmp_path / file).write_bytes(content)
    monkeypatch.setattr(delimited, "WIDE", 0)
    assert read(path, **own).X.tolist() == X
    chosen = read(written(tmp_path / "y.csv", "a,c,b\n1.5,,2\n3.25,NA,-4\n"), RowSettings(drop=("c",)))
    assert (chosen.features, chosen.X.tolist()) == (("a", "b"), X)


def test_pyarrow_is_not_imported_for_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(X))
    program = (
        "import sys; from pathlib import Path; from pdml_spdz.rows.data import load; load(Path(sys.argv[1]));"
        "sys.exit(any(m in sys.modules for m in ('pyarrow', 'pandas', 'dask', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.npy")]).returncode == 0


def test_one_row_and_very_many_columns(tmp_path: Path) -> None:
    d = 10**5
    numbers = np.random.default_rng(0).normal(size=(2, d))
    lines = [",".join(f"c{j}" for j in range(d)), *(",".join(map(repr, row)) for row in numbers.tolist())]
    found = read(written(tmp_path / "x.csv", "\n".join(lines)), RowSettings(drop=("c0",)))
    np.testing.assert_array_equal(found.X, numbers[:, 1:])
    one = read(written(tmp_path / "y.csv", "\n".join(lines[:2])))
    np.testing.assert_array_equal(one.X, numbers[:1])


def test_numbers_are_the_nearest_floats_whatever_block_they_are_in(tmp_path: Path) -> None:
    """Integers first, decimals later than the first block; and every float comes back."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60_000, 3)) * 10.0 ** rng.integers(-300, 300, (60_000, 3))
    numbers[:40_000, 0] = rng.integers(-(10**6), 10**6, 40_000)
    frame = pd.DataFrame(numbers, columns=["a", "b", "c"])
    frame["a"] = [str(int(x)) if i < 40_000 else repr(x) for i, x in enumerate(numbers[:, 0].tolist())]
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert (tmp_path / "x.csv").stat().st_size > 2 << 20
    np.testing.assert_array_equal(read(tmp_path / "x.csv").X, numbers)
    with pytest.raises(InputError, match=r"column 'a' has 'x' in row 60001 \(line 60002\)"):
        read(written(tmp_path / "y.csv", (tmp_path / "x.csv").read_text() + "x,1,2\n"))


TABLE = pd.DataFrame({"pid": [7, 8, 9], "a": [1, None, 3], "colour": ["red", "blue", "red"], "b": [True, False, True]})
ENCODED = RowSettings(encode={"colour": ["blue", "red"]}, missing="mean")  # type: ignore[arg-type]


def of_every_kind(directory: Path) -> list[Any]:
    frame = TABLE.astype({"a": "Int64"})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frame.to_csv(directory / "x.csv", index=False)
    frame.to_csv(directory / "x.tsv", index=False, sep="\t")
    pq.write_table(table, directory / "x.parquet", row_group_size=2)
    feather.write_feather(table, directory / "x.feather")
    files = [directory / name for name in ("x.csv", "x.tsv", "x.parquet", "x.feather")]
    return [*files, frame, TABLE, table, table.to_batches()[0], pl.from_pandas(frame)]


def test_columns_are_chosen_encoded_and_kept_aside_in_every_kind_of_table(tmp_path: Path) -> None:
    for given in of_every_kind(tmp_path):
        wanted = RowsWanted(Reading(id_column="pid"), ENCODED)
        found = load(given, wanted=wanted) if isinstance(given, Path) else from_rows(given, "P0", wanted=wanted)
        assert found.features == ("a", "colour=blue", "colour=red", "b")
        np.testing.assert_array_equal(found.X, [[1, 0, 1, 1], [np.nan, 1, 0, 0], [3, 0, 1, 1]])
        assert found.ids is not None
        assert found.ids.tolist() == ["7", "8", "9"]
        assert found.holes
        dropped = RowSettings(columns=("b", "a"), missing="drop-rows")
        wanted = RowsWanted(Reading(id_column="pid"), dropped)
        found = load(given, wanted=wanted) if isinstance(given, Path) else from_rows(given, "P0", wanted=wanted)
        assert (found.features, found.X.tolist()) == (("b", "a"), [[1.0, 1.0], [1.0, 3.0]])
        assert found.ids is not None
        assert found.kept is not None
        assert (found.ids.tolist(), found.kept.tolist()) == (["7", "9"], [0, 2])
        assert "left out 1 of 3 rows" in found.warnings[0]


def test_nullable_parquet_and_columns_with_dots_in_their_names(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "a.x": [3.0, 4.0], "c": ["u", "v"]})
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(InputError, match="missing values: column 'a' 1"):
        read(tmp_path / "x.parquet", RowSettings(drop=("c",)))
    assert read(tmp_path / "x.parquet", RowSettings(columns=("a.x",))).X.tolist() == [[3.0], [4.0]]


def test_objects_that_are_no_tables_of_numbers_are_refused_in_words(tmp_path: Path) -> None:
    queried = pl.LazyFrame({"a": [1.0]})
    wide = pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)})
    for given, said in ((queried, "collect"), (wide, "type that Arrow does not know"), ([[1.0], [1.0, 2.0]], "array")):
        with pytest.raises(InputError, match=said):
            from_rows(given, "P0")
    times = pa.table({"when": pa.array([1, 2], pa.timestamp("s", "Europe/Berlin")), "b": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"not numbers: 'when' \(timestamp\[s, tz=Europe/Berlin\]\)"):
        from_rows(times, "P0")
    texts = pd.DataFrame({"c": pd.array(["x", None], "string"), "a": [1.0, 2.0]})
    with pytest.raises(InputError, match="missing values: column 'c=x' 1"):
        from_rows(texts, "P0", wanted=RowsWanted(agreed=RowSettings(encode={"c": ["x"]})))  # type: ignore[arg-type]
    with pa.ipc.new_stream(tmp_path / "x.arrow", times.schema) as stream:
        stream.write_table(times)
    assert read(tmp_path / "x.arrow", RowSettings(drop=("when",))).X.tolist() == [[1.0], [2.0]]


def test_annotated_matrices_have_names_and_identifiers(tmp_path: Path) -> None:
    counts = sp.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]], np.float32))
    held = anndata.AnnData(counts, pd.DataFrame(index=["cell-1", "cell-2"]), pd.DataFrame(index=["g1", "g2", "g3"]))
    held.write_h5ad(tmp_path / "x.h5ad")
    found = read(tmp_path / "x.h5ad", RowSettings(drop=("g2",)))
    assert found.rows.sparse
    assert (found.features, found.rows.dense().tolist()) == (("g1", "g3"), [[1.0, 2.0], [0.0, 0.0]])
    assert found.ids is not None
    assert found.ids.tolist() == ["cell-1", "cell-2"]


@pytest.mark.parametrize(
    ("own", "rows", "said"),
    [
        ({"id_column": "pd"}, {}, r"has no column 'pd', which --id-column names(.|\n)*did you mean `pid`"),
        ({}, {"columns": ("a", "z")}, "has no column 'z', which --columns names"),
        ({}, {"drop": ("z",)}, "has no column 'z', which --drop names"),
        ({"id_column": "colour"}, {"drop": ("pid",)}, "1 identifiers are there more than once, that of row 1 first"),
        ({"id_column": "a"}, {"drop": ("pid", "colour")}, "1 rows have no identifier, the first of them row 2"),
        ({"id_column": "pid"}, {"columns": ("pid",)}, "both an identifier and a feature"),
        ({}, {"encode": {"colour": ["red"]}}, r"column 'colour' has 1 values that are none of its categories: 'blue'"),
    ],
)
def test_columns_that_are_asked_for_and_not_there_are_refused(
    tmp_path: Path, own: dict[str, str], rows: dict[str, Any], said: str
) -> None:
    TABLE.to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(InputError, match=said):
        read(tmp_path / "x.csv", RowSettings(**rows), **own)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RowSettings(missing="means"), "did you mean `mean`"),
        (lambda: RowSettings(columns=("a",), drop=("a",)), "asked for elsewhere: 'a'"),
        (lambda: RowSettings(encode={"a": []}), "distinct categories"),  # type: ignore[arg-type]
        (lambda: RowSettings(columns=("a",), encode={"b": ["x"]}), "`rows.columns` has not: 'b'"),  # type: ignore[arg-type]
        (lambda: RowSettings(columns="ab"), "a list of names"),  # type: ignore[arg-type]
        (lambda: Reading(sep="semi"), "one of comma, semicolon, tab"),
        (lambda: Reading(sep="comma", decimal="comma"), "two different signs"),
        (lambda: Reading(triplets=("a", "b")), "the names of three columns"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        make()


RATINGS = "user,item,rating,when\nann,m2,4,x\nbob,m1,3,x\nann,m1,5,x\n"
TRIPLETS = ("user", "item", "rating")


def test_triplets_are_sparse_rows_of_users(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", RATINGS)
    found = read(path, features=("m1", "m2", "m3"), triplets=TRIPLETS)
    assert found.rows.sparse
    assert found.rows.nonzero == 3
    assert found.rows.dense().tolist() == [[5.0, 4.0, 0.0], [3.0, 0.0, 0.0]]
    assert found.features == ("m1", "m2", "m3")
    assert found.ids is not None
    assert found.ids.tolist() == ["ann", "bob"]


@pytest.mark.parametrize(
    ("text", "features", "said"),
    [
        (RATINGS, (), "have not agreed on a list of features"),
        (RATINGS, ("m1",), "1 entries of 1 features that the study does not list: m2"),
        (
            RATINGS + "bob,m1,2,x\nann,m1,5,x\n",
            ("m1", "m2"),
            r"2 entries more than once, the first in row 4 \('bob'",
        ),
        (
            RATINGS + "bob,m2,,x\n",
            ("m1", "m2"),
            "column 'rating' has 1 values that are missing .* in row 4",
        ),
        (RATINGS + ",m2,3,x\n", ("m1", "m2"), "column 'user' has 1 values that are missing"),
        (RATINGS.replace("item", "film"), ("m1", "m2"), "has no column 'item', which --triplets names"),
    ],
)
def test_triplets_that_are_not_clear_are_refused_by_count(
    tmp_path: Path, text: str, features: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        read(written(tmp_path / "x.csv", text), features=features, triplets=TRIPLETS)
