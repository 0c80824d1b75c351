"""What a benchmark found: cells, checks, and where they come from; as JSON and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pdml_spdz.bench.origin import origin
from pdml_spdz.bench.stats import Spread, line
from pdml_spdz.errors import InputError
from pdml_spdz.system.files import parse_json, replaced, save_json

FORMAT = 1
ERROR = "error ulp"
Key = dict[str, str | int]


@dataclass(frozen=True)
class Cell:
    """One thing measured.

    key : what it is (engine, M, d, ...); values : what it cost, by name and unit ("online s")
    scaled_from : the d that was measured, where the values were scaled to the d of the key; 0 if they were measured
    missing : why there is nothing, and how to get it
    """

    key: Key
    values: dict[str, Spread] = field(default_factory=dict)
    scaled_from: int = 0
    missing: str = ""

    @property
    def name(self) -> str:
        return ", ".join(f"{v}" if isinstance(v, str) else f"{k} = {v:,}" for k, v in self.key.items() if v != "")

    def fits(self, **wanted: str | int) -> bool:
        return all(self.key.get(name) == value for name, value in wanted.items())


@dataclass(frozen=True)
class Check:
    """What was promised, and what was found: `found` is to be at least, or at most, `wanted`."""

    what: str
    found: float
    wanted: float
    at_least: bool = True
    unit: str = ""
    scaled: bool = False

    @property
    def ok(self) -> bool:
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted

    @property
    def verdict(self) -> str:
        """What was scaled proves nothing, either way."""
        return "scaled" if self.scaled else "yes" if self.ok else "NO"

    def __str__(self) -> str:
        about = "~" if self.scaled else ""
        bound = "at least" if self.at_least else "at most"
        return f"{self.what}: wanted {bound} {self.wanted:g}{self.unit}, found {about}{self.found:.4g}{self.unit}"


@dataclass(frozen=True)
class Result:
    """One benchmark's outcome."""

    benchmark: str
    settings: dict[str, Any]
    cells: list[Cell]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=origin)

    def find(self, **wanted: str | int) -> Cell | None:
        """The first cell with these in its key that is not missing."""
        return next((c for c in self.cells if c.fits(**wanted) and not c.missing), None)

    def save(self, path: Path) -> None:
        """path, and beside it the same with the ending csv."""
        checks = [asdict(c) | {"ok": c.ok} for c in self.checks]
        cells = [asdict(c) | {"values": {n: v._asdict() for n, v in c.values.items()}} for c in self.cells]
        save_json(path, {"format": FORMAT} | asdict(self) | {"cells": cells, "checks": checks})
        with replaced(path.with_suffix(".csv")) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(_rows(self))


def load(path: Path) -> Result:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise ValueError("another format")
        cells = [
            Cell(**(c | {"values": {n: Spread(**v) for n, v in c["values"].items()}})) for c in content.pop("cells")
        ]
        checks = [Check(**{n: v for n, v in c.items() if n != "ok"}) for c in content.pop("checks")]
        return Result(cells=cells, checks=checks, **content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a result of a benchmark ({error}).",
            "a JSON file that `pdml-spdz bench` of this version wrote",
            "measure again with `pdml-spdz bench ... --json FILE`",
        ) from None


def scaled(cells: list[Cell], key: Key, d: int) -> Cell:
    """The cell at d from those of the two largest d: every value on its line, marked with the largest d.

    Quartiles keep their relative distance from the median. The error is the one that was measured.
    """
    known = sorted(cells, key=lambda c: int(c.key["d"]))[-2:]
    sizes = [float(c.key["d"]) for c in known]
    last = known[-1]
    values = {}
    for name, value in last.values.items():
        if name == ERROR:
            values[name] = value
            continue
        found = line(sizes, [c.values[name].median for c in known]).at(d)
        if found < 0.999 * value.median:  # noise: nothing costs less for a larger d, so at most all of it grows with d
            found = value.median * d / sizes[-1]
        values[name] = value.times(found / value.median) if value.median else value
    return replace(last, key=key, values=values, scaled_from=int(last.key["d"]))


def _rows(result: Result) -> Iterator[list[Any]]:
    keys = list(dict.fromkeys(name for c in result.cells for name in c.key))
    values = list(dict.fromkeys(name for c in result.cells for name in c.values))
    yield [*keys, "scaled_from", "missing", *(f"{n}{s}" for n in values for s in ("", " low", " high")), "n"]
    for cell in result.cells:
        numbers: list[Any] = []
        for name in values:
            value = cell.values.get(name)
            numbers += [value.median, value.low, value.high] if value else ["", "", ""]
        n = max((v.n for v in cell.values.values()), default=0)
        yield [*(cell.key.get(k, "") for k in keys), cell.scaled_from or "", cell.missing, *numbers, n]
