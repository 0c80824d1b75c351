"""Files and names that nobody expects end in words, not in a trace."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from pdml_spdz.errors import InputError, ResumeError, StockError, StorageError
from pdml_spdz.offline.numbers import NumberStock
from pdml_spdz.rows import data
from pdml_spdz.rows.text_form import LONGEST_LINE
from pdml_spdz.run import repeats
from pdml_spdz.run.checkpoints import Checkpoints
from pdml_spdz.run.output import finished
from pdml_spdz.study.model import PartyEntry, Study
from tests.parties.helpers import ENDS, Process

LONG = "n" * 300
DEEP = "[" * 100_000 + "]" * 100_000


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def array(X: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, X)
    return held.getvalue()


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"X.npy": b"hello"}, "something that is no array"),
        ({"X": b""}, "something that is no array"),
        ({"X.npy": array(np.eye(2)), "features": b"hello"}, "`features` that are not a list of texts"),
    ],
)
def test_member_of_an_archive_that_is_no_array_is_refused(
    tmp_path: Path, members: dict[str, bytes], found: str
) -> None:
    with pytest.raises(InputError, match=found):
        data.load(archive(tmp_path / "x.npz", members))


def test_line_that_is_larger_than_memory_is_not_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "rows.csv.gz", "wb", 1) as file:
        for _ in range(LONGEST_LINE >> 20):
            file.write(b"a" * (1 << 20))
    with pytest.raises(InputError, match="has a line of more than"):
        data.load(tmp_path / "rows.csv.gz")


def test_sparse_file_that_claims_any_number_of_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 99999999999 1\n1 1 1\n")
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix((np.ones(1), ([0], [0])), shape=(3, 10**12)))
    for name in ("x.mtx", "x.npz"):
        with pytest.raises(InputError, match=f"{name} has [0-9,]+ columns"):
            data.load(tmp_path / name)


@pytest.mark.parametrize("name", [".zarray", "zarr.json"])
def test_description_of_a_directory_that_is_nested_thousands_deep_is_refused(tmp_path: Path, name: str) -> None:
    pytest.importorskip("zarr")
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / name).write_text(DEEP)
    with pytest.raises(InputError, match=r"x\.zarr"):
        data.load(tmp_path / "x.zarr")


@pytest.mark.parametrize(
    "words",
    [
        ["svd", f"{LONG}.npy", f"{LONG}.npy", "--rank", "1"],
        ["svd", "x.npy", "x.npy", "--rank", "1", "--offset", f"{LONG}.npy"],
        ["svd", "x.npy", "x.npy", "--rank", "1", "--stock", LONG, "--offline", "stock"],
        ["svd", "x.npy", "x.npy", "--rank", "1", "--engine", "mp-spdz", "--mp-spdz", LONG],
        ["init", "--parties", "2", "--rank", "1", "--out", LONG],
        ["certs", "make", "--id", "0", "--dir", LONG],
        ["certs", "show", "--dir", LONG],
        ["offline", "status", "--stock", LONG],
        ["privacy", "report", LONG],
    ],
    ids=lambda words: " ".join(words).replace(LONG, "LONG"),
)
def test_name_that_is_too_long_is_an_error_in_words(tmp_path: Path, words: list[str]) -> None:
    np.save(tmp_path / "x.npy", np.eye(2))
    ended = Process(*words, cwd=tmp_path).end(ENDS)
    ended.failed(StorageError, "File name too long", "Do this: check its name")
    for log in tmp_path.glob("runs/*/party-*/log"):
        assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("address", ["h:²", "h:99999", f"{'a' * 64}.example:7000", "a b:7000", ":7000", "7000"])
def test_address_to_listen_on_that_is_none_is_an_error_of_usage(tmp_path: Path, address: str) -> None:
    ended = Process("party", "s.toml", "--id", "0", "--data", "x.npy", "--listen", address, cwd=tmp_path).end(ENDS)
    assert ended.code == 2
    assert "wanted HOST:PORT" in ended.err


@pytest.mark.parametrize("content", [DEEP, "[1]", "5", "null", '{"features": 5}', "{"], ids=lambda text: text[:20])
def test_marks_of_a_run_that_are_none_are_told_from_a_run(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "report.json").write_text(content)
    assert finished(tmp_path) is None
    assert Checkpoints(tmp_path).features() is None
    study = Study((PartyEntry(), PartyEntry()), 1)
    with pytest.raises(ResumeError, match="holds no run to resume"):
        Checkpoints(tmp_path).check_resumable(study, data.from_rows(np.eye(2), "rows"))


def test_deep_files_of_stocks_and_repeats_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(DEEP)
    with pytest.raises(StockError, match="nested too deeply"):
        NumberStock(tmp_path)
    (tmp_path / "repeats.json").write_text(DEEP)
    with pytest.raises(StorageError, match="cannot be read"):
        repeats.count(b"x", tmp_path / "repeats.json")


@pytest.mark.parametrize("body", ["1\n2\n3\n4\n" * 50, "1\n2\0\0\0\0\n3\n4\n", "1\n2s\n3\n4\n", "1\n2\n"])
def test_dense_matrix_market_file_that_is_damaged_is_refused(tmp_path: Path, body: str) -> None:
    """SciPy's reader ends the process on some of them."""
    (path := tmp_path / "x.mtx").write_text(f"%%MatrixMarket matrix array real general\n2 2\n{body}")
    with pytest.raises(InputError):
        data.load(path)
