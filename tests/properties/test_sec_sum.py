"""SecSum is the sum, for any number of parties, with and without aggregator, and like the paper's plain variant."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.errors import ProtocolError, QuotaError
from pdml_spdz.fixedpoint import Format
from pdml_spdz.primitives.masks import Keys, Masks
from pdml_spdz.primitives.sec_sum import ClearSum, MaskedSum
from pdml_spdz.transport.base import HEADER, Link
from tests.threads import run_threads


def share_and_announce(link: Link, x: np.ndarray, form: Format) -> np.ndarray:
    """The twin, as printed: share every input with every party, add the shares received, announce the sum of shares."""
    z = form.encode(x)
    shares = {l: np.frombuffer(secrets.token_bytes(z.nbytes), np.uint64) for l in link.peers}
    own = z - sum(shares.values(), np.zeros_like(z))
    received = link.exchange("share", shares, link.peers)
    S_m = own + sum((np.frombuffer(v, np.uint64) for v in received.values()), np.zeros_like(z))
    announced = link.all_to_all("announce", S_m)
    return form.decode(S_m + sum((np.frombuffer(v, np.uint64) for v in announced.values()), np.zeros_like(z)))


def masked(link: Link, aggregator: int | None = None) -> MaskedSum:
    return MaskedSum(link, Keys.agree(link, b"run"), aggregator=aggregator)


@pytest.mark.parametrize(("M", "aggregator"), [(2, None), (3, None), (5, None), (3, 1), (7, 0), (30, 0), (30, None)])
def test_sum_equals_pooled_sum(M: int, aggregator: int | None) -> None:
    xs = np.random.default_rng(M).normal(size=(M, 4, 5))
    outputs = run_threads(M, lambda link: masked(link, aggregator)(xs[link.me], 10.0, "test"))
    tolerance = Format.for_bound(10.0, M).tolerance + M * np.spacing(10.0 * M)
    for s in outputs:
        np.testing.assert_array_equal(s, outputs[0])
        assert np.abs(s - xs.sum(axis=0)).max() <= tolerance


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(1, 20), st.floats(1e-12, 1e12), st.integers(0, 2**32))
def test_sum_equals_share_and_announce(M: int, d: int, bound: float, seed: int) -> None:
    xs = np.random.default_rng(seed).uniform(-bound, bound, size=(M, d))
    form = Format.for_bound(bound, M)
    ours = run_threads(M, lambda link: masked(link)(xs[link.me], bound, "test"))
    twin = run_threads(M, lambda link: share_and_announce(link, xs[link.me], form))
    np.testing.assert_array_equal(ours[0], twin[0])


def test_traffic_is_half_of_share_and_announce() -> None:
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
    assert ours == (M - 1) * (8 * d + HEADER.size)
    assert twin == 2 * ours


def test_aggregator_costs_two_vectors_per_party() -> None:
    M, d = 8, 100

    def sent(link: Link) -> tuple[int, int]:
        sec_sum = masked(link, aggregator=0)
        before = sum(link.traffic.sent.values()), sum(link.traffic.received.values())
        sec_sum(np.zeros(d), 1.0, "test")
        return sum(link.traffic.sent.values()) - before[0], sum(link.traffic.received.values()) - before[1]

    frame = 8 * d + HEADER.size
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


def test_too_large_number_is_refused_before_anything_is_sent() -> None:
    def party(link: Link) -> int:
        sec_sum = masked(link)
        before = sum(link.traffic.sent.values())
        with pytest.raises(QuotaError, match="nothing was sent"):
            sec_sum(np.full(3, 1e9), 1.0, "test")
        return sum(link.traffic.sent.values()) - before

    assert run_threads(2, party) == [0, 0]


def test_vectors_of_different_length_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="vectors of the same length"):
        run_threads(2, lambda link: masked(link)(np.zeros(3 + link.me), 1.0, "test"))


def test_parties_at_different_steps_are_an_error() -> None:
    with pytest.raises(ProtocolError, match="is at step 'sum:"):
        run_threads(2, lambda link: masked(link)(np.zeros(3), 1.0, f"purpose-{link.me}"))


@given(st.integers(0, 2**40), st.integers(1, 9))
def test_masks_of_scalars_are_those_of_vectors(call: int, n: int) -> None:
    masks = Masks(Keys({1: bytes(32), 2: b"a" * 32}, {1: b"b" * 32, 2: b"c" * 32}, b"run"))
    assert masks.wide("test", call, n, 64) == masks.words("test", call, n).tolist()
