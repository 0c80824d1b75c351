"""SecSum is the sum, for any number of parties, with and without aggregator, and like the paper's plain variant."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, Format
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.primitives.masks import Keys, Masks
from pdml_spdz.primitives.sec_sum import HIGHEST, ClearSum, MaskedSum, positive_tolerance
from pdml_spdz.transport.base import HEADER, Link
from tests.threads import run_threads


def share_and_announce(link: Link, x: np.ndarray, form: Format) -> np.ndarray:
    """The twin, as printed: share every input with every party, add the shares received, announce the sum of shares."""
    z = form.encode(x)
    shares = {l: np.frombuffer(secrets.token_bytes(z.nbytes), np.uint64) for l in link.peers}
    own = z - sum(shares.values(), np.zeros_like(z))
    received = link.exchange("share", shares, link.each(z.nbytes))
    S_m = own + sum((np.frombuffer(v, np.uint64) for v in received.values()), np.zeros_like(z))
    announced = link.all_to_all("announce", S_m)
    total = S_m + sum((np.frombuffer(v, np.uint64) for v in announced.values()), np.zeros_like(z))
    return np.ldexp(total.view(np.int64).astype(np.float64), -form.f)


def masked(link: Link, aggregator: int | None = None) -> MaskedSum:
    return MaskedSum(link, Keys.agree(link, b"run"), aggregator=aggregator)


@pytest.mark.parametrize(("M", "aggregator"), [(2, None), (3, None), (5, None), (3, 1), (7, 0), (30, 0), (30, None)])
def test_sum_equals_pooled_sum(M: int, aggregator: int | None) -> None:
    xs = np.random.default_rng(M).normal(size=(M, 4, 5))
    outputs = run_threads(M, lambda link: masked(link, aggregator)(xs[link.me], 10.0, "test"))
    tolerance = Format.for_bound(10.0, M).tolerance + M * np.spacing(10.0 * M)
    assert tolerance <= M * 10.0 * 2.0**-OPENED_BITS
    for s in outputs:
        np.testing.assert_array_equal(s, outputs[0])
        assert np.abs(s - xs.sum(axis=0)).max() <= tolerance


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(-60, 60), st.integers(0, 11), st.integers(0, 2**32))
def test_a_small_sum_of_large_addends(M: int, exponent: int, larger: int, seed: int) -> None:
    """Addends wrap; they are multiples of the unit, so that only what is dropped may put the sum off."""
    rng, unit = np.random.default_rng(seed), 2.0**exponent
    wholes = rng.integers(-(2**50), 2**50, size=(M, 7)) << larger
    wholes[-1] = rng.integers(-(2**38), 2**38, size=7) - wholes[:-1].sum(axis=0)
    xs = np.ldexp(wholes.astype(np.float64), exponent)  # the last one is rounded, to 2^10 units at most
    total = [float(sum(Fraction(x) for x in column) / Fraction(unit)) for column in xs.T.tolist()]
    for found in run_threads(M, lambda link: masked(link).rest(xs[link.me], unit, "test")):
        assert np.abs(found / unit - total).max() <= 0.5 * M * (1 + 2.0**-15)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(1, 20), st.floats(1e-12, 1e12), st.integers(0, 2**32))
def test_sum_equals_share_and_announce(M: int, d: int, bound: float, seed: int) -> None:
    xs = np.random.default_rng(seed).uniform(-bound, bound, size=(M, d))
    form = Format.for_bound(bound, M)
    ours = run_threads(M, lambda link: masked(link)(xs[link.me], bound, "test"))
    twin = run_threads(M, lambda link: share_and_announce(link, xs[link.me], form))
    # The twin opens all bits: what is between the two is half a unit for each party's dropped bits, and float64's.
    assert np.abs(ours[0] - twin[0]).max() <= 0.5 * M * form.unit + np.spacing(M * bound)


def test_traffic_is_less_than_half_of_share_and_announce() -> None:
    M, d = 3, 1000
    form = Format.for_bound(1.0, M)

    def sent(link: Link, twin: bool) -> int:
        sec_sum = masked(link)
        before = sum(link.traffic.sent.values())
        if twin:
            share_and_announce(link, np.zeros(d), form)
        else:
            sec_sum(np.zeros(d), 1.0, "test")
        return sum(link.traffic.sent.values()) - before

    (ours, *_), (twin, *_) = run_threads(M, lambda l: sent(l, False)), run_threads(M, lambda l: sent(l, True))
    assert ours == (M - 1) * (6 * d + HEADER.size)
    assert twin == 2 * (M - 1) * (8 * d + HEADER.size)


def test_aggregator_costs_two_vectors_per_party() -> None:
    M, d = 7, 100

    def sent(link: Link) -> tuple[int, int]:
        sec_sum = masked(link, aggregator=0)
        before = sum(link.traffic.sent.values()), sum(link.traffic.received.values())
        sec_sum(np.zeros(d), 1.0, "test")
        return sum(link.traffic.sent.values()) - before[0], sum(link.traffic.received.values()) - before[1]

    frame = 6 * d + HEADER.size
    assert run_threads(M, sent)[1:] == [(frame, frame)] * (M - 1)


@pytest.mark.parametrize("bits", [128, 192, 512])
def test_wide_sum_equals_sum_of_integers(bits: int) -> None:
    zs = [[secrets.randbits(bits) for _ in range(5)] for _ in range(3)]
    outputs = run_threads(3, lambda link: masked(link).wide(zs[link.me], "test", bits))
    expected = [sum(column) % (1 << bits) for column in zip(*zs, strict=True)]
    assert outputs == [expected] * 3


def test_clear_sum_is_the_same_at_every_party() -> None:
    xs = np.random.default_rng(0).normal(size=(3, 50))
    outputs = run_threads(3, lambda link: ClearSum(link)(xs[link.me], 0.0, "test"))
    assert all(np.array_equal(s, outputs[0]) for s in outputs)
    np.testing.assert_allclose(outputs[0], xs.sum(axis=0), rtol=0, atol=3 * np.spacing(10.0))


def test_opened_bits_are_counted_from_the_bound() -> None:
    """Of a sum of ones the last place is 2^-44, whatever lies below; and the mean of many openings is not off."""
    M, n = 3, 4000
    xs = np.array([1.0 - 2.0**-30, -(2.0**-46), 2.0**-47])
    s = run_threads(M, lambda link: masked(link)(np.full(n, xs[link.me]), 1.0, "test"))[0]
    units = np.ldexp(s, OPENED_BITS)
    assert set(units % 1.0) == {0.5 * M % 1.0}
    assert set(units - np.ldexp(1.0 - 2.0**-30, OPENED_BITS)) == {-0.5, 0.5, -1.5}
    # Three uniform parts of a unit are off by at most 1.5 each; Hoeffding at 10^-9.
    assert abs(np.mean(units) - np.ldexp(xs.sum(), OPENED_BITS)) <= 1.5 * np.sqrt(2 * np.log(2e9) / n)


sizes = st.one_of(
    st.just(0.0), st.floats(0.0, 2.0**HIGHEST, exclude_max=True), st.integers(-1074, 999).map(lambda e: 2.0**e)
)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.sampled_from([20, OPENED_BITS]), st.data())
def test_positive_sums_of_any_size_are_exact_to_their_own_bits(M: int, bits: int, data: st.DataObject) -> None:
    """From the smallest number there is to 2^1000, side by side; a sum of zeros is zero."""
    n = data.draw(st.integers(1, 6))
    xs = np.array(data.draw(st.lists(st.lists(sizes, min_size=n, max_size=n), min_size=M, max_size=M)))
    outputs = run_threads(M, lambda link: masked(link).positive(xs[link.me], "test", bits))
    clear = run_threads(M, lambda link: ClearSum(link).positive(xs[link.me], "test", bits))
    for s in outputs:
        np.testing.assert_array_equal(s, outputs[0])
    for s, twin, column in zip(outputs[0], clear[0], xs.T, strict=True):
        exact = sum(map(Fraction, column))
        # Below 2^-1022 float64 has a last place that no number is finer than.
        assert abs(Fraction(s) - exact) <= exact * Fraction(positive_tolerance(M, bits)) + Fraction(2.0**-1074)
        assert abs(Fraction(twin) - exact) <= exact * Fraction(M * EPS)


@pytest.mark.parametrize(("size", "rounds"), [(0.0, 1), (3.0, 4), (1e4, 4), (1e9, 3), (1e15, 3), (1e19, 2)])
def test_usual_positive_sums_take_few_rounds(size: float, rounds: int) -> None:
    def party(link: Link) -> int:
        sec_sum, before = masked(link), link.traffic.rounds
        sec_sum.positive(np.array([size, 0.0]), "test")
        return link.traffic.rounds - before

    assert run_threads(3, party) == [rounds] * 3


@pytest.mark.parametrize("size", [1e-9, 1.0, 12345.678, 1e14])
def test_no_positive_sum_is_opened_finer_than_its_own_bits(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among larger and smaller ones, no sum is ever more than 2^20 of the units in which it is opened."""
    opened: dict[int, list[np.ndarray]] = {}

    def listening(self: MaskedSum, x: np.ndarray, form: Format, purpose: str) -> np.ndarray:
        opened.setdefault(self.link.me, []).append(x / form.unit)
        return reals(self, x, form, purpose)

    reals = MaskedSum._reals
    monkeypatch.setattr(MaskedSum, "_reals", listening)
    xs = np.array([[size, 1e3 * size, 1e-12], [size / 3, 1e-9, 1e18], [0.0, 0.0, 0.0]])
    run_threads(3, lambda link: masked(link).positive(xs[link.me], "test", 20))
    sums = [np.sum(level, axis=0) for level in zip(*opened.values(), strict=True)]
    assert len(sums) > 1
    assert all(np.all(s <= 2.0**20) for s in sums)
    assert max(s.max() for s in sums) >= 2.0**17  # and as fine as that allows


@pytest.mark.parametrize("x", [-1.0, np.nan, np.inf, 2.0**1000])
def test_positive_refuses_what_is_not_before_anything_is_sent(x: float) -> None:
    def party(link: Link) -> int:
        for sec_sum in (masked(link), ClearSum(link)):
            before = link.traffic.rounds
            with pytest.raises(QuotaError, match="it was not sent"):
                sec_sum.positive(np.array([1.0, x]), "test")
            assert link.traffic.rounds == before
        return 0

    run_threads(2, party)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-(2**61), 2**61), min_size=2, max_size=3))
def test_integers_are_added_exactly(ns: list[int]) -> None:
    M = len(ns)
    assert run_threads(M, lambda link: masked(link).integer(ns[link.me], "test")) == [sum(ns)] * M
    assert run_threads(M, lambda link: ClearSum(link).integer(link.me + 5, "test")) == [5 * M + M * (M - 1) // 2] * M


def test_integer_that_might_wrap_is_refused() -> None:
    with pytest.raises(QuotaError, match="it was not sent"):
        run_threads(2, lambda link: masked(link).integer(2**62, "test"))


@pytest.mark.parametrize("kind", [masked, ClearSum])
def test_flags_are_joined_by_or(kind: Callable[[Link], MaskedSum | ClearSum]) -> None:
    flags = np.array([[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]], bool)
    outputs = run_threads(3, lambda link: kind(link).anywhere(list(flags[link.me]), "test"))
    assert outputs == [[False, True, True, True]] * 3


def test_too_large_number_is_refused_before_anything_is_sent() -> None:
    def party(link: Link) -> int:
        sec_sum = masked(link)
        before = sum(link.traffic.sent.values())
        with pytest.raises(QuotaError, match="it was not sent"):
            sec_sum(np.full(3, 1e9), 1.0, "test")
        return sum(link.traffic.sent.values()) - before

    assert run_threads(2, party) == [0, 0]


def test_vectors_of_different_length_are_an_error() -> None:
    with pytest.raises(ProtocolError, match=r"vectors of the same length|at most 18 bytes in this step"):
        run_threads(2, lambda link: masked(link)(np.zeros(3 + link.me), 1.0, "test"))


def test_parties_at_different_steps_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="is at step 'sum:"):
        run_threads(2, lambda link: masked(link)(np.zeros(3), 1.0, f"purpose-{link.me}"))


@given(st.integers(0, 2**40), st.integers(1, 9))
def test_masks_of_scalars_are_those_of_vectors(call: int, n: int) -> None:
    masks = Masks(Keys({1: bytes(32), 2: b"a" * 32}, {1: b"b" * 32, 2: b"c" * 32}, b"run"))
    assert masks.wide("test", call, n, bytes(32), 64) == masks.words("test", call, n, bytes(32)).tolist()
