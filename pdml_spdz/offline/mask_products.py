"""Masks drawn ahead, and shares of their products: what programs on secret matrices take from the phases before them.

A number is truncated by opening it under masks r_m of all parties; what is left of these masks afterwards, sum_m R_m,
hides the truncated number x wherever it goes: E = x - sum_m R_m is public. So the product of two matrices takes shares
of (sum_m L_m) (sum_l R_l), of masks that are known before there is any data, or of masks and a party's own input.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import EngineError
from pdml_spdz.programs.precision import SIGMA

Integers = NDArray[Any]  # Python integers, dtype object


@dataclass(frozen=True)
class Rounding:
    """n numbers below 2^bits in size, of which the lowest `shift` bits are dropped."""

    n: int
    bits: int
    shift: int

    @property
    def left_bits(self) -> int:
        """Of what is left of a mask."""
        return self.bits + SIGMA - self.shift


@dataclass(frozen=True, eq=False)
class MaskPlace:
    """A matrix of masks: which numbers of which rounding, or (source below zero) of which input."""

    source: int
    index: NDArray[np.int64]

    @property
    def name(self) -> tuple[int, tuple[int, ...], bytes]:
        return self.source, self.index.shape, self.index.tobytes()


@dataclass
class Segment:
    """The part of a program up to one of its outputs, as a dry run has found it."""

    roundings: list[Rounding] = field(default_factory=list)
    products: list[tuple[MaskPlace, MaskPlace]] = field(default_factory=list)

    def __add__(self, other: Segment) -> Segment:
        return Segment(self.roundings + other.roundings, self.products + other.products)

    @property
    def ahead(self) -> list[tuple[MaskPlace, MaskPlace]]:
        """The products that no input is in: they can be made before there is any data."""
        return [pair for pair in self.products if min(place.source for place in pair) >= 0]


@dataclass(frozen=True)
class SegmentMaterial:
    """One party's masks of a segment, and its shares of the products `Segment.ahead`: made ahead, and used once."""

    masks: list[Integers]
    shares: list[Integers]


@dataclass(frozen=True)
class Pair:
    """This party's addends of two matrices to be multiplied.

    left_bits, right_bits : their numbers have at most so many bits
    input : the left one is this party's data
    """

    left: Integers
    right: Integers
    left_bits: int
    right_bits: int
    input: bool = False


Maker = Callable[[Sequence[Pair]], list[Integers]]  # shares of (sum_m left_m) (sum_m right_m), for each pair


class MaskProducts:
    """One party's masks and products, made for one segment of its program after the other.

    dry : with masks of zero, which are good for counting only
    first : takes ownership of what was made ahead of the first segment

    1. party m draws its masks of all roundings of the segment
    2. the products of the segment are made together: those of the same left matrix side by side, those of the same
       right one below each other

    Reveals, Cost, Ref: those of the maker.
    """

    def __init__(
        self, segments: Sequence[Segment], make: Maker, *, dry: bool = False, first: SegmentMaterial | None = None
    ) -> None:
        self._segments, self._make, self._dry, self._first = iter(segments), make, dry, first
        self._masks: list[Integers] = []
        self._rounding: list[Rounding] = []
        self._inputs: list[tuple[Integers, int]] = []
        self._taken = 0
        self._products: list[Integers] = []

    def input(self, own: Integers, bits: int) -> None:
        """The next of this party's inputs, of at most so many bits; all of them come before the first product."""
        self._inputs.append((own, bits))

    def mask(self) -> Integers:
        """Of the next rounding."""
        if self._taken == len(self._masks):
            self._next_segment(draw=True)
        self._taken += 1
        return self._masks[self._taken - 1]

    def product(self) -> Integers:
        """The share of the next product."""
        if not self._products:
            self._next_segment(draw=False)
        return self._products.pop(0)

    def _next_segment(self, *, draw: bool) -> None:
        segment = next(self._segments, None)
        if segment is None or not (segment.roundings if draw else segment.products):
            raise EngineError("the program takes more masks or products than its dry run has found.")
        stored, self._first = self._first, None
        self._draw(segment, stored)
        known = {id(pair): share for pair, share in zip(segment.ahead, stored.shares, strict=True)} if stored else {}
        rest = [pair for pair in segment.products if id(pair) not in known]
        known |= {id(pair): share for pair, share in zip(rest, self._made(rest), strict=True)}
        self._products = [known[id(pair)] for pair in segment.products]

    def ahead(self) -> SegmentMaterial:
        """What the first segment takes that depends on no input, for a stock."""
        segment = next(self._segments)
        self._draw(segment, None)
        return SegmentMaterial(self._masks, self._made(segment.ahead))

    def _draw(self, segment: Segment, stored: SegmentMaterial | None) -> None:
        self._rounding += segment.roundings
        if stored:
            self._masks += stored.masks
            return
        for rounding in segment.roundings:
            zeros = np.zeros(rounding.n, object)
            self._masks.append(zeros if self._dry else random_integers(rounding.n, rounding.bits + SIGMA))

    def _made(self, products: Sequence[tuple[MaskPlace, MaskPlace]]) -> list[Integers]:
        shares: dict[int, Integers] = {}
        pairs, groups = [], _groups(products)
        for (left, right), *others in groups:
            side, stays = (1, 0) if others and others[0][0].name == left.name else (0, 1)
            parts = [self._numbers(pair[side]) for pair in [(left, right), *others]]
            moving, still = np.concatenate(parts, axis=side), self._numbers((left, right)[stays])
            L, R = (still, moving) if side else (moving, still)
            left_bits, right_bits = (max(self._bits(pair[k]) for pair in [(left, right), *others]) for k in (0, 1))
            pairs.append(Pair(L, R, left_bits, right_bits, left.source < 0))
        for group, share in zip(groups, self._make(pairs), strict=True):
            side = int(len(group) > 1 and group[1][0].name == group[0][0].name)
            sizes = [pair[side].index.shape[side] for pair in group]
            for (left, _), part in zip(group, np.split(share, np.cumsum(sizes)[:-1], axis=side), strict=True):
                shares[id(left)] = part
        return [shares[id(left)] for left, _ in products]

    def _bits(self, place: MaskPlace) -> int:
        return self._inputs[-1 - place.source][1] if place.source < 0 else self._rounding[place.source].left_bits

    def _numbers(self, place: MaskPlace) -> Integers:
        if place.source < 0:
            return self._inputs[-1 - place.source][0][place.index]
        return -(self._masks[place.source] >> self._rounding[place.source].shift)[place.index]


def _groups(products: Sequence[tuple[MaskPlace, MaskPlace]]) -> list[list[tuple[MaskPlace, MaskPlace]]]:
    """Products with a common factor, on the side where it has more of them."""
    names = [(left.name, right.name) for left, right in products]
    uses = [Counter(name[side] for name in names) for side in (0, 1)]
    groups: dict[object, list[tuple[MaskPlace, MaskPlace]]] = {}
    for pair, name in zip(products, names, strict=True):
        side = 0 if pair[0].source < 0 or uses[0][name[0]] > uses[1][name[1]] else 1
        groups.setdefault((side, name[side]), []).append(pair)
    return list(groups.values())


def random_integers(n: int, bits: int) -> Integers:
    """n uniform numbers below 2^bits, from the operating system's generator."""
    size = -(-bits // 8)
    raw, over = secrets.token_bytes(n * size), 8 * size - bits
    numbers = [int.from_bytes(raw[i : i + size], "little") >> over for i in range(0, n * size, size)]
    return np.array([*numbers, None], object)[:-1]  # None: an array of objects whatever their size
