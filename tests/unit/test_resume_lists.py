"""What other parties say that they have of a run."""

from __future__ import annotations

import json

import pytest

from pdml_spdz.errors import ResumeError
from pdml_spdz.run.resume import _read

DIGEST = "0f" * 32


def said(kept: object, iterations: object) -> memoryview:
    return memoryview(json.dumps({"run": "0f", "kept": kept, "iterations": iterations}).encode())


def test_list_of_files_and_iterations_is_read() -> None:
    kept, iterations = {"centre.npz": DIGEST}, {"0": "start", "12": DIGEST}
    assert _read(1, said(kept, iterations)) == ("0f", kept, iterations)


@pytest.mark.parametrize(
    "data",
    [
        said({"run this: rm -r .": DIGEST}, {}),
        said({"centre.npz\n": DIGEST}, {}),
        said({"centre.npz": "\x1b[2J"}, {}),
        said({"centre.npz": 1}, {}),
        said({}, {"\u0663": DIGEST}),
        said({}, {"9" * 1000: DIGEST}),
        said({}, {"-1": DIGEST}),
        said({}, [[["1"], DIGEST]]),
        said(None, {}),
        memoryview(b"[]"),
        memoryview(b"[" * 4000),
        memoryview(b"\xff"),
    ],
)
def test_anything_else_is_not_repeated_in_words_for_people(data: memoryview) -> None:
    with pytest.raises(ResumeError) as raised:
        _read(1, data)
    assert str(raised.value).startswith("P1 sent a list of checkpoints that cannot be read.")
