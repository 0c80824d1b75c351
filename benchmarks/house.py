"""What does the house look like: which rooms are there, and what imports what?

    make house                                         draws docs/house.svg, then counts
    python -m benchmarks.house                         only draws
    python -m benchmarks.house --count [--tree DIR]    hops and lines of code (`walks.py`), also of another checkout

The picture has numbers of modules, and three widths of lines for numbers of imports. It has no lines of code: these
change with every commit, and a test compares the picture with the imports.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jinja2

from benchmarks.walks import ROOT, count

PACKAGE = ROOT / "pdml_spdz"
PICTURE = ROOT / "docs" / "house.svg"
# From the top; a module may import from its own layer and from those below it (tests/unit/test_layers.py).
LAYERS = {
    "what people use": ("cli", "__main__", "bench", "estimators", "privacy", "applications"),
    "M parties on this machine": ("api", "local"),
    "one party's run": ("fits", "run", "results"),
    "neither knows the other": ("algorithms", "engines"),
    "what engines are made of": ("primitives", "offline"),
    "what these stand on": ("study", "rows", "ot", "lattice", "transport"),
    "tools": ("programs", "numerics", "system"),
    "everybody's": ("registry", "errors", "__init__"),
}
RANK = {room: i for i, rooms in enumerate(LAYERS.values()) for room in rooms}
NOT_DRAWN = ("__main__", "__init__")  # doors


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """Of a module: its package, or itself at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"


def imported(path: Path) -> dict[str, bool]:
    """What a module imports from the package -> whether already when it is imported, or only in a function, by its name
    in a registry, or for its types.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        for name in _names(node):
            found[name] = found.get(name, False) or any(node is statement for statement in tree.body)
    return found


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module="pdml_spdz"):
            yield from (f"pdml_spdz.{alias.name}" for alias in node.names)
        case ast.ImportFrom(module=str(name)) if name.startswith("pdml_spdz."):
            yield name
        case ast.Import():
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "pdml_spdz")
        case ast.Constant(value=str(text)) if re.fullmatch(r"pdml_spdz(\.\w+)+:\w+", text):
            yield text.partition(":")[0]


WIDTH, LEFT, TOP, BAND, ROW, BOX = 1000, 160, 58, 62, 100, (126, 42)  # pixels
# Of the layer that imports.
COLOURS = ("#a61e4d", "#1864ab", "#2b8a3e", "#d9480f", "#862e9c", "#0b7285", "#5c3d1e", "#343a40")
KEY = (
    "A line: imports from; wider with 3 and with 10 imports; dashed: only when a function needs it, or by name.",
    "Not drawn: lines that a chain of others implies, and those to the lowest row, from which everybody may import.",
)


@dataclass(frozen=True)
class Box:
    name: str
    x: float  # its middle
    y: float  # its upper edge

    @property
    def rank(self) -> int:
        return RANK[self.name]


@dataclass(frozen=True)
class Line:
    source: Box
    target: Box
    imports: int
    at_once: bool

    @property
    def width(self) -> float:
        return 3.5 if self.imports >= 10 else 1.8 if self.imports >= 3 else 0.8


def boxes() -> dict[str, Box]:
    found = {}
    for rank, rooms in enumerate(LAYERS.values()):
        drawn = [name for name in rooms if name not in NOT_DRAWN]
        step = (WIDTH - LEFT) / len(drawn)
        for i, name in enumerate(drawn):
            found[name] = Box(name, LEFT + step * (i + 0.5), TOP + ROW * rank + (BAND - BOX[1]) / 2)
    return found


def lines(places: dict[str, Box]) -> list[Line]:
    """What a room imports from others; from the lowest layer everybody does, and nobody needs to see it."""
    numbers: Counter[tuple[str, str]] = Counter()
    at_once = set()
    for path in modules():
        for name, now in imported(path).items():
            pair = (room(path), room_of(name))
            if pair[0] != pair[1] and set(pair) <= set(places) and RANK[pair[1]] < len(LAYERS) - 1:
                numbers[pair] += 1
                at_once |= {pair} if now else set()
    return [Line(places[a], places[b], n, (a, b) in at_once) for (a, b), n in sorted(numbers.items())]


def direct(found: list[Line]) -> list[Line]:
    """Those that no chain of others implies; one against the order of the table, within a layer, is never implied."""
    order = {name: i for i, name in enumerate(RANK)}
    below: dict[str, set[str]] = {name: set() for name in order}  # what a room reaches
    left = []
    for name in reversed(order):
        for line in sorted((li for li in found if li.source.name == name), key=lambda li: order[li.target.name]):
            target = line.target.name
            if order[target] < order[name]:
                left.append(line)
            elif target not in below[name]:
                left.append(line)
                below[name] |= {target, *below[target]}
    return left


def ports(found: list[Line]) -> dict[tuple[Line, str], float]:
    """Where on the edge of a box a line ends: side by side, in the order of where they come from."""
    places = {}
    for end, other in (("source", "target"), ("target", "source")):
        for box in {getattr(line, end) for line in found}:
            here = sorted((line for line in found if getattr(line, end) == box), key=lambda li: getattr(li, other).x)
            for i, line in enumerate(here):
                places[line, end] = round(box.x + (BOX[0] - 20) * ((i + 0.5) / len(here) - 0.5), 1)
    return places


def shape(line: Line, x: float, to: float) -> tuple[str, str]:
    """The curve, from the lower edge of one box to the upper edge of another, within a layer below both; its head."""
    y, end = line.source.y + BOX[1], line.target.y
    if line.source.rank == line.target.rank:
        return f"M{x} {y:g} C{x} {y + 34:g} {to} {y + 34:g} {to} {y + 6:g}", f"M{to - 4:g} {y + 7:g}h8l-4 -7z"
    bend = 0.45 * (end - y)
    curve = f"M{x} {y:g} C{x} {y + bend:g} {to} {end - bend:g} {to} {end - 6:g}"
    return curve, f"M{to - 4:g} {end - 7:g}h8l-4 7z"


def draw() -> str:
    """The picture, as SVG; the same imports give the same bytes."""
    places = boxes()
    found = direct(lines(places))
    where = ports(found)
    sizes = Counter(room(path) for path in modules() if path.name != "__init__.py")
    curves = [
        (line, *shape(line, where[line, "source"], where[line, "target"]), COLOURS[line.source.rank])
        for line in sorted(found, key=lambda li: li.width)
    ]
    template = Path(__file__).with_suffix(".svg.j2").read_text(encoding="utf-8")
    picture: str = jinja2.Template(template, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True).render(
        width=WIDTH,
        height=TOP + ROW * (len(LAYERS) - 1) + BAND + 16,
        key=KEY,
        band=BAND,
        bands=[(what, TOP + ROW * rank) for rank, what in enumerate(LAYERS)],
        curves=curves,
        size=BOX,
        boxes=[(box, sizes[box.name]) for box in places.values()],
    )
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house")
    parser.add_argument("--count", action="store_true", help="count hops and lines of code instead of drawing")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="count those of another checkout")
    parser.add_argument("--json", action="store_true", help="every hop: modules and functions of caller and callee")
    given = parser.parse_args()
    if not given.count:
        PICTURE.write_text(draw(), encoding="utf-8")
        print(f"wrote {PICTURE}")
        return
    found = count(given.tree)
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for name, hops in found["hops"].items():
        print(f"{len(hops):6} hops    {name}")
    for name, (code, whole) in found["lines"].items():
        print(f"{code:6} lines   {name}, {whole} with docstrings")
    if found["not taken"]:
        raise SystemExit("\n".join(["docs/architecture.md is not what party 0 does:", *found["not taken"]]))


if __name__ == "__main__":
    main()
