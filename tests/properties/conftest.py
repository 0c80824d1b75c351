"""What tests on kills share."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.properties.contents import CONTENTS, Content
from tests.properties.kills import shimmed


@pytest.fixture
def mortal() -> Iterator[None]:
    with shimmed():
        yield


@pytest.fixture
def root() -> Iterator[Path]:
    """In memory where there is such a place: thousands of small files."""
    base = Path("/dev/shm")
    path = (base if base.is_dir() else Path("/tmp")) / f"pdml-stock-{os.getpid()}-{random.getrandbits(32):x}"
    path.mkdir()
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=CONTENTS)
def content(request: pytest.FixtureRequest) -> Content:
    return CONTENTS[request.param]
