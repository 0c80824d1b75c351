from __future__ import annotations

import multiprocessing.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def _bytecode(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled programs are kept from one session of tests to the next, and not among the user's own."""
    kept = getattr(request.config, "cache", None)
    path = kept.mkdir("mp-spdz") if kept else tmp_path_factory.mktemp("mp-spdz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        yield


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files go here, so that what is left of them can be seen."""
    (path := tmp_path / "t").mkdir()
    multiprocessing.util.get_temp_dir()  # the tests' own processes have theirs elsewhere, whichever test starts them
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # asked for again
    return path
