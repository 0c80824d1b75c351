"""Settings for all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Parties are processes, by the thousand: what the first of them compiles serves the others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Speed belongs in benchmarks: on a loaded machine a deadline fails at random.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own() -> Iterator[None]:
    """What a party keeps between runs is kept for the tests alone, in their processes and those they start."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-state-") as directory:
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = directory
        yield
        os.environ.pop("XDG_STATE_HOME")
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before
