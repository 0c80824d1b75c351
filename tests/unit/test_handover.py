"""Rows that are handed to another process through a descriptor: the same rows, names and all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from pdml_spdz.errors import PeerError
from pdml_spdz.rows import handover
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.data import Data, from_rows

X = np.random.default_rng(0).normal(size=(40, 5))
ROWS = {
    "dense": Data(X, None, "the table of P0"),
    "named": Data(X, ("a", "b", "ç", "d", 'e"\n'), "the table of P1"),
    "one row": Data(X[:1], None, "a vector"),
    "sparse": Data(sp.csr_array(np.where(X > 1, X, 0.0)), tuple("abcde"), "sparse"),
    "empty": Data(sp.csr_array((3, 4)), None, "nothing stored"),
}


@pytest.fixture(params=["memory", "pipe"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pipe":

        def refused(name: str, flags: int) -> int:
            raise OSError(errno.ENOSYS, "Function not implemented")

        monkeypatch.setattr(os, "memfd_create", refused)
    return str(request.param)


@contextmanager
def inherited(data: Data) -> Iterator[int]:
    """The descriptor as a child has it, after the parent has closed its own."""
    with handover.offered(data) as descriptor:
        copy = os.dup(descriptor)
    yield copy


@pytest.mark.parametrize("kind", ROWS)
def test_rows_arrive_as_they_were(way: str, kind: str) -> None:
    data, salt = ROWS[kind], b"salt"
    with inherited(data) as descriptor:
        found = handover.received(descriptor)
    assert (found.features, found.source, found.X.shape) == (data.features, data.source, data.X.shape)
    assert found.digest(salt) == data.digest(salt)
    assert sp.issparse(found.X) == sp.issparse(data.X)
    for array in [found.X.data, found.X.indices, found.X.indptr] if sp.issparse(found.X) else [found.X]:
        assert array.ctypes.data % array.itemsize == 0
        assert array.flags.writeable  # as an array from a file is
    with pytest.raises(OSError):
        os.fstat(descriptor)  # whoever this process starts does not inherit it


def test_rows_in_memory_are_mapped_sealed_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    data = ROWS["dense"]
    with handover.offered(data) as descriptor:
        for change in (lambda: os.write(descriptor, b"x"), lambda: os.ftruncate(descriptor, 1)):
            with pytest.raises(PermissionError):
                change()
        first, second = (handover.received(os.dup(descriptor)) for _ in range(2))
    assert not first.X.flags.owndata  # it is the memory that was handed over, not a copy
    first.X[0, 0] = 7.0
    assert second.X[0, 0] == data.X[0, 0] == X[0, 0] != 7.0


def test_a_writer_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for sent in (b"", handover.LENGTH.pack(1000) + b'{"arrays"'):
        reading, writing = os.pipe()
        os.write(writing, sent)
        os.close(writing)
        with pytest.raises(PeerError, match="ended before it had handed over the rows"):
            handover.received(reading)


def test_a_pipe_that_nobody_reads_does_not_stop_its_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with handover.offered(Data(np.zeros((1000, 1000)), None, "large")):
        pass  # filterwarnings: an error in the thread would fail this test


def test_sparse_rows_of_another_kind_arrive_as_one_array() -> None:
    class Zeros(Rows):
        sparse, shape = True, (3, 2)

        def blocks(self, numbers: int = 0) -> Iterator[np.ndarray]:
            yield np.zeros((3, 2))

    with handover.offered(Data(Zeros(), None, "zeros")) as descriptor:
        np.testing.assert_array_equal(handover.received(os.dup(descriptor)).X, np.zeros((3, 2)))


def test_rows_that_are_not_loaded_whole_are_handed_over_by_where_they_are(tmp_path: Path) -> None:
    zarr.save_array(tmp_path / "x.zarr", np.tile(X, (5000, 1)))
    data = from_rows(da.from_zarr(tmp_path / "x.zarr", chunks=(10_000, 5)), "x").looked_at("refuse")
    with inherited(data) as descriptor:
        assert os.fstat(descriptor).st_size < data.rows.nbytes / 8
        found = handover.received(descriptor)
    assert found.rows.lazy
    np.testing.assert_array_equal(found.rows.gram(), data.rows.gram())
    assert found.digest(b"salt") == Data(np.tile(X, (5000, 1)), None, "x").digest(b"salt")
