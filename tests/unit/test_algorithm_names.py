"""An algorithm's name stands in its own modules and in one line: what depends on the algorithm asks its descriptor."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pdml_spdz
from pdml_spdz.study.algorithm import ALGORITHMS, Algorithm

PACKAGE = Path(pdml_spdz.__file__).parent
TABLE = "study/algorithm.py"
# Where else a name may stand, and why.
ELSEWHERE = {
    "__init__.py": "what users import",
    "api.py": "a function for each algorithm",
    "local/returned.py": "a class of results for each function",
    "estimators/": "a transformer for each algorithm",
    "privacy/": "an experiment says which algorithm's openings it looks at",
    "cli/privacy.py": "the same",
    "bench/": "a benchmark names what it measures",
    "cli/bench.py": "the same",
}
# A table of a study has its algorithm's name.
TABLES = {"nmf": ("study/model.py", "study/checks.py", "study/file.py", "cli/fit.py")}


def home(name: str) -> str:
    return f"fits/{ALGORITHMS.lines[name].where.split(':')[0].rpartition('.')[2]}.py"


def test_no_algorithm_is_named_outside_its_modules() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if where == TABLE or where.startswith(tuple(ELSEWHERE)):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ALGORITHMS.lines:
                name = node.value
                if where != home(name) and where not in TABLES.get(name, ()):
                    found.append(f"{where}:{node.lineno} {name}")
    assert found == []


@pytest.mark.parametrize("name", ALGORITHMS.lines)
def test_a_descriptor_is_what_its_line_says(name: str) -> None:
    spec = ALGORITHMS[name]
    assert isinstance(spec, Algorithm)
    assert spec.name == name
    assert spec.help.startswith(ALGORITHMS.lines[name].about)
