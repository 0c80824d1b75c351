"""Where the results of many small products of matrices stand in slots.

Each entry of each product has a slot of its own. Entry (a, k) of a product (n x i)(i x c) is a sum of i terms
L[a, j] R[j, k]: term j is in the ciphertext of row j, at the entry's slot, so that adding rows adds up terms and
nothing is ever moved from one slot to another. N entries are a unit, with as many rows as its longest sum; entries are
sorted by length, so that units have few rows that are not full. Sums of more than `deepest` terms are cut, and their
pieces have slots of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.packing import blocks

Shape: TypeAlias = tuple[int, int, int]  # n, i, c
Index: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class SlotPacking:
    """shapes : n, i and c of each product
    deepest : terms that are added in a slot, at most
    """

    shapes: tuple[Shape, ...]
    deepest: int

    @cached_property
    def _lengths(self) -> list[tuple[int, int]]:
        """(terms, slots that add up so many), from the most terms down."""
        found: Counter[int] = Counter()
        for (n, i, c), many in Counter(self.shapes).items():
            for _, length in self._pieces(i):
                found[length] += many * n * c
        return sorted(found.items(), reverse=True)

    def _pieces(self, i: int) -> Iterator[tuple[int, int]]:
        """(first term, terms) of each piece of a sum of i terms: as equal as they can be."""
        width = blocks(i, blocks(i, self.deepest))
        return ((first, min(width, i - first)) for first in range(0, i, width))

    @property
    def depth(self) -> int:
        """Of the longest sum."""
        return self._lengths[0][0]

    @property
    def slots(self) -> int:
        return sum(many for _, many in self._lengths)

    @property
    def terms(self) -> int:
        """Products of two numbers."""
        return sum(n * i * c for n, i, c in self.shapes)

    @property
    def results(self) -> int:
        return sum(n * c for n, _, c in self.shapes)

    def depths(self, N: int) -> list[int]:
        """Rows of each unit of N slots."""
        out, before = [], 0
        for length, many in self._lengths:
            first, before = blocks(before, N), before + many
            out += [length] * (blocks(before, N) - first)
        return out

    @cached_property
    def _entries(self) -> Index:
        """Columns: terms, first left number, first right number, step of right numbers, result; sorted by terms."""
        parts: list[NDArray[Any]] = []
        left = right = result = 0
        for n, i, c in self.shapes:
            a, k = (x.reshape(-1) for x in np.indices((n, c)))
            for first, length in self._pieces(i):
                columns = (
                    np.full(n * c, length),
                    left + a * i + first,
                    right + first * c + k,
                    np.full(n * c, c),
                    result + np.arange(n * c),
                )
                parts.append(np.stack(columns))
            left, right, result = left + n * i, right + i * c, result + n * c
        entries = np.concatenate(parts, axis=1)
        return entries[:, np.argsort(-entries[0], kind="stable")]

    def row(self, N: int, unit: int, j: int) -> tuple[Index, Index]:
        """Which left and which right numbers stand in row j of a unit, (N,): -1 where none does."""
        length, left, right, step, _ = self._entries[:, unit * N : (unit + 1) * N]
        places = np.full((2, N), -1)
        inside = np.flatnonzero(length > j)
        places[0, inside], places[1, inside] = left[inside] + j, (right + j * step)[inside]
        return places[0], places[1]

    def targets(self, N: int, unit: int) -> Index:
        """Which result each slot of a unit belongs to: the first of its slots, the others are empty."""
        return self._entries[4, unit * N : (unit + 1) * N]
