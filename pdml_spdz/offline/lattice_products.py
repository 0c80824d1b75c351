"""Products of masks by ring-LWE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice.product import share_product
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.lattice.slots import share_slot_products
from pdml_spdz.numerics import ring
from pdml_spdz.offline.mask_products import Integers, Maker, Pair
from pdml_spdz.offline.product_layout import InCoefficients, batches
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.transport.base import Link

WITH_ROWS, OF_MASKS = "products with the rows", "products of masks"
Progress = Callable[[str, int, int], None]  # what is made, and how much of how much


def products_by_lattice(link: Link, progress: Progress = lambda what, done, of: None) -> Maker:
    """What makes the products of masks that a program on matrices takes.

    1. pairs are divided between coefficients and slots, as costs least (`product_layout`)
    2. in coefficients, of one shape: left matrices as [L_0 L_1 ..], right ones as [R; 2^b R; ..], for digits of b bits;
       share_product
    3. in slots, of all shapes: share_slot_products

    Products with a party's own data are part of the run, the others of its offline phase.

    Reveals: nothing. Cost, Ref: those of `share_product` and `share_slot_products`.
    """

    def make(pairs: Sequence[Pair]) -> list[Integers]:
        made: dict[int, Integers] = {}
        for batch in batches(link.M, pairs):
            some = [pairs[j] for j in batch.pairs]
            what = WITH_ROWS if batch.input else OF_MASKS

            def step(done: int, of: int, what: str = what) -> None:
                progress(what, done, of)

            with nullcontext() if batch.input else link.offline(), link.phase(what):
                if isinstance(batch.layout, InCoefficients):
                    shares = _in_coefficients(link, some, batch.layout, step)
                else:
                    shares = _in_slots(link, some, batch.layout, step)
            made |= dict(zip(batch.pairs, shares, strict=True))
        return [made[j] for j in range(len(pairs))]

    return make


def _in_coefficients(
    link: Link, pairs: Sequence[Pair], layout: InCoefficients, progress: Callable[[int, int], None]
) -> list[Integers]:
    p, digits = layout.parameters, layout.digits
    with link.clock("crypto"):
        sides = [(pair.right.T, pair.left.T) if layout.turned else (pair.left, pair.right) for pair in pairs]
        left = np.stack([_limbs(_digits(side, p.bits, digits), p.bits + 1) for side, _ in sides])
        right = np.stack([_limbs(_shifted(side, p.bits, digits), RING) for _, side in sides])
    S, R = (left[0], right[0]) if len(pairs) == 1 else (left, right)
    share = share_product(link, S, R, p, progress=progress)
    with link.clock("crypto"):
        whole = _integers(share.reshape(-1, share.shape[-1])).reshape(len(pairs), p.packing.n, p.packing.c)
    return [each.T for each in whole] if layout.turned else list(whole)


def _in_slots(
    link: Link, pairs: Sequence[Pair], p: SlotParameters, progress: Callable[[int, int], None]
) -> list[Integers]:
    with link.clock("crypto"):
        left = _limbs(np.concatenate([pair.left.reshape(-1) for pair in pairs]), p.left_bits + 1)
        right = _limbs(np.concatenate([pair.right.reshape(-1) for pair in pairs]), p.right_bits + 1)
    shares = share_slot_products(link, left, right, p, progress=progress)
    with link.clock("crypto"):
        sizes = [n * c for n, _, c in p.packing.shapes]
        parts = np.split(_integers(shares), np.cumsum(sizes)[:-1])
        return [part.reshape(n, c) for part, (n, _, c) in zip(parts, p.packing.shapes, strict=True)]


def _integers(numbers: ring.Vector) -> Integers:
    return np.array([*ring.to_ints(numbers), None], object)[:-1]


def _digits(left: Integers, bits: int, count: int) -> Integers:
    """[L_0 L_1 ..]: digits of `bits` - 1 bits, the highest with the sign; one digit is the number itself."""
    if count == 1:
        return left
    size = bits - 1
    low = [(left >> size * k) % (1 << size) for k in range(count - 1)]
    return np.concatenate([*low, left >> size * (count - 1)], axis=1)


def _shifted(right: Integers, bits: int, count: int) -> Integers:
    return np.concatenate([right << (bits - 1) * k for k in range(count)], axis=0)


def _limbs(a: Integers, bits: int) -> NDArray[np.uint64]:
    wide = 64 * ceil(bits / 64)
    return ring.from_ints(a.reshape(-1), wide).reshape(*a.shape, -1)
