"""Results as tables of text, for the terminal and for a page; and two results of one benchmark, cell by cell: B's value
over A's, and whether that is more than noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pdml_spdz.bench.normed_sum import NOT_RUN, PAPER
from pdml_spdz.bench.results import ERROR, Cell, Measurement, Quartiles, exact
from pdml_spdz.errors import InputError

# What the table of costs shows of a NormedSecSum beside its online time.
SECONDS = ("offline s", "base OT s", "total s", "with start s", "cpu s")
COSTS = (*SECONDS, "rounds", "online MB", "offline MB", "triples", "numbers", ERROR)


class Grid(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> list[str]:
        lines = [f"| {' | '.join(self.header)} |", "|" + " --- |" * len(self.header)]
        return [*lines, *(f"| {' | '.join(row)} |" for row in self.rows)]


def number(value: float, unit: str = "") -> str:
    """Three digits that matter; seconds as ms or µs where that is shorter."""
    factor, unit = _scale(value, unit)
    return f"{_digits(value * factor)} {unit}".rstrip()


def spread_text(value: Quartiles, unit: str) -> str:
    if value.n < 2 or value.low == value.high:
        return number(value.median, unit)
    factor, unit = _scale(value.median, unit)
    low, median, high = (_digits(v * factor) for v in (value.low, value.median, value.high))
    return f"{median} ({low} .. {high}) {unit}".rstrip()


def _scale(value: float, unit: str) -> tuple[float, str]:
    if unit != "s" or not 0 < abs(value) < 1:
        return 1.0, unit
    return (1e6, "µs") if abs(value) < 1e-3 else (1e3, "ms")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def unit_of(name: str) -> str:
    return next((u for u in ("s", "MB", "GB") if name.endswith(f" {u}")), "")


def label_of(name: str) -> str:
    unit = unit_of(name)
    return name.removesuffix(f" {unit}") if unit == "s" else name


def entry(cell: Cell, name: str, text: Callable[[Quartiles, str], str] = spread_text) -> str:
    value = cell.values.get(name)
    if value is None:
        return ""
    if not cell.scaled_from:
        return text(value, unit_of(name))
    return f"~{text(value, unit_of(name))} [{cell.scaled_from:,}]"


def paper_grid(result: Measurement) -> Grid:
    """The paper's table: online seconds by engine and M (rows) and d (columns), the paper's own first."""
    dims = sorted({int(c.key["d"]) for c in result.cells})
    header = ["engine", "M", *(f"d = {d:,}" for d in dims)]
    rows = []
    for M in sorted({int(c.key["M"]) for c in result.cells}):
        if M in PAPER:
            times = (number(PAPER[M][d], "s") if d in PAPER[M] else "" for d in dims)
            rows.append(["the paper (2018)", str(M), *times])
        mine = [c for c in result.cells if c.key["M"] == M]
        for name in dict.fromkeys(row_name(c) for c in mine if not c.missing):
            cells = {int(c.key["d"]): c for c in mine if row_name(c) == name}
            texts = [(entry(cells[d], "online s") or cells[d].missing) if d in cells else "" for d in dims]
            rows.append([name, str(M), *texts])
        absent = [c for c in mine if all(o.missing for o in mine if row_name(o) == row_name(c))]
        for name, text in dict.fromkeys((_absent(c), c.missing) for c in absent):
            rows.append([f"{name}: {text}", str(M), *("-" for _ in dims)])
    return Grid("seconds online of one NormedSecSum: median (quartiles)", header, rows)


def _absent(cell: Cell) -> str:
    """What is not installed is an engine; what was not run is a row."""
    return row_name(cell) if cell.missing.startswith(NOT_RUN) else str(cell.key["engine"])


def row_name(cell: Cell) -> str:
    """An engine and how it was used, in words."""
    k = cell.key
    parts = [str(k["engine"]), str(k["protocol"]) if k["engine"] == "mp-spdz" else ""]
    parts.append("the paper's program" if k["program"] == "paper" else "")
    parts.append("in a fit" if k["where"] == "fit" else "cold")
    return ", ".join(p for p in parts if p) + f" ({k['bits']} bits)"


def cost_grid(result: Measurement) -> Grid:
    """Everything else that a NormedSecSum costs."""
    cells = [c for c in result.cells if c.values]
    names = [n for n in COSTS if any(n in c.values for c in cells)]
    rows = []
    for cell in cells:
        short = [entry(cell, n, lambda value, unit: number(value.median, unit)).split(" [")[0] for n in names]
        rows.append([row_name(cell), str(cell.key["M"]), f"{cell.key['d']:,}", *short])
    return Grid("what it costs besides (medians)", ["engine", "M", "d", *(label_of(n) for n in names)], rows)


def plain_grid(result: Measurement, names: Sequence[str] = ()) -> Grid:
    """One line for each cell: its key, and medians of its values (with quartiles where there are few values)."""
    cells = [c for c in result.cells if c.values]
    keys = list(dict.fromkeys(n for c in cells for n in c.key))
    shown = list(names) or list(dict.fromkeys(n for c in cells for n in c.values))
    text = spread_text if len(shown) <= 4 else (lambda value, unit: number(value.median, unit))
    rows = [[*(_key_text(c.key.get(k, "")) for k in keys), *(entry(c, n, text) for n in shown)] for c in cells]
    return Grid(result.benchmark, [*keys, *(label_of(n) for n in shown)], rows)


def grids(result: Measurement) -> list[Grid]:
    if result.benchmark == "normed-sum":
        return [paper_grid(result), cost_grid(result)]
    if result.benchmark == "precision":
        return [_by_bits(result, "NormedSecSum", "norm"), _by_bits(result, "V_k", "condition")]
    return [plain_grid(result)]


def _by_bits(result: Measurement, what: str, by: str) -> Grid:
    """Errors of both ways by d and norm or condition, a column for each number of bits."""
    cells = [c for c in result.cells if c.key["what"] == what]
    bits = sorted({int(c.key["bits"]) for c in cells})
    rows = []
    for engine, d, at in dict.fromkeys((c.key["engine"], c.key["d"], c.key[by]) for c in cells):
        same = {c.key["bits"]: c for c in cells if c.fits(engine=engine, d=d, **{by: at})}
        name = f"2^-{at}" if by == "norm" else str(at)
        rows.append([str(engine), str(d), name, *(entry(same[f], "error") if f in same else "" for f in bits)])
    rows.sort(key=lambda row: (int(row[1]), row[0]))
    return Grid(f"error of {what}", ["arithmetic", "d", by, *(f"{f} bits" for f in bits)], rows)


def _key_text(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


FEW = 3  # repetitions below this say nothing about noise


class Change(NamedTuple):
    """One value of one cell, B over A."""

    cell: str
    value: str
    a: float
    b: float
    ratio: Quartiles

    @property
    def verdict(self) -> str:
        """Beyond noise only if the quartiles of both runs keep apart; counts have no noise, single times an unknown."""
        if self.ratio.n < FEW and self.value.endswith(" s"):
            return "too few"
        if self.ratio.low <= 1 <= self.ratio.high:
            return "same"
        return "more" if self.ratio.median > 1 else "less"


def ratio(a: Quartiles, b: Quartiles) -> Quartiles:
    """a/b: of the medians, and at the least and at the most if both are anywhere between their quartiles."""
    if b.median == 0:
        return exact(1.0 if a.median == 0 else float("inf"))
    low = a.low / b.high if b.high else 0.0
    return Quartiles(a.median / b.median, low, a.high / b.low if b.low else float("inf"), min(a.n, b.n))


def compare(a: Measurement, b: Measurement) -> tuple[list[Change], list[str]]:
    """The changes, and in words what makes them doubtful."""
    if a.benchmark != b.benchmark:
        raise InputError(
            f"the first file is of the benchmark {a.benchmark}, the second of {b.benchmark}.",
            "two results of one benchmark",
        )
    theirs = {c.identity: c for c in b.cells}
    changes, notes = [], _differences(a, b)
    for cell in a.cells:
        other = theirs.pop(cell.identity, None)
        if other is None or cell.missing or other.missing:
            notes.append(f"{cell.name}: not in both")
        elif bool(cell.scaled_from) != bool(other.scaled_from):
            notes.append(f"{cell.name}: scaled in one, measured in the other: not compared")
        else:
            changes += _changes(cell, other)
    notes += [f"{c.name}: not in both" for c in theirs.values()]
    return changes, notes


def _changes(a: Cell, b: Cell) -> list[Change]:
    about = "~" if a.scaled_from else ""
    both = [name for name in a.values if name in b.values]
    pairs = [(name, a.values[name], b.values[name]) for name in both]
    return [Change(about + a.name, name, x.median, y.median, ratio(y, x)) for name, x, y in pairs]


def _differences(a: Measurement, b: Measurement) -> list[str]:
    """Of machine, versions and settings; the commit is what one compares, and the load is said as it was."""
    notes = []
    for part in ("machine", "versions"):
        notes += _unequal(part, a.origin.get(part, {}), b.origin.get(part, {}), ("load",))
    loads = [r.origin.get("machine", {}).get("load", 0.0) for r in (a, b)]
    if abs(loads[0] - loads[1]) > 0.5:
        notes.append(f"the machine's load was {loads[0]} when the first began and {loads[1]} when the second did")
    notes += _unequal("settings", a.settings, b.settings, ())
    if a.origin.get("mp_spdz") != b.origin.get("mp_spdz"):
        notes.append(f"MP-SPDZ differs: {a.origin.get('mp_spdz')} and {b.origin.get('mp_spdz')}")
    return notes


def _unequal(part: str, a: dict[str, Any], b: dict[str, Any], apart: tuple[str, ...]) -> list[str]:
    names = [n for n in dict.fromkeys([*a, *b]) if n not in apart and a.get(n) != b.get(n)]
    return [f"{part} differs in {name}: {a.get(name)} and {b.get(name)}" for name in names]
