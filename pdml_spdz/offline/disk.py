"""Files of a stock: for their owner only, written once, from beginning to end."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

DIGEST = 16  # bytes of the BLAKE2b digests of files


class NewFile:
    """A file that is digested while it is written. It is on the disk when its stock is finished (`new_stock`)."""

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

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def write_file(path: Path, data: bytes) -> None:
    with NewFile(path) as file:
        file.write(data)


def write_all(fd: int, data: bytes) -> None:
    """os.write may write less than it was given: a full disk shows at the next call."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
