"""Recording from Python."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.engines.transcript import RecordingWarning, load
from pdml_spdz.estimators import PDNMF, PDSVD
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.known import Known


def test_a_function_returns_the_transcript_that_the_command_would_write(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 4)) * [4.0, 3.0, 2.0, 1.0]
    settings = {"rank": 2, "iterations": 6, "tol": 0.0, "engine": "secsum"}
    with pytest.warns(RecordingWarning, match="enough for the attacks") as told:
        result = pdml_spdz.svd([X[:20], X[20:]], **settings, out=tmp_path, record_transcript=True)
    assert told[0].filename == __file__  # it points at the call
    assert result.transcript is not None
    written = load(tmp_path / "party-1" / "transcript.npz")  # all parties see the same
    for ours, theirs in zip(result.transcript.entries, written.entries, strict=True):
        assert ours.step == theirs.step
        for name, array in ours.arrays.items():
            assert np.array_equal(array, theirs.arrays[name])
    assert any("recorded" in text for text in result.report["warnings"])
    found = {f.attack: f for f in attack(result.transcript, Known([X[20:]], [X[:20]]))}
    assert found["c S from the transcript"].success


def test_an_estimator_keeps_a_transcript_only_if_it_is_asked_to() -> None:
    X = np.random.default_rng(1).gamma(1.0, size=(24, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecordingWarning)
        assert PDSVD(2, engine="secsum", transport="threads", max_iter=3, tol=0.0).fit(X).transcript_ is None
    settings = {"engine": "secsum", "transport": "threads", "max_iter": 3, "tol": 0.0, "record_transcript": True}
    for estimator, step, times in (
        (PDSVD(2, solver="power", **settings), "columns", 3),
        (PDNMF(2, init="random", **settings), "sum:topic", 2 * 3),  # k sums in a sweep
    ):
        with pytest.warns(RecordingWarning):
            estimator.fit(X)
        assert estimator.transcript_.counts()[step]["times"] == times
        assert estimator.transcript_.facts["warnings"][-1] == estimator.report_["warnings"][-1]
