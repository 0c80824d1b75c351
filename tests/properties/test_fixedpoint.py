"""Encoding: what goes in comes out, up to the stated tolerance, or is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.errors import QuotaError
from pdml_spdz.fixedpoint import EXACT_BITS, Format, decode_exact, encode_exact

finite = st.floats(allow_nan=False, allow_infinity=False)
bounds = st.floats(min_value=1e-30, max_value=1e30)


@given(bounds, st.integers(2, 30), st.data())
def test_sum_of_encoded_numbers_is_the_sum_within_tolerance(bound: float, M: int, data: st.DataObject) -> None:
    form = Format.for_bound(bound, M)
    xs = data.draw(st.lists(st.floats(-bound, bound), min_size=M, max_size=M))
    total = np.sum([form.encode(np.array([x])) for x in xs], axis=0, dtype=np.uint64)
    rounding = M * math.ulp(M * bound)  # of the float sum that we compare with, and of the decoded result
    assert abs(form.decode(total)[0] - math.fsum(xs)) <= form.tolerance + rounding


@given(bounds, st.integers(2, 30))
def test_numbers_up_to_the_bound_fit_and_use_the_bits(bound: float, M: int) -> None:
    form = Format.for_bound(bound, M)
    assert form.limit > bound
    assert form.limit <= 8 * bound  # no more than three bits of the 64 are wasted


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.0])
@pytest.mark.parametrize("M", [2, 3, 30])
def test_number_at_the_limit_is_refused(factor: float, M: int) -> None:
    form = Format.for_bound(10.0, M)
    with pytest.raises(QuotaError, match="nothing was sent"):
        form.encode(np.array([0.0, factor * form.limit]))


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite_is_refused(x: float) -> None:
    with pytest.raises(QuotaError):
        Format.for_bound(1.0, 2).encode(np.array([x]))
    with pytest.raises(QuotaError):
        encode_exact(x)


@given(st.lists(finite, min_size=1, max_size=30))
def test_exact_sum_is_the_correctly_rounded_sum(xs: list[float]) -> None:
    try:
        expected = math.fsum(xs)
    except OverflowError:
        return
    total = sum(encode_exact(x) for x in xs) % (1 << EXACT_BITS)
    assert decode_exact(total) == expected
