"""One name for one thing: no two classes of the package have the same name, whatever their modules."""

from __future__ import annotations

import ast
from collections import defaultdict

from benchmarks.house import PACKAGE, modules

# In several rooms, and the same idea there: a party's command and its run, a fit and its algorithm,
# the paper's program and its numbers.
SAME_IDEA = {"__init__", "base", "certs", "engine", "mp_spdz", "nmf", "normed_sum", "offline", "paper", "party"}
SAME_IDEA |= {"spec", "svd"}


def test_no_two_classes_have_the_same_name() -> None:
    found = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(path.relative_to(PACKAGE).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_no_two_modules_have_the_same_name_but_for_the_same_idea() -> None:
    found = defaultdict(list)
    for path in modules():
        found[path.stem].append(path.relative_to(PACKAGE).as_posix())
    assert {name for name, places in found.items() if len(places) > 1} == SAME_IDEA
