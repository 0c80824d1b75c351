"""What a benchmark found: cells, checks, and where they come from; as JSON and CSV. Medians with their quartiles,
straight lines with their R^2.
"""

from __future__ import annotations

import csv
import datetime as dt
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.errors import InputError
from pdml_spdz.run.output import versions
from pdml_spdz.system import process
from pdml_spdz.system.files import parse_json, replaced, save_json

FORMAT = 1
ERROR = "error ulp"
R2 = 0.99
Key = dict[str, str | int]
Step = Callable[[int, int, str], None]  # how many are done, of how many, and what comes next


class Quartiles(NamedTuple):
    """Median and quartiles of n repetitions; of one, or of a count, all three are the same."""

    median: float
    low: float
    high: float
    n: int = 1

    def times(self, factor: float) -> Quartiles:
        return Quartiles(self.median * factor, self.low * factor, self.high * factor, self.n)


def spread(values: Sequence[float]) -> Quartiles:
    if len(values) == 1:
        return exact(values[0])
    low, median, high = statistics.quantiles([float(v) for v in values], n=4, method="inclusive")
    return Quartiles(median, low, high, len(values))


def exact(value: float) -> Quartiles:
    """A number that does not vary, such as a count."""
    return Quartiles(float(value), float(value), float(value))


class StraightLine(NamedTuple):
    """y = intercept + slope x, and the share of y's variance that it explains."""

    intercept: float
    slope: float
    r2: float

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x


def line(x: Sequence[float], y: Sequence[float]) -> StraightLine:
    """Least squares; through two points it is exact, through one it is proportional."""
    if len(x) == 1:
        return StraightLine(0.0, y[0] / x[0], 1.0)
    slope, intercept = np.polyfit(x, y, 1)
    rest = float(np.sum((np.asarray(y) - intercept - slope * np.asarray(x)) ** 2))
    whole = float(np.sum((np.asarray(y) - np.mean(y)) ** 2))
    return StraightLine(float(intercept), float(slope), 1.0 - rest / whole if whole else 1.0)


def origin() -> dict[str, Any]:
    """Where a number comes from: machine, commit, versions. A number without them is worth nothing later."""
    found = home.find()
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.is_file() else []
    model = next((text.split(":", 1)[1].strip() for text in lines if text.startswith("model name")), "")
    return {
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        # What a ratio between two machines could be due to; no name and no path of this one.
        "machine": {
            "processor": model or platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "load": round(os.getloadavg()[0], 2),
        },
        "versions": versions(),
        "mp_spdz": found.version() if found else None,
    }


def commit() -> str:
    """Of the checkout that this package runs from, `-dirty` if it was changed; empty for an installed package."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        code, text = process.run(command, directory=Path(__file__).parent, timeout=10.0)
    except OSError:
        return ""
    return text.strip() if code == 0 else ""


@dataclass(frozen=True)
class Cell:
    """One thing measured.

    key : what it is (engine, M, d, ...); values : what it cost, by name and unit ("online s")
    scaled_from : the d that was measured, where the values were scaled to the d of the key; 0 if they were measured
    missing : why there is nothing, and how to get it
    """

    key: Key
    values: dict[str, Quartiles] = field(default_factory=dict)
    scaled_from: int = 0
    missing: str = ""

    @property
    def name(self) -> str:
        return ", ".join(f"{v}" if isinstance(v, str) else f"{k} = {v:,}" for k, v in self.key.items() if v != "")

    @property
    def identity(self) -> tuple[tuple[str, str | int], ...]:
        return tuple(sorted(self.key.items()))

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
class Measurement:
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


def load(path: Path) -> Measurement:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise ValueError("another format")
        cells = [
            Cell(**(c | {"values": {n: Quartiles(**v) for n, v in c["values"].items()}})) for c in content.pop("cells")
        ]
        checks = [Check(**{n: v for n, v in c.items() if n != "ok"}) for c in content.pop("checks")]
        return Measurement(cells=cells, checks=checks, **content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a result of a benchmark ({error}).",
            "a JSON file that `pdml-spdz bench` of this version wrote",
            "measure again with `pdml-spdz bench ... --json FILE`",
        ) from None


def scaled(cells: list[Cell], key: Key, d: int) -> Cell:
    """The cell at d from those of the two largest d: seconds alone, on their line, marked with the largest d.

    Quartiles keep their relative distance from the median.
    """
    known = sorted(cells, key=lambda c: int(c.key["d"]))[-2:]
    sizes = [float(c.key["d"]) for c in known]
    values = {}
    for name, value in known[-1].values.items():
        if name.endswith(" s") and value.median:
            found = line(sizes, [c.values[name].median for c in known]).at(d)
            if found < 0.999 * value.median:  # noise: nothing costs less for a larger d, so at most all grows with d
                found = value.median * d / sizes[-1]
            values[name] = value.times(found / value.median)
    return Cell(key, values, scaled_from=int(known[-1].key["d"]))


def _rows(result: Measurement) -> Iterator[list[Any]]:
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


def straight(cells: Sequence[Cell], along: str, names: Sequence[str]) -> list[Check]:
    """That the values are straight lines in `along`, with everything else in the key the same.

    Of each engine's series the one with most points counts, then the one with the largest numbers; three points at
    least, and none of them scaled.
    """
    series: dict[tuple[str | int, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if not cell.missing and not cell.scaled_from:
            series[tuple(v for n, v in cell.key.items() if n != along)].append(cell)
    best: dict[str | int, tuple[tuple[int, float], list[Cell]]] = {}
    for same in series.values():
        size = len(same), float(sum(v for n, v in same[0].key.items() if isinstance(v, int) and n != along))
        engine = same[0].key["engine"]
        if len(same) >= 3 and size > best.get(engine, ((0, 0.0), []))[0]:
            best[engine] = size, same
    found = []
    for engine, (_, same) in best.items():
        x = [float(c.key[along]) for c in same]
        rest = ", ".join(f"{n} = {v:,}" for n, v in same[0].key.items() if isinstance(v, int) and n != along)
        for name in names:
            y = [c.values[name].median for c in same if name in c.values]
            if len(y) == len(x) and any(y):
                what = f"{engine}: {name} of a party is a straight line in {along} up to {max(x):,.0f} ({rest}), R^2"
                found.append(Check(what, line(x, y).r2, R2))
    return found


def constant(cells: Sequence[Cell], along: str, names: Sequence[str]) -> list[Check]:
    """That the values do not change with `along`."""
    found = []
    for engine in dict.fromkeys(c.key["engine"] for c in cells):
        mine = [c for c in cells if c.key["engine"] == engine and c.values]
        for name in names:
            y = [c.values[name].median for c in mine if name in c.values]
            if len(y) >= 2 and max(y) > 0:
                what = f"{engine}: {name} of a party by {along} from {min(int(c.key[along]) for c in mine):,} to "
                what += f"{max(int(c.key[along]) for c in mine):,}, relative change"
                found.append(Check(what, (max(y) - min(y)) / max(y), 1e-3, at_least=False))
    return found
