"""Products in slots: shares add up to (sum L_m)(sum R_l) exactly, for any mixture of shapes and sizes of numbers; what
does not fit is refused, here and from a peer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import log2
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pdml_spdz.errors import MismatchError, PdmlError, ProtocolError, QuotaError, StudyError
from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.encryption import to_bytes
from pdml_spdz.lattice.product import ENCRYPTED, KEYS, RETURNED
from pdml_spdz.lattice.residues import converted, divided, modulus, rescaled
from pdml_spdz.lattice.ring_parameters import FLOODING
from pdml_spdz.lattice.security_tables import longest_modulus
from pdml_spdz.lattice.slot_encryption import SlotHolder
from pdml_spdz.lattice.slot_packing import Shape, SlotPacking
from pdml_spdz.lattice.slot_parameters import MASKED, InsecureSlotParameters, SlotParameters
from pdml_spdz.lattice.slots import holds, share_slot_products
from pdml_spdz.numerics import ring
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.lattice.one_pair import centred, whole
from tests.lattice.parties import integers, numbers
from tests.lattice.test_hostile_peer import sends
from tests.transport import meshes
from tests.transport.meshes import Outcome

Matrices = list[NDArray[Any]]  # of one party, integers of Python


def drawn(rng: np.random.Generator, shape: tuple[int, int], bits: int, kind: str) -> NDArray[Any]:
    most = (1 << bits) - 1
    if kind == "uniform":
        values = [int.from_bytes(rng.bytes(64), "little") % (2 * most + 1) - most for _ in range(np.prod(shape))]
        return np.array([*values, None], object)[:-1].reshape(shape)
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


@settings(max_examples=12, deadline=None)
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


@settings(max_examples=10, deadline=None)
@given(
    shapes=st.lists(st.tuples(*3 * [st.integers(1, 40)]), min_size=1, max_size=300),
    bits=st.tuples(st.integers(8, 190), st.integers(8, 190)),
)
def test_a_chosen_set_adds_up_and_is_secure(shapes: list[Shape], bits: tuple[int, int]) -> None:
    p = SlotParameters.choose(M=3, shapes=shapes, w=256, left_bits=bits[0], right_bits=bits[1])
    assert all(used <= room for _, used, room, _ in p.budget())
    assert log2(p.q) <= longest_modulus(p.N)
    assert not set(p.primes) & set(p.plain)
    assert p.noise <= 2.0 ** (p.flooding_bits + 1 - FLOODING)
    assert p.noise >= 2 * p.packing.depth * p.N * (p.t // 2) * 29
    assert p.largest << MASKED <= 1 << p.mask_bits + 1
    assert 2 * (p.largest + (1 << p.mask_bits)) < p.T
    assert p.mask_bits + 1 - p.w >= 64
    travel = modulus(p.travel)
    worst = (p.noise + 2**p.flooding_bits) * travel / p.q + (p.N + 1) * 0.51
    assert worst < travel / (2 * p.t)


def test_one_prime_too_few_is_refused_and_decrypts_wrongly_when_forced() -> None:
    p = SlotParameters.choose(M=2, shapes=[(1, 1, 100)], w=256, left_bits=100, right_bits=100)
    with pytest.raises(StudyError, match="noise budget does not add up"):
        dataclasses.replace(p, count=p.count - 1)
    with pytest.raises(StudyError, match="less than 128 bits of security"):
        dataclasses.replace(p, N=8192, count=9)

    class Forced(SlotParameters):
        flooding_bits = p.flooding_bits  # type: ignore[assignment]

        def __post_init__(self) -> None: ...

    fields = {f.name: getattr(p, f.name) for f in dataclasses.fields(p)}
    one = [[np.ones((1, 100), object)]] * 2
    ones = [[np.ones((1, 1), object)]] * 2
    assert_products([(1, 1, 100)], ones, one, Forced(**fields), mesh(2))
    with pytest.raises(AssertionError):
        assert_products([(1, 1, 100)], ones, one, Forced(**fields | {"count": p.count - 1}), mesh(2))


def test_slots_explain_themselves() -> None:
    p = SlotParameters.choose(M=3, shapes=[(3, 2, 2)] * 500, w=256, left_bits=162, right_bits=166)
    text = p.explain()
    for line in (f"{500 * 12} of two numbers", f"log2 q = {log2(p.q):.1f}", "2018", "2024", "masks", "flooding", "MB"):
        assert line in text
    assert p.digest != dataclasses.replace(p, left_bits=161).digest


@settings(max_examples=30, deadline=None)
@given(first=st.integers(1, 12), others=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_conversions_are_those_of_integers(first: int, others: int, seed: int) -> None:
    rng, primes = np.random.default_rng(seed), ntt.primes(256, first + others)
    one, two = primes[:first], primes[first:]
    x = np.stack([rng.integers(-(p // 2), p // 2 + 1, 50).astype(np.float64) for p in primes])
    Q, Q2 = modulus(one), modulus(two)
    assert np.array_equal(whole(converted(x[:first], one, two), two), centred(whole(x[:first], one), Q2))
    total = whole(x, primes)
    assert np.array_equal(whole(divided(x, one, two), two), centred((2 * total + Q) // (2 * Q), Q2))
    scaled = (2 * whole(x[:first], one) * Q2 + Q) // (2 * Q)
    assert np.array_equal(whole(rescaled(x[:first], one, two), two), centred(scaled, Q2))


@pytest.mark.parametrize("M", [2, 3, 4, 5, 30])
def test_of_each_two_parties_one_holds_the_key_and_all_do_as_often(M: int) -> None:
    for unit in (0, 1):
        assert all(holds(a, b, unit, M) is not holds(b, a, unit, M) for a in range(M) for b in range(a))
    often = [sum(holds(a, b, unit, M) for unit in (0, 1) for b in range(M) if b != a) for a in range(M)]
    assert often == [M - 1] * M


SMALL = InsecureSlotParameters.choose(M=2, shapes=[(2, 2, 2)], w=64, left_bits=20, right_bits=20)
OTHER = dataclasses.replace(SMALL, left_bits=21)
FOUR = ring.from_ints([765432] * 4, 64)


def test_what_does_not_fit_is_refused_before_anything_is_sent() -> None:
    links = mesh(2, timeout=5.0)
    for left, error, words in (
        (ring.from_ints([1 << 20] * 4, 64), QuotaError, r"left number is not below 2\^20"),
        (FOUR[:3], StudyError, "4 numbers"),
    ):
        with pytest.raises(error, match=words):
            share_slot_products(links[0], left, FOUR, SMALL)
    with pytest.raises(StudyError, match="parameters for 2 parties"):
        share_slot_products(mesh(3)[0], FOUR, FOUR, SMALL)
    with pytest.raises(StudyError, match="no matrices"):
        SlotParameters.choose(M=2, shapes=[], w=64, left_bits=20, right_bits=20)
    assert links[0].traffic.sent == {}


def keys(p: SlotParameters = SMALL) -> bytes:
    holder = SlotHolder(p)
    return p.digest + holder.seed + to_bytes(holder.public.p0, p.primes).tobytes()


def ciphertexts(p: SlotParameters = SMALL) -> bytes:
    one = SlotHolder(p).encrypt(np.zeros((len(p.parts[0]), p.N)), 0, 1)
    return one.tobytes() * (2 * p.depths[0] * p.groups)


ANSWER = 2 * SMALL.groups * len(SMALL.travel) * SMALL.N * ntt.PRIME_BITS // 8


@pytest.mark.parametrize(
    ("honest", "messages", "error", "words"),
    [
        (0, [(KEYS, keys(OTHER))], MismatchError, "has other parameters"),
        (0, [(KEYS, keys()[:-1])], ProtocolError, "has a message of"),
        (0, [(KEYS, keys()), (ENCRYPTED, None), (RETURNED, b"abc")], ProtocolError, "has a message of"),
        (0, [(KEYS, keys()), (ENCRYPTED, None), (RETURNED, b"\xff" * ANSWER)], ProtocolError, "sent a coefficient"),
        (1, [(KEYS, keys()), (ENCRYPTED, ciphertexts()[:-1])], ProtocolError, "has a message of"),
        (1, [(KEYS, keys()), (ENCRYPTED, b"\xff" * len(ciphertexts()))], ProtocolError, "sent a coefficient"),
        (1, [(KEYS, keys()), (RETURNED, b"")], ProtocolError, "is at step"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_an_error_that_names_its_sender(
    honest: int, messages: list[tuple[str, bytes | None]], error: type[PdmlError], words: str
) -> None:
    links = mesh(2, timeout=10.0)
    peer = Outcome(sends(*messages, to=honest), links[1 - honest])
    ended = Outcome(lambda link: share_slot_products(link, FOUR, FOUR, SMALL), links[honest]).end()
    assert isinstance(ended.error, error), ended.error
    assert f"P{1 - honest} {words}" in str(ended.error)
    assert "765432" not in str(ended.error)
    assert ended.error.culprit == 1 - honest
    peer.end()
    if honest == 1:  # what would depend on its numbers has not left
        assert links[1].traffic.sent.get(0, 0) < len(keys()) + 200
