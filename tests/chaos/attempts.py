"""Which cases there are, and one of them from start to end."""

from __future__ import annotations

import random
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

from tests.chaos.kinds import KINDS
from tests.chaos.sites import Case, Wrong, codes

BY_NAME = {kind.__name__: kind for kind in KINDS}


class Outcome(NamedTuple):
    """wrong : what should not have happened, or nothing"""

    kind: str
    seed: int
    wrong: str
    struck: bool  # a process did not end well: what was done had an effect
    seconds: float


def attempt(name: str, seed: int, until: float) -> Outcome | None:
    """until : when it is too late to begin, by the system's monotonic clock"""
    began = time.monotonic()
    if began > until:
        return None
    codes.clear()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        case = Case(random.Random(f"{name} {seed}"), Path(directory))
        try:
            BY_NAME[name](case)
            wrong = ""
        except Wrong as error:
            wrong = str(error)
        except Exception:  # noqa: BLE001 - of the case itself, or of what it looked at: either way it did not hold
            wrong = traceback.format_exc()
        finally:
            for site in case.sites:
                site.clear_away()
    return Outcome(name, seed, wrong, any(codes), time.monotonic() - began)


def drawn(cases: int, seed: int) -> list[tuple[str, int]]:
    """Kinds in proportion to their shares, each case with a seed of its own, in no order."""
    chance, total = random.Random(seed), sum(KINDS.values())
    counts = {name: -(-cases * KINDS[kind] // total) for name, kind in BY_NAME.items()}
    wanted = [(name, chance.randrange(10**6)) for name, count in counts.items() for _ in range(count)]
    chance.shuffle(wanted)
    return wanted
