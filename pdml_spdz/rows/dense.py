"""Rows in one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import BLOCK, Rows

# With a few columns BLAS spends most of a product on rearranging the rows, unless it is so small that it does without:
# then block after block, each in the cache for both of its products, takes less time on one or two threads.
SMALL_PRODUCT = 900_000  # multiplications
FEWEST_ROWS = 6  # of a block: adding up (d, k) for every block must not cost more than it gains


class Dense(Rows):
    """array : (n, d), float64, of whatever order; it is not copied"""

    def __init__(self, array: Reals) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape

    def blocks(self, numbers: int = BLOCK) -> Iterator[Reals]:
        return self._slices(max(1, numbers // max(self.shape[1], 1)))

    def _slices(self, rows: int) -> Iterator[Reals]:
        return (self.array[i : i + rows] for i in range(0, len(self.array), rows))

    def stored(self) -> Iterator[Reals]:
        yield self.array

    def dense(self) -> Reals:
        return self.array

    operator = dense

    def csr(self) -> Any:
        import scipy.sparse as sp

        return sp.csr_array(self.array)

    def __getitem__(self, rows: Any) -> Dense:
        return Dense(self.array[rows])

    def columns(self, order: Sequence[int] | NDArray[np.int64]) -> Dense:
        return Dense(np.ascontiguousarray(self.array[:, np.asarray(order)]))

    def shifted(self, mu: Reals) -> Dense:
        return Dense(self.array - mu)

    def over(self, scale: Reals | float) -> Dense:
        return Dense(self.array / scale)

    def times(self, V: Reals) -> Reals:
        return self.array @ V

    def transposed_times(self, W: Reals) -> Reals:
        return self.array.T @ W

    def gram(self) -> Reals:
        return self.array.T @ self.array

    def gram_times(self, V: Reals) -> Reals:
        rows = SMALL_PRODUCT // V.size
        if rows < FEWEST_ROWS or self._threads > 2:
            return self.array.T @ (self.array @ V)
        product = np.zeros(V.shape)
        for block in self._slices(rows):
            product += block.T @ (block @ V)
        return product

    @cached_property
    def _threads(self) -> int:
        """Of BLAS, at most."""
        return max((library["num_threads"] for library in threadpool_info()), default=1)

    def column_sums(self) -> Reals:
        sums: Reals = self.array.sum(axis=0)
        return sums
