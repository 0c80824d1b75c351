"""Rows that cannot be used: the party that has them says what is wrong with them, the others say who cannot go on."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from pdml_spdz.errors import InputError, MismatchError, PeerAborted
from pdml_spdz.rows import data
from tests.parties.helpers import Parties, rows

NAMES = ("a", "b", "c", "d", "e", "f")


def spoilt(value: float, row: int = 1, column: int = 2) -> np.ndarray:
    X = rows(1)
    X[row, column] = value
    return X


def csv(X: np.ndarray, names: tuple[str, ...] = NAMES) -> str:
    return "\n".join([",".join(names), *(",".join(map(repr, row)) for row in X.tolist())])


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content)


def array(X: np.ndarray, **options: bool) -> Callable[[Path], None]:
    return lambda path: np.save(path, X, **options)


def sparse(X: np.ndarray) -> Callable[[Path], None]:
    return lambda path: sp.save_npz(path, sp.csr_array(X))


def parquet(columns: dict[str, object]) -> Callable[[Path], None]:
    return lambda path: pyarrow.parquet.write_table(pyarrow.table(columns), path)


def cut_off(path: Path) -> None:
    np.savez(path, X=rows(1))
    path.write_bytes(path.read_bytes()[:-200])


def damaged(path: Path) -> None:
    """Bytes in the middle that no decompressor takes."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(csv(rows(1, n=200)).encode()))
    else:
        np.savez_compressed(path, X=rows(1, n=200))
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 64] = bytes(range(64))
    path.write_bytes(content)


def index_out_of_range(path: Path) -> None:
    np.savez(path, format=b"csr", shape=(2, 6), data=np.ones(2), indices=np.array([0, 9]), indptr=np.array([0, 1, 2]))


@pytest.mark.parametrize(
    ("name", "write", "phrases"),
    [
        ("x.npy", array(np.ones(5)), ["holds an array of shape (5,)", "Wanted: a table"]),
        ("x.npy", array(np.ones((2, 3, 4))), ["holds an array of shape (2, 3, 4)", "Wanted: a table"]),
        ("x.npy", array(np.ones((3, 6), complex)), ["entries of type complex128", "Wanted: real numbers"]),
        ("x.npy", array(np.array([[1, "a"]], object), allow_pickle=True), ["cannot be read as .npy", "Object arrays"]),
        (
            "x.npy",
            array(spoilt(np.nan)),
            ["missing values: column 3 1 (", "the first in row 2)", "Do this: fill them in"],
        ),
        ("x.npy", array(spoilt(-np.inf)), ["not finite (the first in row 2, column 3)", "Do this: fill in or drop"]),
        ("x.npz", sparse(spoilt(np.inf)), ["has entries that are not finite", "Do this: fill in or drop"]),
        (
            "x.csv",
            text(csv(spoilt(np.nan))),
            ["missing values: column 'c' 1 (", "the first in row 2)", "--missing drop-rows"],
        ),
        ("x.npy", array(np.ones((0, 6))), ["has 0 rows and 6 columns", "Do this: leave this party out"]),
        ("x.csv", text(csv(rows(1, n=0))), ["has a header and no rows", "Do this: leave this party out"]),
        ("x.csv", text(""), ["is empty", "Wanted: a header line"]),
        ("x.csv", text(csv(rows(1)) + "\n1,2,3,4,5,six"), ["column 'f' has 'six' in row 13", "Wanted: a number"]),
        ("x.csv", text(csv(rows(1)) + "\n1,2"), ["has 2 columns in row 13", "Wanted: as many"]),
        ("x.csv", text(csv(rows(1)).partition("\n")[2]), ["has no header", "Do this: put the same header line"]),
        ("x.csv", text(csv(rows(1), ("a", *NAMES[:5]))), ["names features twice: a", "Wanted: distinct names"]),
        ("x.csv.gz", damaged, ["cannot be read as .csv.gz", "Wanted: a file that is whole"]),
        ("x.npz", damaged, ["cannot be read as .npz", "Wanted: a file that is whole"]),
        ("x.npz", cut_off, ["cannot be read as .npz", "Wanted: a file that is whole"]),
        ("x.npz", index_out_of_range, ["cannot be read as .npz", "indices", "Wanted: a file that is whole"]),
        (
            "x.parquet",
            parquet({"a": ["1", "2"]}),
            ["columns that are not numbers: 'a' (string)", "Do this: leave such columns out"],
        ),
        ("x.txt", text("1 2 3"), ["has an ending that is not known ('.txt')", "Wanted: one of .arrow, .csv"]),
        ("x.npy", lambda path: None, ["is not there", "Do this: check the path after --data"]),
    ],
)
def test_rows_that_cannot_be_used(
    parties: Callable[..., Parties], name: str, write: Callable[[Path], None], phrases: list[str]
) -> None:
    site = parties()
    write(site.home(1) / name)
    site.start(0)
    site.start(1, data=name)
    told, ended = site.end()
    ended.failed(InputError, *phrases, name)
    told.failed(PeerAborted, "P1 ended the run: it could not use its own input file", "see the message at P1")
    assert not any((site.results(m) / "report.json").exists() for m in range(2))


def test_rows_sparse_with_an_entry_in_two_parts(tmp_path: Path) -> None:
    """The norm that is compared with the quota is read off the stored entries: 1 + 1 must count as 2."""
    twice = sp.csr_array((np.ones(2), np.zeros(2, int), np.array([0, 2])), shape=(1, 6))
    sp.save_npz(tmp_path / "x.npz", twice)
    assert data.load(tmp_path / "x.npz").X.data.tolist() == [2.0]


@pytest.mark.parametrize("bound", ["secsum", "1000"])
def test_rows_zero_at_every_party(parties: Callable[..., Parties], bound: str) -> None:
    site = parties(bound=bound)
    for m in range(2):
        site.give(m, np.zeros((3, 6)))
    for end in site.run():
        end.failed(InputError, "the rows of all parties together are zero", "Wanted: rows that are not all zero")


def test_rows_of_every_format_together(parties: Callable[..., Parties]) -> None:
    """Dense, sparse, text and parquet of the same numbers: files without names go with those that have some, if the
    study says that columns are known by their position.
    """
    site = parties(4, tol=1e-9, columns="position")
    X = rows(0)
    array(X)(site.home(0) / "x.npy")
    sparse(X)(site.home(1) / "x.npz")
    (site.home(2) / "x.csv.gz").write_bytes(gzip.compress(csv(X).encode()))
    parquet(dict(zip(NAMES, X.T, strict=True)))(site.home(3) / "x.parquet")
    for m, name in enumerate(("x.npy", "x.npz", "x.csv.gz", "x.parquet")):
        site.start(m, data=name)
    for end in site.end():
        end.well()
    wanted = np.linalg.svd(X)[2][:2].T
    # Both are orthonormal: |V^T W| = I up to the angle, which is below tol / gap.
    found = np.abs(np.load(site.results(3) / "V.npy").T @ wanted)
    np.testing.assert_allclose(found, np.eye(2), atol=1e-8)


@pytest.mark.parametrize(
    ("other", "phrase"),
    [
        (csv(rows(1, d=5), NAMES[:5]), "another number of features than this party (there {}, here {})"),
        (csv(rows(1), (*NAMES[:5], "g")), "another set of feature names than this party"),
    ],
    ids=["number", "names"],
)
def test_features_differ_between_parties(parties: Callable[..., Parties], other: str, phrase: str) -> None:
    site = parties()
    for m, content in enumerate((csv(rows(0)), other)):
        (site.home(m) / "x.csv").write_text(content)
        site.start(m, data="x.csv")
    first, second = site.end()
    first.failed(MismatchError, "P1 has " + phrase.format(5, 6), "Do this: ")
    second.failed(MismatchError, "P0 has " + phrase.format(6, 5), "Do this: ")


@pytest.mark.parametrize(
    ("study", "phrases"),
    [
        ({"d": 6}, ["has 5 columns", "the study's 6 features"]),
        ({"features": NAMES}, ["x.csv has other names than the study; missing: 'f'."]),
        ({"features": ("a", "x", "c", "d", "e")}, ["than the study; missing: 'x'; not known: 'b'."]),
        ({"rank": 6}, ["the rank asked for is 6 and x.csv has 5 columns", "a rank of at most d"]),
    ],
    ids=["d", "features", "names", "rank"],
)
def test_rows_that_do_not_fit_the_study(
    parties: Callable[..., Parties], study: dict[str, object], phrases: list[str]
) -> None:
    site = parties(**study)
    (site.home(1) / "x.csv").write_text(csv(rows(1, d=5), NAMES[:5]))
    names = study.get("features", NAMES)
    (site.home(0) / "x.csv").write_text(csv(rows(0, d=len(names)), names))
    site.start(0, data="x.csv")
    site.start(1, data="x.csv")
    told, ended = site.end()
    ended.failed(InputError, *phrases)
    told.failed(PeerAborted, "P1 ended the run: it could not use its own input file")
