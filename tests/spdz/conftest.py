from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _bytecode(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled programs are kept from one session of tests to the next, and not among the user's own."""
    kept = getattr(request.config, "cache", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept.mkdir("mp-spdz") if kept else tmp_path))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files go here, so that what is left of them can be seen."""
    (path := tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked for again
    return path
