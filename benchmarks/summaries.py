"""One screen at the top of each long generated page: what was found, from the tables and verdicts below it.

    python -m benchmarks.summaries        writes those of docs/ again

The generators of the pages call `summarised` before they write, so that a summary cannot say what its page does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- in short: from the tables below -->", "<!-- in short: end -->"
# Of "Wanted and found": what a reader asks first -> how the line of the table begins.
ASKED = {
    "How long does the paper's regression take, from files to result? (the paper: 1.2 hours online)": "PCR (d = 100",
    "One NormedSecSum of 10,000 numbers against MPyC, offline phase included": (
        "cold, d = 10^4: MPyC (f = 31) / embedded with offline"
    ),
    "A column of a fit, the same": "in a fit (k = 7), d = 10^4: MPyC (f = 31)",
    "A column of a fit against the paper's own program, online": (
        "in a fit, d = 100: the paper's program on MP-SPDZ (semi) / embedded, online"
    ),
    "An iteration on secret shares against one with open sums": "in a fit (k = 7), d = 10^4: iteration online",
    "An iteration with SecSum against one without any protection": "an iteration with secsum / plain",
    "Forecast and real run of the regression over a line of 100 Mbit/s, 100 ms": "PCR over 100 Mbit/s",
}


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a page: lines of cells, the names of the columns first."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, re.M)
    lines = [[[c.strip() for c in line.strip("|").split(" | ")] for line in t.splitlines()] for t in found]
    return [[t[0], *t[2:]] for t in lines if len(t) > 2]


def table(text: str, *columns: str) -> list[list[str]]:
    """The lines of the first table whose columns begin like this; none if there is no such table."""
    return next((t[1:] for t in tables(text) if t[0][: len(columns)] == list(columns)), [])


def performance(text: str) -> list[str]:
    checks = table(text, "", "wanted", "found")
    if not checks:
        return []
    met = [c for c in checks if c[3] == "yes"]
    lines = [f"Of {len(checks)} figures that were promised {len(met)} were found."]
    lines += [f"- **Not**: {c[0]}: wanted {c[1]}, found {c[2]} ({c[3]})" for c in checks if c not in met]
    asked = [(what, c) for what, begin in ASKED.items() for c in checks if c[0].startswith(begin)]
    answers = [f"| {what} | {c[2]} | {c[1]} |" for what, c in asked]
    return [*lines, "", "| | found | wanted |", "| --- | --- | --- |", *answers] if answers else lines


def experiments(text: str) -> list[str]:
    """The verdicts, by experiment."""
    lines = []
    for section in re.split(r"^###? ", text, flags=re.M)[1:]:
        name = section.partition("\n")[0]
        link = f"[{name}](#{re.sub(r'[^a-z0-9 -]', '', name.lower()).replace(' ', '-')})"
        for which, verdict in re.findall(r"^(?:- ([^:\n]+): )?(Joining helps in .*)$", section, re.M):
            lines.append(f"| {link} | {which or 'joint model against own'} | {verdict} |")
        if found := re.search(r"^Hyperband is no worse.*$", section, re.M):
            lines.append(f"| {link} | Hyperband against a grid | {found[0]} |")
    return ["| experiment | reading | found |", "| --- | --- | --- |", *lines] if lines else []


def privacy(text: str) -> list[str]:
    claims = table(text, "claim", "holds here")
    lines = ["| the paper's claim | holds here |", "| --- | --- |", *(f"| {c[0]} | {c[1]} |" for c in claims)]
    levels = next((t for t in tables(text) if t[0][:2] == ["level", "every party sees"]), None)
    if levels:
        cells = levels[0][2:]
        lines += ["", "Records that can be told, by what an observer sees:", ""]
        lines += [f"| level | {' | '.join(cells)} |", "| --- |" + " --- |" * len(cells)]
        lines += [f"| {' | '.join([line[0], *line[2:]])} |" for line in levels[1:]]
    return lines if claims or levels else []


PAGES: dict[str, Callable[[str], list[str]]] = {
    "performance.md": performance,
    "experiments.md": experiments,
    "privacy-results.md": privacy,
}


def summarised(text: str, summary: Callable[[str], list[str]]) -> str:
    """The page with its summary after its title, in the place of an earlier one."""
    text = re.sub(rf"{re.escape(BEGIN)}.*?{re.escape(END)}\n\n", "", text, flags=re.S)
    lines = summary(text)
    title, _, rest = text.partition("\n\n")
    short = [f"{title}\n", BEGIN, "", "## In short", "", *lines, "", "The rest of this page has all tables.", END]
    return "\n".join(short) + f"\n\n{rest}" if lines else text


if __name__ == "__main__":
    for name, summary in PAGES.items():
        page = DOCS / name
        page.write_text(summarised(page.read_text(encoding="utf-8"), summary), encoding="utf-8")
