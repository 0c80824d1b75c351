"""A result with any byte of its file changed, or cut off anywhere, is never taken for what the run has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.errors import InputError
from pdml_spdz.run.output import digest_of, kept_result

V = np.random.default_rng(0).normal(size=(5, 2))
REPORT = {"algorithm": "svd", "digests": {"result": digest_of("result", V.tobytes())}}


@pytest.fixture
def raw(tmp_path: Path) -> bytes:
    np.save(tmp_path / "V.npy", V)
    assert np.array_equal(kept_result(tmp_path, REPORT), V)
    return (tmp_path / "V.npy").read_bytes()


@pytest.mark.parametrize("flipped", [0x01, 0x20, 0x80, 0xFF])
def test_any_byte(tmp_path: Path, raw: bytes, flipped: int) -> None:
    refused = 0
    for i, byte in enumerate(raw):
        (tmp_path / "V.npy").write_bytes(raw[:i] + bytes([byte ^ flipped]) + raw[i + 1 :])
        try:
            assert np.array_equal(kept_result(tmp_path, REPORT), V)  # a blank that is another one: the same numbers
        except InputError:
            refused += 1
    assert refused >= V.nbytes + len("\x93NUMPY")


def test_any_length(tmp_path: Path, raw: bytes) -> None:
    for length in range(len(raw)):
        (tmp_path / "V.npy").write_bytes(raw[:length])
        with pytest.raises(InputError, match="is damaged"):
            kept_result(tmp_path, REPORT)
