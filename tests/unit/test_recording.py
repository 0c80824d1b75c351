"""An engine that is recorded says what the engine itself says."""

from __future__ import annotations

from pdml_spdz.engines.plain import PlainEngine
from pdml_spdz.engines.recording import RecordingEngine
from pdml_spdz.transcript import Transcript
from pdml_spdz.transport.inprocess import mesh


def test_warnings_given_during_a_run_are_not_lost() -> None:
    inner = PlainEngine(mesh(2)[0])
    recorded = RecordingEngine(inner, Transcript())
    inner.warn("exact to 12 bits only")
    assert recorded.warnings == (*PlainEngine.warnings, "exact to 12 bits only")
