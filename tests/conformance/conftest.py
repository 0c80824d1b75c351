from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parties.helpers import Parties


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Callable[..., Parties]]:
    """Makes M parties in the test's directory, and ends what the test has left running."""
    made: list[Parties] = []

    def make(M: int = 2, **settings: Any) -> Parties:
        made.append(Parties(tmp_path / f"site-{len(made)}", M, **settings))
        return made[-1]

    yield make
    for site in made:
        site.clear_away()
