"""Products of masks from one hand, for tests of the online phase alone: M threads, one dealer who knows everything.

The product has no dealer; what it hands out here has the same form and distribution as what the parties make together.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from pdml_spdz.offline.mask_products import Integers, Maker, Pair, random_integers


class MaskDealer:
    def __init__(self, M: int, bits: int) -> None:
        self.M, self.bits = M, bits
        self._barrier = threading.Barrier(M)
        self._given: dict[int, Sequence[Pair]] = {}
        self._dealt: list[list[Integers]] = []
        self.pairs = 0

    def maker(self, m: int) -> Maker:
        def make(pairs: Sequence[Pair]) -> list[Integers]:
            self._given[m] = pairs
            if self._barrier.wait(timeout=120) == 0:
                self._dealt = self._deal()
            self._barrier.wait(timeout=120)
            return self._dealt[m]

        return make

    def _deal(self) -> list[list[Integers]]:
        shares: list[list[Integers]] = [[] for _ in range(self.M)]
        for parts in zip(*(self._given[m] for m in range(self.M)), strict=True):
            self.pairs += 1
            for part in parts:  # as the lattice's products do, which refuse longer numbers
                assert all(abs(x) < 1 << part.left_bits for x in part.left.flat)
                assert all(abs(x) < 1 << part.right_bits for x in part.right.flat)
            product = sum(p.left for p in parts).dot(sum(p.right for p in parts))
            others = [random_integers(product.size, self.bits).reshape(product.shape) for _ in range(self.M - 1)]
            for share, part in zip(shares, [*others, product - sum(others)], strict=True):
                share.append(part % (1 << self.bits))
        return shares


def integers(x: np.ndarray) -> Integers:
    return np.array([*x, None], object)[:-1]
