"""Encoding: what goes in comes out, up to the stated tolerance, or is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import QuotaError
from pdml_spdz.numerics.fixedpoint import OPENED_BITS, WORD, Format

bounds = st.floats(min_value=1e-30, max_value=1e30)


@given(bounds, st.integers(2, 30), st.integers(8, OPENED_BITS), st.data())
def test_sum_of_opened_numbers_is_the_sum_within_tolerance(
    bound: float, M: int, bits: int, data: st.DataObject
) -> None:
    """Whatever the masks are, all of them that cancel: up to the bound the sum does not wrap either."""
    form = Format.for_bound(bound, M, bits)
    xs = data.draw(
        st.lists(st.one_of(st.floats(-bound, bound), st.sampled_from([-bound, bound])), min_size=M, max_size=M)
    )
    masks = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=M - 1, max_size=M - 1))
    masks.append(-sum(masks) % 2**64)
    encoded = [int(form.encode(np.array([x]))[0]) for x in xs]
    opened = sum((z + mask) % 2**64 >> form.drop for z, mask in zip(encoded, masks, strict=True))
    total = form.decode(np.array([opened % (1 << WORD - form.drop)], np.uint64))[0]
    rounding = M * math.ulp(M * bound)  # of the float sum that we compare with, and of the decoded result
    assert abs(total - math.fsum(xs)) <= form.tolerance + rounding


@given(bounds, st.integers(2, 30), st.integers(8, OPENED_BITS))
def test_numbers_up_to_the_bound_fit_and_show_so_many_bits(bound: float, M: int, bits: int) -> None:
    form = Format.for_bound(bound, M, bits)
    assert form.limit > bound
    assert form.limit <= 4 * bound  # no more than two bits of the 64 are wasted
    assert 1.0 <= math.ldexp(form.unit, bits) / bound < 2.0
    assert form.tolerance <= 0.51 * M * form.unit


@pytest.mark.parametrize(("M", "size"), [(2, 6), (3, 6), (7, 6), (8, 7), (30, 7)])
def test_a_number_travels_in_six_bytes_up_to_seven_parties(M: int, size: int) -> None:
    assert -(-(WORD - Format.for_bound(1.0, M).drop) // 8) == size


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.0])
@pytest.mark.parametrize("M", [2, 3, 30])
def test_number_at_the_limit_is_refused(factor: float, M: int) -> None:
    form = Format.for_bound(10.0, M)
    with pytest.raises(QuotaError, match="it was not sent"):
        form.encode(np.array([0.0, factor * form.limit]))


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite_is_refused(x: float) -> None:
    with pytest.raises(QuotaError):
        Format.for_bound(1.0, 2).encode(np.array([x]))
