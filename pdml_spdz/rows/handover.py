"""A party's rows on their way into its process: through an inherited descriptor, never by a name.

Where the system has it (Linux), an anonymous file in memory, sealed, that the party maps without a copy of its own;
elsewhere a pipe. Neither has a name, and both are gone with the processes that hold them, however these end.

What is sent: the length of a header, the header (JSON: where each array begins), and the arrays.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import pickle
import stat
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import PeerError
from pdml_spdz.rows.base import RowsLike, is_sparse
from pdml_spdz.rows.data import Data
from pdml_spdz.system.files import writing

LENGTH = struct.Struct("<Q")
ALIGNMENT = 64  # bytes, of every array: a cache line
PIECE = 1 << 20
CSR = ("data", "indices", "indptr")


@contextmanager
def offered(data: Data) -> Iterator[int]:
    """A descriptor from which a process that inherits it has the same rows (`received`); closed here afterwards."""
    descriptor = _in_memory(data)
    if descriptor is None:
        descriptor = _through_pipe(data)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def received(descriptor: int) -> Data:
    """The rows that the process which started this one `offered`."""
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            buffer: Any = bytearray()
            while piece := os.read(descriptor, PIECE):
                buffer += piece
        else:
            # Private: may be written to, as any array, and nobody else sees it. Pages are copied only then.
            buffer = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    finally:
        os.close(descriptor)
    try:
        (length,) = LENGTH.unpack_from(buffer)
        header = json.loads(bytes(buffer[LENGTH.size : LENGTH.size + length]))
        arrays = [
            np.frombuffer(buffer, kind, int(np.prod(shape)), start).reshape(shape)
            for kind, shape, start in header["arrays"]
        ]
    except (struct.error, ValueError):  # a pipe whose writer is gone
        raise PeerError("the process that started this party ended before it had handed over the rows.") from None
    features = None if header["features"] is None else tuple(header["features"])
    ids = None if header["ids"] is None else np.array(header["ids"], dtype=object)
    # Only the process that started this one can have written it.
    rows = pickle.loads(arrays[0].data) if header["lazy"] else _joined(arrays, header["shape"])  # noqa: S301
    kept = header["kept"]
    kept = None if kept is None else np.array(kept, np.int64)
    return Data(rows, features, header["source"], tuple(header["warnings"]), ids, header["holes"], kept)


def _in_memory(data: Data) -> int | None:
    """A sealed file in memory, if the system has such files."""
    try:
        descriptor = os.memfd_create("rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):
        return None
    try:
        with writing(Path(data.source)), os.fdopen(descriptor, "wb", closefd=False) as file:
            _write(file, data)
        fcntl.fcntl(
            descriptor,
            fcntl.F_ADD_SEALS,
            fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
        )
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _through_pipe(data: Data) -> int:
    """The reading end of a pipe that a thread fills: it ends when all is read, or when nobody reads any more."""
    reading, into = os.pipe()

    def fill() -> None:
        with suppress(BrokenPipeError), os.fdopen(into, "wb") as file:
            _write(file, data)

    threading.Thread(target=fill, daemon=True).start()
    return reading


def _write(file: BinaryIO, data: Data) -> None:
    arrays = _parts(data)
    places: list[tuple[str, tuple[int, ...], int]] = []
    head: dict[str, Any] = {"shape": data.rows.shape, "arrays": places, "lazy": _portable(data.rows)}
    head |= {name: getattr(data, name) for name in ("features", "source", "warnings", "holes")}
    head |= {name: None if held is None else held.tolist() for name, held in (("ids", data.ids), ("kept", data.kept))}
    # Longer than the header can be: where the arrays begin is part of it.
    start = _aligned(LENGTH.size + len(json.dumps(head)) + 256 * len(arrays))
    for array in arrays:
        places.append((array.dtype.str, array.shape, start))
        start = _aligned(start + array.nbytes)
    header = json.dumps(head).encode()
    file.write(LENGTH.pack(len(header)) + header)
    at = LENGTH.size + len(header)
    for array, (_, _, start) in zip(arrays, places, strict=True):
        file.write(bytes(start - at))
        file.write(array.reshape(-1).view(np.uint8).data)
        at = start + array.nbytes


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _parts(data: Data) -> list[NDArray[Any]]:
    """The arrays that rows consist of: one, or three of sparse rows; bytes that say where rows are found."""
    if _portable(data.rows):
        import cloudpickle  # as Dask does

        return [np.frombuffer(cloudpickle.dumps(data.rows), np.uint8)]
    X = data.X
    return [np.ascontiguousarray(part) for part in ([getattr(X, name) for name in CSR] if is_sparse(X) else [X])]


def _portable(rows: Any) -> bool:
    """Not loaded whole, and not bound to the connection of this process to a cluster."""
    return bool(rows.lazy and not rows.store.workers.keeps)


def _joined(arrays: list[NDArray[Any]], shape: list[int]) -> RowsLike:
    if len(arrays) == 1:
        return arrays[0]
    import scipy.sparse as sp  # which takes long, and dense rows do without it

    return sp.csr_array(tuple(arrays), shape=tuple(shape), copy=False)
