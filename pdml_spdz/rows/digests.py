"""Digests of fixed groups of rows: the same for the same rows, whatever blocks or workers they came in."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

GROUP = 1 << 14  # numbers, about, of a group of rows that is digested by itself


class Groups:
    """Digests of fixed groups of rows, whatever the batches: group g has the rows g G to (g + 1) G - 1."""

    def __init__(self, first: int, d: int) -> None:
        self.size, self.at = group_size(d), first
        self._held: list[bytes] = []  # of the group that is being filled
        self._from = first % self.size
        self._digests: list[tuple[int, bytes]] = []
        self._parts: list[tuple[int, int, bytes]] = []

    def add(self, batch: Any) -> None:
        done, n = 0, batch.shape[0]
        while done < n:
            room = self.size - self.at % self.size
            take = min(room, n - done)
            self._held.append(row_bytes(batch[done : done + take]))
            done, self.at = done + take, self.at + take
            if self.at % self.size == 0:
                self._close(self.at // self.size - 1)

    def _close(self, number: int) -> None:
        if self._from == 0 and self.at % self.size == 0:
            self._digests.append((number, group_digest(self._held)))
        elif self._held:
            self._parts.append((number, self._from, b"".join(self._held)))
        self._held, self._from = [], self.at % self.size

    def end(self) -> tuple[tuple[tuple[int, bytes], ...], tuple[tuple[int, int, bytes], ...]]:
        if self._held:
            self._close(self.at // self.size)
        return tuple(self._digests), tuple(self._parts)


def group_size(d: int) -> int:
    """Rows of a group: it depends on the number of columns, and on nothing else."""
    return max(1, GROUP // max(d, 1))


def row_bytes(rows: Any) -> bytes:
    """The same bytes for the same rows, one row after the other."""
    if hasattr(rows, "tocsr"):
        counts = np.diff(rows.indptr).astype("<i8")
        return b"".join(
            counts[i : i + 1].tobytes() + rows.indices[a:b].astype("<i8").tobytes() + rows.data[a:b].tobytes()
            for i, (a, b) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
        )
    return np.ascontiguousarray(rows).tobytes()


def group_digest(held: list[bytes]) -> bytes:
    """SHA-256, for which most processors have instructions: of all that a pass does, digests take the longest."""
    whole = hashlib.sha256()
    for piece in held:
        whole.update(piece)
    return whole.digest()
