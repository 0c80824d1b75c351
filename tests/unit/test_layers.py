"""Imports point downwards (docs/architecture.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pdml_spdz

PACKAGE = Path(pdml_spdz.__file__).parent
# From the top; a module may import from its own layer and from those below it.
LAYERS = [
    ("cli", "__main__", "bench", "estimators", "privacy", "applications"),  # what people use
    ("api", "local"),  # M parties on this machine
    ("run", "fits"),  # one party's run, and what it does for each algorithm
    ("algorithms", "engines"),  # neither knows the other
    ("offline", "primitives"),
    ("ot", "study", "rows", "transport"),
    ("programs", "numerics", "system"),
    ("registry",),
    ("errors", "__init__"),
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def top(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:  # module level: what an import of it imports
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "pdml_spdz":
            if node.module == "pdml_spdz":
                names |= {f"pdml_spdz.{a.name}" if (a.name in RANK) else "pdml_spdz" for a in node.names}
            else:
                names.add(node.module)
    return names


def test_every_module_has_a_layer() -> None:
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert found <= set(RANK)


def test_imports_point_downwards() -> None:
    upward = []
    for path in modules():
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in imported(path):
            if RANK[top(name)] < RANK[own]:
                upward.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert upward == []


def test_algorithms_and_engines_do_not_know_each_other() -> None:
    for path in (PACKAGE / "algorithms").glob("*.py"):
        assert not any(top(name) == "engines" for name in imported(path))
    for path in (PACKAGE / "engines").rglob("*.py"):
        assert not any(top(name) == "algorithms" for name in imported(path))


def test_only_one_module_starts_processes() -> None:
    starters = {p.name for p in modules() if "subprocess.Popen(" in p.read_text() or "subprocess.run(" in p.read_text()}
    assert starters == {"process.py", "guard.py"}  # the guard is started by process.py, around the program
