"""Imports point downwards (docs/architecture.md)."""

from __future__ import annotations

from pathlib import Path

from benchmarks import house
from benchmarks.house import PACKAGE, RANK, modules, room, room_of


def imported(path: Path) -> set[str]:
    """What an import of this module imports."""
    return {name for name, at_once in house.imported(path).items() if at_once}


def test_every_module_has_a_layer() -> None:
    assert {room(path) for path in modules()} == set(RANK)


def test_imports_point_downwards() -> None:
    upward = []
    for path in modules():
        for name in imported(path):
            if RANK[room_of(name)] < RANK[room(path)]:
                upward.append(f"{path.relative_to(PACKAGE)} imports {name}")
    assert upward == []


def test_algorithms_and_engines_do_not_know_each_other() -> None:
    for path in (PACKAGE / "algorithms").glob("*.py"):
        assert not any(room_of(name) == "engines" for name in imported(path))
    for path in (PACKAGE / "engines").rglob("*.py"):
        assert not any(room_of(name) == "algorithms" for name in imported(path))


def test_only_one_module_starts_processes() -> None:
    starters = {p.name for p in modules() if "subprocess.Popen(" in p.read_text() or "subprocess.run(" in p.read_text()}
    assert starters == {"process.py", "guard.py"}  # the guard is started by process.py, around the program
