"""docs/performance.md: its section on NormedSecSum, with the rows of MP-SPDZ that are kept where they are better known.

    python -m benchmarks.performance.kept_rows     # writes tables, notes and figure

The results that the page was made of are not in the repository: they are read from its tables, to the digits that those
have, and written again as the page's generator does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks import summaries
from benchmarks.performance.mp_spdz import KEPT, whence, with_rows
from benchmarks.performance.page import plot, section
from pdml_spdz.bench.normed_sum import NOTES
from pdml_spdz.bench.results import Cell, Key, Measurement, Quartiles, load
from pdml_spdz.bench.tables import COSTS, entry, label_of, number
from pdml_spdz.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
NAME, ONLINE = "normed-sum", "online s"
SECTION = re.compile(rf"^## {NAME}: (?P<question>.*)\n(?:(?!##? ).*\n)*", re.M)
ROW = re.compile(
    r"(?P<engine>[\w-]+)(?:, (?P<protocol>(?!the |cold|in )\w+))?(?P<paper>, the paper's program)?"
    r"(?:, (?P<where>cold|in a fit) \((?P<bits>\d+) bits\))?(?:: (?P<missing>.+))?"
)
ENTRY = re.compile(
    r"~?(?P<median>[\d.,e+-]+|nan)(?: \((?P<low>[\d.,e+-]+) \.\. (?P<high>[\d.,e+-]+)\))?(?: (?P<unit>s|ms|µs|MB))?"
    r"(?: \[(?P<scaled>[\d,]+)\])?"
)
UNITS = {"ms": 1e-3, "µs": 1e-6}


def measured(page: str) -> list[Cell]:
    """The cells of the section's two tables, in the order of the second, which has those with values alone."""
    tables = summaries.tables(_section(page)[0])
    if [table[0][:2] for table in tables] != [["engine", "M"]] * 2:
        raise _unreadable(f"{len(tables)} tables of {NAME}, or others than of its costs")
    first = {cell.identity: cell for cell in _online(tables[0])}
    head, *lines = tables[1]
    names = [next(name for name in COSTS if label_of(name) == label) for label in head[3:]]
    cells = []
    for name, M, d, *texts in lines:
        cell = first.pop(Cell(_key(name, int(M), _whole(d))).identity)
        more = {n: _value(text)[0] for n, text in zip(names, texts, strict=True) if text}
        cells.append(Cell(cell.key, cell.values | more, cell.scaled_from))
    return [*cells, *first.values()]


def _online(table: list[list[str]]) -> Iterator[Cell]:
    head, *lines = table
    dims = [_whole(title.removeprefix("d = ")) for title in head[2:]]
    for name, M, *texts in lines:
        if name.startswith("the paper ("):
            continue
        for d, text in zip(dims, texts, strict=True):
            key, missing = _key(name, int(M), d), _parsed(ROW, name)["missing"]
            if missing or not ENTRY.fullmatch(text):
                yield Cell(key, missing=missing or text)
            else:
                value, scaled_from = _value(text)
                yield Cell(key, {ONLINE: value}, scaled_from)


def _section(page: str) -> re.Match[str]:
    if found := SECTION.search(page):
        return found
    raise _unreadable(f"no section {NAME}")


def _key(name: str, M: int, d: int) -> Key:
    row = _parsed(ROW, name)
    return {
        "engine": row["engine"],
        "protocol": row["protocol"] or "",
        "program": "paper" if row["paper"] else "projection",
        "where": "fit" if row["where"] == "in a fit" else "cold",
        "bits": int(row["bits"] or 0),
        "M": M,
        "d": d,
    }


def _value(text: str) -> tuple[Quartiles, int]:
    """What a cell of a table says, and the d that it was scaled from, or 0."""
    found = _parsed(ENTRY, text)
    low, median, high = (_number(found[name] or found["median"]) for name in ("low", "median", "high"))
    n = 1 if found["low"] is None else 2
    return Quartiles(median, low, high, n).times(UNITS.get(found["unit"], 1.0)), _whole(found["scaled"] or "0")


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _parsed(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    if found := pattern.fullmatch(text):
        return found
    raise _unreadable(f"{text!r} in a table of {NAME}")


def _unreadable(found: str) -> InputError:
    return InputError(
        f"the page has {found}.",
        "a page that `python -m benchmarks.performance` of this version wrote",
        "measure again with `make bench ARGS='--only normed-sum'`",
    )


def _texts(cell: Cell) -> list[str]:
    """All that the tables show of a cell."""
    return [entry(cell, ONLINE), *(entry(cell, name, lambda v, unit: number(v.median, unit)) for name in COSTS)]


def whole(page: str, kept: Measurement) -> Measurement:
    """What the page has measured, and what is kept; of both whatever is known better."""
    texts = {cell.identity: _texts(cell) for cell in kept.cells if cell.values}
    own = [cell for cell in measured(page) if texts.get(cell.identity) != _texts(cell)]  # the others are kept ones
    joined = with_rows(Measurement(NAME, {}, own, notes=list(NOTES), origin=kept.origin), kept)
    return Measurement(NAME, {}, joined.cells, notes=[*joined.notes, whence(joined, kept)], origin=kept.origin)


def placed(page: str, kept: Measurement) -> str:
    """The page with its section as it is now."""
    found, figure = _section(page), Path(f"{PAGE.stem}-{NAME}.svg")
    lines = section(NAME, found["question"], whole(page, kept), [figure])
    return page[: found.start()] + "\n".join(lines) + "\n\n" + page[found.end() :]


def main() -> None:
    page, kept = PAGE.read_text(encoding="utf-8"), load(KEPT)
    plot(whole(page, kept), PAGE.with_name(f"{PAGE.stem}-{NAME}"))
    PAGE.write_text(placed(page, kept), encoding="utf-8")


if __name__ == "__main__":
    main()
