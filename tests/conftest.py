"""Settings for all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Parties are processes, by the thousand: what the first of them compiles serves the others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Several tests and their parties run side by side, each of which BLAS would give all cores: its threads then wait for
# each other, in loops (tests/nmf and three files of linear algebra took three times the processor time, on a loaded
# machine). NumPy reads this when it is imported, so it has to be here, before anything imports it.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

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
