"""How far is it: what does party 0 call on the walks of docs/architecture.md, and how much code is there?

A hop is the first call from one module of the package into another (`hop_recorder.py`). The walks are commands that
people type, so those of any checkout can be counted.

Lines of code are those with a token that is no comment and no docstring; "with docstrings" adds these. All trees are
formatted alike (`make lint`).
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CSV = ("a,b,c,d\n1,2,3,4\n2,1,0,5\n1,1,7,2\n", "a,b,c,d\n4,2,1,4\n0,1,0,2\n6,1,7,1\n")
FIT = ["--rank", "2", "--iterations", "3", "--seed", "1"]
SVD = ["svd", "0.csv", "1.csv", *FIT, "--out", "out"]
# Heading in docs/architecture.md, if it is written down there -> commands, one after the other in the same directory.
WALKS = {
    "A file to V.npy (secsum)": [[*SVD, "--engine", "secsum", "--reveal", "sum"]],
    "A file to V.npy (embedded)": [[*SVD, "--offline", "on-demand"]],
    "One NormedSecSum to bytes and back (embedded)": [
        ["normed-sum", "0-row.csv", "1-row.csv", "--out", "out", "--offline", "on-demand"]
    ],
    "A stock from plan to burnt claim (embedded)": [
        ["offline", "make", "--parties", "2", "--dim", "4", *FIT, "--stock", "stocks"],
        [*SVD, "--stock", "stocks", "--offline", "stock"],
    ],
}


def walk(commands: list[list[str]], tree: Path) -> tuple[list[list[str]], list[list[str]]]:
    """What party 0 does in these commands with the code of `tree`: its hops; all functions, by their first calls."""
    hops: dict[tuple[str, str], list[str]] = {}
    functions: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-house-") as directory:
        place = Path(directory)
        for m in range(2):
            (place / f"{m}.csv").write_text(CSV[m])
            (place / f"{m}-row.csv").write_text("\n".join(CSV[m].split()[:2]))
        (place / "path").mkdir()
        shutil.copy(Path(__file__).with_name("hop_recorder.py"), place / "path" / "sitecustomize.py")
        for i, command in enumerate(commands):
            for hop in (recorded := _party_0(command, place, place / f"hops-{i}", tree))["hops"]:
                hops.setdefault((hop[0], hop[1]), hop)
            functions += recorded["functions"]
    return list(hops.values()), functions


def _party_0(command: list[str], place: Path, hops: Path, tree: Path) -> dict[str, Any]:
    """What `hop_recorder` has written in the process of party 0."""
    hops.mkdir()
    path = f"{place / 'path'}{os.pathsep}{tree.resolve()}"
    own = {"PYTHONPATH": path, "PDML_HOPS": str(hops), "XDG_STATE_HOME": str(place / "state")}
    line = [sys.executable, "-m", "pdml_spdz", *command]
    done = subprocess.run(line, cwd=place, env={**os.environ, **own}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} with the code of {tree}: {done.stderr}")
    found: list[dict[str, Any]] = [json.loads(path.read_text()) for path in hops.iterdir()]
    (party,) = [process for process in found if "--id 0" in " ".join(process["argv"])]
    return party


def steps(page: str, heading: str) -> list[list[str]]:
    """[module, function] of the numbered steps below a heading of the page."""
    section = page.partition(f"\n### {heading}\n")[2].partition("\n#")[0]
    found = re.findall(r"^\d+\. `([\w/]+)\.py: ([\w.]+)`", section, re.MULTILINE)
    return [["pdml_spdz." + path.replace("/", "."), function] for path, function in found]


def not_taken(wanted: list[list[str]], functions: list[list[str]]) -> list[str]:
    """The first step that is not among the functions, or not in this order, and those after it."""
    rest = iter(functions)
    return [": ".join(step) for step in wanted if step not in rest]


def code_lines(text: str) -> tuple[int, int]:
    """(without docstrings, with them), of one file; blank lines and comments count in neither."""
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in skipped]
    whole = {n for token in tokens for n in range(token.start[0], token.end[0] + 1)}
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(whole - docstrings), len(whole)


def count(tree: Path) -> dict[str, Any]:
    """The hops of all walks, steps of the page that they do not take, lines of code (without and with docstrings)."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8") if tree.resolve() == ROOT else ""
    found: dict[str, Any] = {"hops": {}, "lines": {}, "not taken": []}
    for name, commands in WALKS.items():
        found["hops"][name], functions = walk(commands, tree)
        found["not taken"] += not_taken(steps(page, name), functions)
    for name in ("pdml_spdz", "benchmarks"):
        sizes = [code_lines(path.read_text(encoding="utf-8")) for path in (tree / name).rglob("*.py")]
        found["lines"][name] = [sum(size) for size in zip(*sizes, strict=True)]
    return found
