"""Data sets that are made up, for all tests of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments import small_cells


@pytest.fixture(scope="session")
def data_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made-up")
    small_cells.make_data(directory)
    return directory


@pytest.fixture
def made_up_data(data_once: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What grids keep of data sets goes to runs/ there, not into the repository's."""
    monkeypatch.chdir(data_once)
    return data_once
