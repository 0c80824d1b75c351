"""What two builds must have in common to compute together: the sources that a run goes through.

Nobody keeps a list of constants of wire format, sharing, OT, LPN and precision: a digest of the text knows them all,
wherever they are, and also the code that uses them. Code that differs was never tried together, even if it only makes
one party faster. To read the text takes milliseconds; to import every module in order to look at its constants took
more than a small run does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pdml_spdz.errors import EngineError

PACKAGE = Path(__file__).parents[1]
# What people use, and what starts parties: nothing here sends a word or decides how long it is. All else counts.
OUTSIDE = ("__main__.py", "api.py", "applications", "bench", "cli", "estimators", "local", "privacy")


@cache  # modules that are loaded stay as they are, whatever becomes of their files
def digest() -> str:
    """Of this build, to be compared between parties."""
    return digest_of(PACKAGE)


def digest_of(package: Path) -> str:
    """Of the text of all sources, wherever they are."""
    whole = hashlib.sha256()
    for path in sources(package):
        text = path.read_text(encoding="utf-8")  # with \n for every line end, as Python reads it
        whole.update(f"{path.relative_to(package).as_posix()} {len(text)}\n{text}".encode())
    return whole.hexdigest()


def sources(package: Path) -> Iterator[Path]:
    """Every module that a run may go through, in the order of their names."""
    found = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in OUTSIDE)
    if not found:
        raise EngineError(
            f"there are no sources in {package}: parties compare them before they compute.",
            "the package as it was released, with its .py files",
        )
    yield from found
