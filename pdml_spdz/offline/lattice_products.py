"""Products of masks by ring-LWE, many of one shape together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.lattice import cost
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.product import share_product
from pdml_spdz.numerics import ring
from pdml_spdz.offline.mask_products import Integers, Maker, Pair
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.transport.base import Link

MOST_DIGITS = 4
Progress = Callable[[str, int, int], None]  # what is made, and how much of how much


@lru_cache(maxsize=256)
def layout(M: int, n: int, i: int, c: int, bits: int, count: int) -> tuple[Parameters, int]:
    """The cheapest way to make so many products, and into how many digits the left matrices are cut: they keep the
    noise, and with it the modulus, small.
    """
    found = []
    for digits in range(1, MOST_DIGITS + 1):
        size = ceil(bits / digits) + (digits > 1)
        if Parameters.possible(digits * i, RING, size):
            p = Parameters.choose(M=M, n=n, i=digits * i, c=c, w=RING, bits=size, count=count)
            found.append((cost.price(p.packing, M, p.N, p.count, p.travel_bits), digits, p))
    _, digits, p = min(found, key=lambda choice: choice[0])
    return p, digits


def products_by_lattice(link: Link, progress: Progress = lambda what, done, of: None) -> Maker:
    """What makes the products of masks that a program on matrices takes.

    1. pairs of the same shape are made together; left matrices as [L_0 L_1 ..], right ones as [R; 2^b R; ..], for
       digits of b bits
    2. share_product

    Products with a party's own data are part of the run, the others of its offline phase.

    Reveals: nothing. Cost, Ref: those of `share_product`.
    """

    def make(pairs: Sequence[Pair]) -> list[Integers]:
        made: dict[int, Integers] = {}
        for group in groups(pairs):
            first = pairs[group[0]]
            if first.input:
                made |= dict(zip(group, _made(link, [pairs[j] for j in group], progress), strict=True))
                continue
            with link.offline():
                made |= dict(zip(group, _made(link, [pairs[j] for j in group], progress), strict=True))
        return [made[j] for j in range(len(pairs))]

    return make


def groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """The pairs of each shape, by their numbers."""
    found: dict[tuple[object, ...], list[int]] = {}
    for j, pair in enumerate(pairs):
        found.setdefault((pair.left.shape, pair.right.shape, pair.bits, pair.input), []).append(j)
    return list(found.values())


def _made(link: Link, pairs: Sequence[Pair], progress: Progress) -> list[Integers]:
    (n, i), c = pairs[0].left.shape, pairs[0].right.shape[1]
    p, digits = layout(link.M, n, i, c, pairs[0].bits, len(pairs))
    what = "products with the rows" if pairs[0].input else "products of masks"
    with link.clock("crypto"):
        left = np.stack([_limbs(_digits(pair.left, p.bits, digits), p.bits + 1) for pair in pairs])
        right = np.stack([_limbs(_shifted(pair.right, p.bits, digits), RING) for pair in pairs])
    S, R = (left[0], right[0]) if len(pairs) == 1 else (left, right)
    share = share_product(link, S, R, p, progress=lambda done, of: progress(what, done, of))
    with link.clock("crypto"):
        numbers = ring.to_ints(share.reshape(-1, share.shape[-1]))
        whole = np.array([*numbers, None], object)[:-1].reshape(len(pairs), n, c)
    return list(whole)


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
