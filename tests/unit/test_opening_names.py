"""Names of levels, openings and solvers stand where each is defined, in its line, and where an engine lists its own."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import pdml_spdz
from pdml_spdz.algorithms.solver import Solver
from pdml_spdz.engines.openings.base import Opening
from pdml_spdz.registry import Registry
from pdml_spdz.study.levels import LEVELS, OPENINGS, Level
from pdml_spdz.study.solvers import SOLVERS

PACKAGE = Path(pdml_spdz.__file__).parent
REGISTRIES: list[tuple[Registry[Any], type]] = [(LEVELS, Level), (OPENINGS, Opening), (SOLVERS, Solver)]
TABLES = ("study/levels.py", "study/solvers.py")
# Where else a name may stand, and why.
ELSEWHERE = {
    "bench/": "a benchmark names what it measures",
    "cli/bench.py": "the same",
    "privacy/report_content.py": "the power of a test",
    "privacy/assess.py": "an attribute of mechanisms",
    "offline/mask_stock.py": "the directory of its stocks",
    "privacy/svd_mechanism.py": "a way to put statistics together",
}
# Values of other settings: normalise, online, program.
VALUES = {"per-column", "paper"}
SETTINGS = ("study/model.py", "study/checks.py", "engines/embedded/plan.py", "engines/mp_spdz/engine.py")


def homes(name: str) -> set[str]:
    """The modules in which things of that name are defined."""
    lines = [registry.lines[name] for registry, _ in REGISTRIES if name in registry.lines]
    return {line.where.partition(":")[0].removeprefix("pdml_spdz.").replace(".", "/") + ".py" for line in lines}


def test_no_name_stands_elsewhere() -> None:
    names = {name for registry, _ in REGISTRIES for name in registry.lines}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        lists_openings = path.name == "spec.py" or where in ("engines/secsum.py", "engines/plain.py")
        if where in TABLES or where.startswith(tuple(ELSEWHERE)):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names):
                continue
            name = node.value
            opening = where in homes(name) or (lists_openings and name in OPENINGS.lines)
            level = name in LEVELS.lines and any(where in homes(n) for n in OPENINGS.lines)  # an opening says its level
            if not (opening or level or (where in SETTINGS and name in VALUES)):
                found.append(f"{where}:{node.lineno} {name}")
    assert found == []


@pytest.mark.parametrize(
    ("registry", "kind", "name"), [(registry, kind, name) for registry, kind in REGISTRIES for name in registry.lines]
)
def test_what_a_line_names_is_of_that_name(registry: Registry[Any], kind: type, name: str) -> None:
    thing = registry[name]
    assert isinstance(thing, kind)
    assert thing.name == name  # type: ignore[attr-defined]
