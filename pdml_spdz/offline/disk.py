"""Files of a stock: for their owner only, on the disk before anyone relies on them, an error in words if it is full."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdml_spdz.errors import PdmlError, StorageError

DIGEST = 16  # bytes of the BLAKE2b digests of files


@contextmanager
def keeping(path: Path, do: str) -> Iterator[None]:
    """`storage.writing` with other advice, and for blocks that talk to the other parties as well."""
    try:
        yield
    except PdmlError:  # a lost peer is an OSError too, and has nothing to do with the disk
        raise
    except OSError as error:
        found = f"{path} cannot be written ({error.strerror or error})."
        raise StorageError(found, "room and the right to write there", do) from None


class NewFile:
    """A file that is written once, from beginning to end, and digested on the way."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._digest = hashlib.blake2b(digest_size=DIGEST)
        self.bytes = 0

    def write(self, data: bytes, *, digested: bytes | None = None) -> None:
        """digested : what goes into the digest, if that is not the data itself"""
        write_all(self._fd, data)
        self._digest.update(data if digested is None else digested)
        self.bytes += len(data)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                os.fsync(self._fd)
        finally:
            os.close(self._fd)


def write_file(path: Path, data: bytes) -> None:
    with NewFile(path) as file:
        file.write(data)


def write_all(fd: int, data: bytes) -> None:
    """os.write may write less than it was given: a full disk shows at the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_directory(path: Path) -> None:
    """New, renamed and removed names are on the disk only after this."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
