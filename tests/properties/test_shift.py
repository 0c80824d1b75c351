"""What is taken off rows, against exact numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.numerics.shift import Shift

NUMBERS = st.floats(-1e30, 1e30, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-30)


@given(st.lists(NUMBERS, min_size=1, max_size=4), st.integers(-1000, 1000))
def test_rows_near_what_is_taken_off_keep_all_their_digits(parts: list[float], steps: int) -> None:
    shift = Shift.of(np.array(parts[:1]))
    for part in parts[1:]:
        shift = shift.plus(np.array([part]))
    exact = sum(map(Fraction, parts))
    kept = Fraction(float(shift.high[0])) + Fraction(float(shift.low[0]))
    # low adds up what each sum has lost, at most half a unit of its last place.
    assert abs(kept - exact) <= len(parts) ** 2 * Fraction(EPS) ** 2 * sum(abs(Fraction(part)) for part in parts)
    x = float(shift.high[0] + steps * np.spacing(shift.high[0]))
    found = float(shift.off(np.array([x]))[0])
    assert abs(Fraction(found) - (Fraction(x) - kept)) <= Fraction(EPS) * abs(Fraction(x) - kept)


def test_columns_are_chosen_and_bytes_tell_both_parts() -> None:
    shift = Shift.of(np.array([1e8, 2.0, 3.0])).plus(np.array([0.1, 0.0, 1e-20]))
    chosen = shift[[2, 0]]
    np.testing.assert_array_equal(chosen.high, [3.0, 1e8 + 0.1])
    assert chosen.low[0] == 1e-20
    assert shift.tobytes() != Shift.of(shift.high).tobytes()
