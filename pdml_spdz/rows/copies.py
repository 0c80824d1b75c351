"""Files of one table that are copies of each other: their rows would count twice, and nothing else would show it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from itertools import groupby
from pathlib import Path

from pdml_spdz.errors import InputError

PLACES, LENGTH = 16, 1 << 12  # how many bytes of files of the same length are compared first, and where
WHOLE = 1 << 20  # bytes that are read at a time of those that agree in all of these


def refuse_copies(paths: Iterable[str]) -> None:
    """Files with the same bytes; most are told apart by their lengths, the others by a few places."""
    groups = [list(paths)]
    for mark in (_size, _places, _digest):
        groups = [same for group in groups for same in _alike(group, mark)]
    if groups:
        first, second, *_ = groups[0]
        count = sum(len(group) - 1 for group in groups)
        more = f"; there are {count} such copies" if count > 1 else ""
        raise InputError(
            f"{second} is a copy of {first}, byte for byte: its rows would count twice{more}.",
            "every row once",
            "take copies out of the directory, or name the files by a pattern; rows that are there twice on purpose go "
            "into one file",
        )


def _alike(paths: list[str], mark: Callable[[Path], Hashable]) -> list[list[str]]:
    """Groups of two and more files with the same mark; in each the shortest name, likely the older, is the first."""
    marked = sorted(((mark(Path(path)), path) for path in paths), key=lambda one: (repr(one[0]), len(one[1]), one[1]))
    groups = [[path for _, path in group] for _, group in groupby(marked, key=lambda one: one[0])]
    return [group for group in groups if len(group) > 1]


def _size(path: Path) -> int:
    return path.stat().st_size


def _places(path: Path) -> tuple[bytes, ...]:
    """Some bytes at the beginning, the end, and between."""
    last = max(0, path.stat().st_size - LENGTH)
    found = []
    with path.open("rb", buffering=0) as file:
        for i in range(PLACES):
            file.seek(i * last // (PLACES - 1))
            found.append(file.read(LENGTH))
    return tuple(found)


def _digest(path: Path) -> bytes:
    whole = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while part := file.read(WHOLE):
            whole.update(part)
    return whole.digest()
