"""The notebooks of examples/notebooks, executed, with their outputs written into them: small text and SVG.

    python -m benchmarks.notebooks

Cells run one after another in one namespace, and the value of a cell's last expression is shown, as Jupyter does it;
that is all that these notebooks need, and it takes no kernel, sockets or further packages. `tests/docs` executes them
and compares with what is committed.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def executed(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, as the format of notebooks has them. Paths are relative to the notebook's own."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree, printed, value = ast.parse(source), io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_svg_"):
            data = {"image/svg+xml": _lines(value._repr_svg_()), "text/plain": _lines(repr(value))}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write(path: Path) -> None:
    """The notebook with the outputs that it has now."""
    notebook = load(path)
    with contextlib.chdir(path.parent):
        found = executed(notebook)
    for cell, outputs in zip([c for c in notebook["cells"] if c["cell_type"] == "code"], found, strict=True):
        cell["outputs"], cell["execution_count"] = outputs, None
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for one in NOTEBOOKS:
        write(one)
