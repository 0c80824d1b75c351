"""A Python that has the project's plain dependencies and nothing else that is installed here."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# A module that is not allowed is not there: as `find_spec` and `import` say of one that nobody has installed.
HOOK = """
import sys
from importlib.machinery import PathFinder

class Plain:
    find_distributions = PathFinder.find_distributions
    invalidate_caches = PathFinder.invalidate_caches

    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in {refused} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [Plain if finder is PathFinder else finder for finder in sys.meta_path]
"""


def declared(extra: str = "") -> list[str]:
    """What pyproject.toml asks for: always, or for an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: list[str] = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return found


def closure(requirements: list[str]) -> set[str]:
    """The distributions that `pip install` would bring for them, of those that are here."""
    found: set[str] = set()
    left = [(Requirement(text), "") for text in requirements]
    while left:
        wanted, extra = left.pop()
        name = canonicalize_name(wanted.name)
        if (wanted.marker and not wanted.marker.evaluate({"extra": extra})) or name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or []:
            left += [(Requirement(text), extra) for extra in wanted.extras or {""}]
    return found


def hidden(directory: Path, *more: str) -> Path:
    """A directory for PYTHONPATH; more : requirements beside the plain ones."""
    allowed = closure([*declared(), *more]) | {"pdml-spdz"}
    known = packages_distributions()
    refused = {name for name, owners in known.items() if not allowed & {canonicalize_name(o) for o in owners}}
    assert "pytest" in refused
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(HOOK.replace("{refused}", repr(refused)), encoding="utf-8")
    return directory
