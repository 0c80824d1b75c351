"""How far a result is from the pooled one, as the demonstration says it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.fits.accuracy import accuracy
from tests.unit.test_svd import with_spectrum


@pytest.mark.parametrize("angle", [0.0, 1e-11, 1e-3])
def test_single_vectors_are_compared_to_the_last_digits(tmp_path: Path, angle: float) -> None:
    X = with_spectrum(30, 5, np.array([8.0, 4.0, 2.0, 1.0, 0.5]))
    np.save(tmp_path / "a.npy", X)
    V = np.linalg.svd(X, full_matrices=False)[2].T[:, :2]
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    found = accuracy(V @ turn, [tmp_path / "a.npy"])
    # Two eigensolvers differ by some EPS over the relative gap of 3/4.
    assert abs(found["largest_column_sine"] - np.sin(angle)) < 1e-14
    assert found["largest_angle_sine"] < 1e-14
