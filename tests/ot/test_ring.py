"""Z_2^k on limbs against Python's integers and fractions."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import QuotaError
from pdml_spdz.numerics import ring

BITS = st.sampled_from([64, 128, 192, 256])
# Numbers with long runs of equal bits as well: these are where carries travel far.
NUMBER = st.one_of(
    st.integers(-(2**260), 2**260),
    st.tuples(st.integers(0, 260), st.integers(-2, 2)).map(lambda t: (1 << t[0]) + t[1]),
)
NUMBERS = st.lists(NUMBER, min_size=1, max_size=8)
FLOAT = st.floats(-(2.0**60), 2.0**60, allow_nan=False)


def two(values: list[int], bits: int) -> tuple[list[int], ring.Vector]:
    return [x % 2**bits for x in values], ring.from_ints(values, bits)


def signed(x: int, bits: int) -> int:
    return (x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


@given(NUMBERS, BITS)
def test_ints_round_trip(values: list[int], bits: int) -> None:
    expected, a = two(values, bits)
    assert a.shape == (len(values), bits // 64)
    assert ring.to_ints(a) == expected
    assert ring.to_ints(a, signed=True) == [signed(x, bits) for x in values]


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=8), BITS)
def test_add_sub_neg_match_integers(pairs: list[tuple[int, int]], bits: int) -> None:
    (xs, a), (ys, b) = (two([p[e] for p in pairs], bits) for e in (0, 1))
    assert ring.to_ints(ring.add(a, b)) == [(x + y) % 2**bits for x, y in zip(xs, ys, strict=True)]
    assert ring.to_ints(ring.sub(a, b)) == [(x - y) % 2**bits for x, y in zip(xs, ys, strict=True)]
    assert ring.to_ints(ring.neg(a)) == [-x % 2**bits for x in xs]


@given(NUMBERS, NUMBER, BITS)
def test_scale_matches_integers(values: list[int], c: int, bits: int) -> None:
    xs, a = two(values, bits)
    expected = [x * c % 2**bits for x in xs]
    assert ring.to_ints(ring.scale(a, c)) == expected


@given(NUMBERS, NUMBERS, BITS)
def test_combine_matches_integers(values: list[int], scalars: list[int], bits: int) -> None:
    xs, a = two(values, bits)
    terms = [([a, ring.scale(a, i)], c) for i, c in enumerate(scalars)] or [([a], 0)]
    expected = [sum(x * (i + 1) * c for i, c in enumerate(scalars)) % 2**bits for x in xs]
    assert ring.to_ints(ring.combine(terms)) == expected
    plus, moved = [a, ring.from_ints([7], bits)], [(e + x + 7) % 2**bits for e, x in zip(expected, xs, strict=True)]
    assert ring.to_ints(ring.combine(terms, plus)) == moved
    for t in (0, 17, 48, bits - 33):
        for width in (1, 33, 64):
            assert ring.combine_above(terms, plus, t, width).tolist() == [(z >> t) % 2**width for z in moved]


@given(NUMBERS, NUMBER, NUMBER, st.sampled_from([128, 160, 224]))
def test_numbers_as_they_travel_are_combined_as_they_are(values: list[int], c: int, e: int, bits: int) -> None:
    xs = [x % 2**bits for x in values]
    a = ring.from_ints([x + (1 << bits) for x in xs], bits)  # bits above, where there is room: they do not travel
    wire = ring.to_wire(a, bits)
    assert wire.nbytes == len(xs) * bits // 8
    received = ring.from_wire(wire.tobytes(), bits)
    assert ring.to_ints(received) == xs
    terms = [([received, received], c), ([a], e)]
    expected = [(2 * c + e + 1) * x % 2**bits for x in xs]
    assert [z % 2**bits for z in ring.to_ints(ring.combine(terms, [a]))] == expected
    assert ring.combine_above(terms, [a], 30, 50).tolist() == [(z >> 30) % 2**50 for z in expected]


@given(NUMBERS, NUMBER, BITS)
def test_one_row_broadcasts(values: list[int], c: int, bits: int) -> None:
    (xs, a), row = two(values, bits), ring.from_ints([c], bits)
    assert ring.to_ints(ring.add(a, row)) == [(x + c) % 2**bits for x in xs]
    assert ring.to_ints(ring.sub(row, a)) == [(c - x) % 2**bits for x in xs]


@given(NUMBERS, BITS, st.data())
def test_bits_are_cut_as_integers_are(values: list[int], bits: int, data: st.DataObject) -> None:
    xs, a = two(values, bits)
    t = data.draw(st.integers(1, bits))
    width = data.draw(st.integers(1, 64))
    assert ring.word_above(a, t - 1, width).tolist() == [(x >> t - 1) % 2**width for x in xs]
    raw = ring.pack(a, t).tobytes()
    assert len(raw) == len(xs) * -(-t // 8)
    assert ring.to_ints(ring.unpack(raw, len(xs), t)) == [x % 2**t for x in xs]


@given(st.integers(1, 190))
def test_random_numbers_stay_below_their_limit_and_reach_it(t: int) -> None:
    numbers = ring.to_ints(ring.random_below(64, t, 192))
    assert max(numbers).bit_length() <= t
    assert max(numbers).bit_length() > t - 20  # 64 numbers that all miss it: 2^-1280


@pytest.mark.parametrize("bits", [160, 224])
def test_bits_above_a_ring_of_half_limbs_do_not_matter(bits: int) -> None:
    """Z_2^160 is worked on in three limbs, Z_2^224 in four."""
    a, b = ring.random(5, bits), ring.random(5, bits)
    c = ring.to_ints(b)[0]
    other = a.copy()
    other[:, -1] ^= np.uint64(0xABCD << 32)
    results = [[ring.add(x, b), ring.sub(x, b), ring.scale(x, c), ring.scale(b, c % 2**bits)] for x in (a, other)]
    assert all(np.array_equal(ring.pack(x, bits), ring.pack(y, bits)) for x, y in zip(*results, strict=True))
    assert ring.to_ints(results[0][2])[1] % 2**bits == ring.to_ints(a)[1] * c % 2**bits


@given(st.lists(FLOAT, min_size=1, max_size=8), st.integers(0, 100), st.sampled_from([192, 224, 256]))
def test_from_float_is_exact_and_rounds_halves_to_even(x: list[float], f: int, bits: int) -> None:
    assert ring.to_ints(ring.from_float(x, f, bits), signed=True) == [round(Fraction(v) * 2**f) for v in x]


@given(st.lists(st.integers(-40, 40).map(lambda j: j / 2), min_size=1, max_size=9))
def test_from_float_rounds_ties_as_python_does(x: list[float]) -> None:
    assert ring.to_ints(ring.from_float(x, 0, 128), signed=True) == [round(v) for v in x]


@given(st.lists(st.tuples(NUMBER, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8), BITS)
def test_dot_is_the_exact_signed_sum(pairs: list[tuple[int, int]], bits: int) -> None:
    a, w = ring.from_ints([p[0] for p in pairs], bits), [p[1] for p in pairs]
    assert ring.dot(a, w) == sum(signed(x, bits) * y for x, y in pairs)
    assert (ring.dot(a, w) - sum(x * y for x, y in pairs)) % 2**bits == 0


def test_dot_is_exact_beyond_one_block_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "DOT_ROWS", 100)
    a, w = ring.random(1001, 192), np.full(1001, -(2**63))
    assert ring.dot(a, w) == sum(x * -(2**63) for x in ring.to_ints(a, signed=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**27, -(2.0**27), 1e300])
def test_from_float_refuses_what_does_not_fit(bad: float) -> None:
    with pytest.raises(QuotaError, match="not below 2\\^27"):
        ring.from_float([0.0, bad], 100, 128)


def test_from_float_takes_the_largest_that_fits() -> None:
    x = np.nextafter(2.0**27, 0)
    assert ring.to_ints(ring.from_float([x, -x], 100, 128), signed=True) == [int(x * 2**100), -int(x * 2**100)]


@pytest.mark.parametrize("bits", [0, -64, 100])
def test_ring_of_part_limbs_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="32-bit words"):
        ring.zeros(1, bits)


def test_random_is_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ring.to_ints(ring.random(1, 128)) != ring.to_ints(ring.random(1, 128))
    monkeypatch.setattr(ring.os, "urandom", bytes)  # a key that does not change: nothing else is random
    assert ring.to_ints(ring.random(1, 128)) == ring.to_ints(ring.random(1, 128))


def test_no_module_draws_from_a_seeded_generator() -> None:
    here = Path(ring.__file__).parent
    for path in [here / "ring.py", *(here / "ot").glob("*.py")]:
        text = path.read_text()
        assert "np.random" not in text
        assert "import random" not in text
