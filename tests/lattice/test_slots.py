"""Products in slots: shares add up to (sum L_m)(sum R_l) exactly, for any mixture of shapes and sizes of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdml_spdz.lattice.slot_packing import Shape, SlotPacking
from pdml_spdz.lattice.slot_parameters import InsecureSlotParameters, SlotParameters
from pdml_spdz.lattice.slots import share_slot_products
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.lattice.parties import integers, numbers
from tests.transport import meshes

Matrices = list[NDArray[Any]]  # of one party, integers of Python


def drawn(rng: np.random.Generator, shape: tuple[int, int], bits: int, kind: str) -> NDArray[Any]:
    most = (1 << bits) - 1
    if kind == "uniform":
        return np.array(
            [int.from_bytes(rng.bytes(64), "little") % (2 * most + 1) - most for _ in range(np.prod(shape))]
        )[:].reshape(shape)
    choices = {"largest": [most], "smallest": [-most], "mixed": [-most, -1, 0, 1, most], "zero": [0]}[kind]
    return np.array([choices[k] for k in rng.integers(len(choices), size=np.prod(shape))], object).reshape(shape)


def flat(matrices: Matrices, bits: int) -> ring.Vector:
    wide = 64 * (bits // 64 + 1)
    return np.concatenate([numbers(a, wide).reshape(-1, wide // 64) for a in matrices])


def assert_products(
    shapes: Sequence[Shape], left: list[Matrices], right: list[Matrices], p: SlotParameters, links: list[Link]
) -> None:
    def party(link: Link) -> ring.Vector:
        own = flat(left[link.me], p.left_bits), flat(right[link.me], p.right_bits)
        return share_slot_products(link, *own, p)

    found = sum(integers(share) for share in between_threads(p.M, party, links))
    wanted = [
        sum(a).dot(sum(b)).reshape(-1) for a, b in zip(zip(*left, strict=True), zip(*right, strict=True), strict=True)
    ]
    assert not np.any((found - np.concatenate(wanted)) % (1 << p.w))


@settings(max_examples=25, deadline=None)
@given(
    M=st.sampled_from((2, 3, 4, 5)),
    shapes=st.lists(st.tuples(*3 * [st.integers(1, 9)]), min_size=1, max_size=12),
    w=st.sampled_from((32, 64, 192, 256)),
    bits=st.tuples(st.integers(1, 180), st.integers(1, 180)),
    kinds=st.tuples(*2 * [st.sampled_from(("uniform", "largest", "smallest", "mixed", "zero"))]),
    deepest=st.integers(1, 9),
    seed=st.integers(0, 2**32),
)
def test_shares_add_up_to_the_products(M, shapes, w, bits, kinds, deepest, seed) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    p = InsecureSlotParameters.choose(M=M, shapes=shapes, w=w, left_bits=bits[0], right_bits=bits[1])
    p = dataclasses.replace(p, packing=SlotPacking(tuple(shapes), min(deepest, p.packing.depth)))
    left = [[drawn(rng, (n, i), bits[0], kinds[0]) for n, i, _ in shapes] for _ in range(M)]
    right = [[drawn(rng, (i, c), bits[1], kinds[1]) for _, i, c in shapes] for _ in range(M)]
    assert_products(shapes, left, right, p, mesh(M, timeout=60.0))


def test_secure_parameters_are_exact_too_over_tls() -> None:
    rng, shapes = np.random.default_rng(11), [(3, 2, 2), (1, 1, 1), (4, 4, 14), (42, 1, 9)] * 3
    p = SlotParameters.choose(M=3, shapes=shapes, w=256, left_bits=162, right_bits=186)
    left = [[drawn(rng, (n, i), 162, "smallest" if m else "uniform") for n, i, _ in shapes] for m in range(3)]
    right = [[drawn(rng, (i, c), 186, "largest" if m else "uniform") for _, i, c in shapes] for m in range(3)]
    links = meshes.mesh(3)
    assert_products(shapes, left, right, p, links)
    assert sum(links[0].traffic.sent.values()) == pytest.approx(p.sent, rel=1e-3)
