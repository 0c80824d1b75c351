"""How products of masks are made by ring-LWE: many of one shape with matrices in coefficients, or small ones of all
shapes together in slots, whichever costs less. From public numbers alone, so that all parties find the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import cost
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.offline.mask_products import Pair
from pdml_spdz.programs.sealed_precision import RING

MOST_DIGITS = 4
MOST_IN_SLOTS = 1 << 21  # products of two numbers in slots: beyond, a layout is not looked for
FEW = (
    4096  # products of two numbers that cost less in slots, if there are any, than a key and a ciphertext of their own
)
SEVERAL = 4  # kinds with so few make slots pay


class ProductKind(NamedTuple):
    """What a product costs depends on."""

    n: int
    i: int
    c: int
    left_bits: int
    right_bits: int

    @classmethod
    def of(cls, pair: Pair) -> ProductKind:
        n, i = pair.left.shape
        return cls(n, i, pair.right.shape[1], pair.left_bits, pair.right_bits)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.n, self.i, self.c


@dataclass(frozen=True)
class InCoefficients:
    """Products of one shape.

    digits : into which left matrices are cut: they keep the noise, and with it the modulus, small
    turned : it is (R^T)(L^T) that is computed
    """

    parameters: Parameters
    digits: int
    turned: bool

    @property
    def price(self) -> float:
        p = self.parameters
        return cost.price(p.packing, p.M, p.N, p.count, p.travel_bits)


@dataclass(frozen=True)
class Batch:
    """pairs : which, by their numbers"""

    pairs: tuple[int, ...]
    layout: InCoefficients | SlotParameters
    input: bool

    @property
    def sent(self) -> int:
        """Bytes that a party sends."""
        return self._parameters.sent

    @property
    def seconds(self) -> float:
        """Of CPU."""
        return self._parameters.seconds

    @property
    def _parameters(self) -> Parameters | SlotParameters:
        return self.layout.parameters if isinstance(self.layout, InCoefficients) else self.layout


@lru_cache(maxsize=1024)
def in_coefficients(M: int, kind: ProductKind, count: int) -> InCoefficients:
    """The cheapest way to make so many products of one kind."""
    found = []
    for turned in (False, True):
        n, c, bits = (kind.c, kind.n, kind.right_bits) if turned else (kind.n, kind.c, kind.left_bits)
        for digits in range(1, MOST_DIGITS + 1):
            size = ceil(bits / digits) + (digits > 1)
            if Parameters.possible(digits * kind.i, RING, size):
                p = Parameters.choose(M=M, n=n, i=digits * kind.i, c=c, w=RING, bits=size, count=count)
                found.append(InCoefficients(p, digits, turned))
    return min(found, key=lambda choice: choice.price)


@lru_cache(maxsize=64)
def _cheapest(
    M: int, kinds: tuple[tuple[ProductKind, int], ...]
) -> tuple[frozenset[ProductKind], SlotParameters | None]:
    """Which kinds go into slots, and how: those for which coefficients cost most for each product of two numbers, as
    many of them as make the whole cheapest.
    """
    counts = dict(kinds)
    terms = {kind: kind.n * kind.i * kind.c * count for kind, count in kinds}
    few = sorted(kind for kind in counts if terms[kind] <= FEW)
    sure = few if len(few) >= SEVERAL else []
    prices = {kind: in_coefficients(M, kind, count).price for kind, count in kinds if kind not in sure}
    order = sure + sorted(prices, key=lambda kind: (-prices[kind] / terms[kind], kind))
    best: tuple[frozenset[ProductKind], SlotParameters | None] = frozenset(), None
    lowest = float("inf") if sure else sum(prices.values())
    for many in range(max(1, len(sure)), len(order) + 1):
        inside, outside = order[:many], order[many:]
        if sum(terms[kind] for kind in inside) > MOST_IN_SLOTS:
            break
        slots = _slots(M, tuple((kind, counts[kind]) for kind in inside))
        if slots is not None and slots.price + sum(prices[kind] for kind in outside) < lowest:
            best, lowest = (frozenset(inside), slots), slots.price + sum(prices[kind] for kind in outside)
    return best


def _slots(M: int, kinds: tuple[tuple[ProductKind, int], ...]) -> SlotParameters | None:
    shapes = [kind.shape for kind, count in sorted(kinds) for _ in range(count)]
    left, right = (max(getattr(kind, side) for kind, _ in kinds) for side in ("left_bits", "right_bits"))
    try:
        return SlotParameters.choose(M=M, shapes=shapes, w=RING, left_bits=left, right_bits=right)
    except StudyError:
        return None


def batches(M: int, pairs: Sequence[Pair]) -> list[Batch]:
    """What is made together; products with a party's own data apart from the others."""
    out = []
    for own in (False, True):
        groups: dict[ProductKind, list[int]] = {}
        for j, pair in enumerate(pairs):
            if pair.input is own:
                groups.setdefault(ProductKind.of(pair), []).append(j)
        counts = Counter({kind: len(group) for kind, group in groups.items()})
        inside, slots = _cheapest(M, tuple(sorted(counts.items())))
        for kind, group in groups.items():
            if kind not in inside:
                out.append(Batch(tuple(group), in_coefficients(M, kind, len(group)), own))
        if slots is not None:
            out.append(Batch(tuple(j for kind in sorted(inside) for j in groups[kind]), slots, own))
    return out
