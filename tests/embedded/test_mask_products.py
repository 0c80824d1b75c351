"""Products of masks by ring-LWE: divided between coefficients and slots by cost, and right in either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdml_spdz.lattice.parameters import InsecureParameters
from pdml_spdz.lattice.slot_parameters import SlotParameters
from pdml_spdz.offline import lattice_products
from pdml_spdz.offline.lattice_products import products_by_lattice
from pdml_spdz.offline.mask_products import Integers, Pair, random_integers
from pdml_spdz.offline.product_layout import InCoefficients, ProductKind, batches, in_coefficients
from pdml_spdz.programs.sealed_precision import RING
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh


def pair(n: int, i: int, c: int, left_bits: int = 162, right_bits: int = 166, *, own: bool = False) -> Pair:
    left, right = random_integers(n * i, left_bits), -random_integers(i * c, right_bits)
    return Pair(left.reshape(n, i), right.reshape(i, c), left_bits, right_bits, own)


def assert_products(pairs: list[list[Pair]], shares: list[list[Integers]]) -> None:
    for j, each in enumerate(zip(*pairs, strict=True)):
        wanted: Any = sum(p.left for p in each).dot(sum(p.right for p in each))
        assert not np.any((sum(share[j] for share in shares) - wanted) % (1 << RING))


def test_all_products_are_right_whatever_their_shapes() -> None:
    shapes = [(3, 1, 1), (12, 4, 4), (1, 2, 30), (3, 1, 1)]
    pairs = [[*(pair(*shape) for shape in shapes), pair(2, 3, 2, 61, own=True)] for _ in range(2)]
    links = mesh(2, timeout=60.0)
    made = between_threads(2, lambda link: products_by_lattice(link)(pairs[link.me]), links)
    assert_products(pairs, made)
    offline, online = (sum(t.sent.values()) for t in (links[0].offline_traffic, links[0].traffic))
    forecast = {own: sum(b.sent for b in batches(2, pairs[0]) if b.input is own) for own in (False, True)}
    both = [sum(sum(t.sent.values()) for t in (link.offline_traffic, link.traffic)) for link in links]
    assert sum(both) == pytest.approx(2 * sum(forecast.values()), rel=0.01)
    assert offline > 0 < online


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("digits", [1, 3])
def test_a_product_may_be_computed_from_its_other_side(turned: bool, digits: int) -> None:
    pairs = [[pair(1, 2, 40, 30, 33)] for _ in range(2)]
    size = (30, 33)[turned] // digits + 2
    n, c = (40, 1) if turned else (1, 40)
    p = InsecureParameters.choose(M=2, n=n, i=2 * digits, c=c, w=RING, bits=size)
    layout = InCoefficients(p, digits, turned)

    def party(link: Link) -> list[Integers]:
        return lattice_products._in_coefficients(link, pairs[link.me], layout, lambda done, of: None)

    assert_products(pairs, between_threads(2, party, mesh(2)))


def test_small_products_go_into_slots_together_and_large_ones_do_not() -> None:
    small = [pair(*shape) for shape in [(3, 1, 1), (6, 2, 2), (12, 4, 4), (4, 4, 14), (1, 1, 1)] * 40]
    large = pair(64, 64, 504, 61, 154, own=True)
    vector = pair(1, 1, 33152, 166, 186)
    found = batches(3, [*small, large, vector])
    slots = [batch for batch in found if isinstance(batch.layout, SlotParameters)]
    assert [len(batch.pairs) for batch in slots] == [len(small)]
    assert sorted(j for batch in found for j in batch.pairs) == list(range(len(small) + 2))
    apart = {ProductKind.of(p) for p in small}
    alone = sum(in_coefficients(3, kind, 40).parameters.sent for kind in apart)
    assert slots[0].sent < alone / 4
    (scaled,) = [batch.layout for batch in found if batch.pairs == (len(small) + 1,)]
    assert isinstance(scaled, InCoefficients)
    assert scaled.turned
