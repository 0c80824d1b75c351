"""An engine's name stands in its own package and in one line: whatever depends on the engine asks its spec."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import pdml_spdz
from pdml_spdz.engines.spec import EngineSpec
from pdml_spdz.study import engines
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.levels import LEVELS, OPENINGS

PACKAGE = Path(pdml_spdz.__file__).parent
TABLE = "study/engines.py"
# By name, the module of its spec, as the table has it.
OWN = {
    getattr(import_module(module), attribute).name: module
    for node in ast.walk(ast.parse((PACKAGE / TABLE).read_text()))
    if isinstance(node, ast.Constant) and str(node.value).startswith("pdml_spdz.")
    for module, attribute in [str(node.value).split(":")]
}
# Where else a name may stand, and why.
ELSEWHERE = {
    "bench/": "a benchmark names what it measures",
    "cli/bench.py": "the same",
    "cli/app.py": "`pdml-spdz mp-spdz` is a command, about the programs that the engine runs",
    "cli/mp_spdz.py": "the same",
    "study/levels.py": "a level has a usual engine",
}
# Where a bound, a start or scales come from by SecSum, "secsum" is their name too: there only a line about engines
# counts.
SHARED = ("secsum",)


def home(name: str) -> str:
    """The file, or the package, that an engine's spec is defined in."""
    path = Path(*OWN[name].split(".")[1:])
    return f"{path.parent}/" if path.name == "spec" else f"{path}.py"


def literals(path: Path) -> Iterator[tuple[str, str]]:
    """Every string in the file that is an engine's name, and its line."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OWN:
            yield node.value, lines[node.lineno - 1].strip()


def test_no_engine_is_named_outside_its_package() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if where == TABLE or where.startswith(tuple(ELSEWHERE)):
            continue
        for name, line in literals(path):
            about_engines = "engine" in line or name not in SHARED
            if about_engines and not where.startswith(home(name)):
                found.append(f"{where}: {line}")
    assert found == []


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_spec_is_what_its_line_says(name: str) -> None:
    spec = ENGINES[name]
    assert isinstance(spec, EngineSpec)
    assert spec.name == name
    assert set(spec.openings) <= set(OPENINGS.names())


@pytest.mark.parametrize("level", LEVELS.names())
def test_the_usual_engine_of_a_level_reveals_no_more_unless_asked(level: str) -> None:
    levels = ENGINES[LEVELS[level].engine].levels
    assert level in levels
    assert LEVELS[level].sealed or levels[0] == level  # sealed is cheap for nobody: it is there for those who ask


def test_messages_name_all_that_fit() -> None:
    assert engines.engines_that(lambda spec: spec.has_window) == "embedded"
    assert engines.engines_that(lambda spec: spec.offline is not None) == "embedded or mp-spdz"
