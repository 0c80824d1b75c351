"""Two results of one benchmark, cell by cell: B's value over A's, and whether that is more than noise."""

from __future__ import annotations

from typing import Any, NamedTuple

from pdml_spdz.bench.results import Cell, Measurement, Quartiles, exact
from pdml_spdz.errors import InputError

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
    theirs = {_identity(c): c for c in b.cells}
    changes, notes = [], _differences(a, b)
    for cell in a.cells:
        other = theirs.pop(_identity(cell), None)
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


def _identity(cell: Cell) -> tuple[tuple[str, str | int], ...]:
    return tuple(sorted(cell.key.items()))


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
