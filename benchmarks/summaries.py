"""One screen at the top of each long generated page: what was found, from the tables and verdicts below it; and what
docs/applications.md says of it.

    python -m benchmarks.summaries        writes those of docs/ again

The generators of the pages call `summarised` before they write, so that a summary cannot say what its page does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- in short: from the tables below -->", "<!-- in short: end -->"
# What a reader asks first -> how the line of "Wanted and found" begins, in the newest table that has it.
ASKED = {
    "`make svd`: three parties, 1,797 images of 64 pixels, 7 vectors": "make svd (digits)",
    "`pdml_spdz.svd` of three small arrays (100 x 10)": "pdml_spdz.svd of three 100 x 10 arrays",
    "The paper's regression, from files to result (the paper: 1.2 hours, online)": "PCR from files to result, krylov",
    "The same by the paper's power iteration": "PCR from files to result, power",
    "A secret sum of 10,000 numbers, normalised: MPyC's time over ours": (
        "cold, d = 10^4: MPyC (f = 31) / embedded with offline"
    ),
    "The same within a fit": "in a fit (k = 7), d = 10^4: MPyC (f = 31)",
    "The same within a fit, 100 numbers, online: time of the paper's own program over ours": (
        "in a fit, d = 100: the paper's program on MP-SPDZ (semi) / embedded, online"
    ),
    "The sums of one iteration, normalised on secret shares: their time over that of masked sums (SecSum)": (
        "in a fit (k = 7), d = 10^4: iteration online"
    ),
    "An iteration with masked sums: its time over that without any protection": "an iteration with secsum / plain",
}
GAINS_BEGIN, GAINS_END = "<!-- gains: from experiments.md and privacy-results.md -->", "<!-- gains: end -->"
# Of docs/applications.md: application, what is common -> section of docs/experiments.md, reading
GAINS = {
    ("low-rank approximation", "V"): ("lra", ""),
    ("principal component regression, coefficients of all rows", "V and the coefficients"): ("pcr", "Combined rows"),
    ("the same, coefficients of its own rows", "V"): ("pcr", "Own rows"),
    ("topics", "T"): ("topics", ""),
    ("recommendations", "T"): ("recommender", ""),
}
EXPERIMENTS = {
    "pcr": "principal component regression",
    "lra": "low-rank approximation",
    "Hyperband": "search for penalties",
}


def tables(text: str) -> list[list[list[str]]]:
    """All tables of a page: lines of cells, the names of the columns first."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, re.M)
    lines = [[[c.strip() for c in line.strip("|").split(" | ")] for line in t.splitlines()] for t in found]
    return [[t[0], *t[2:]] for t in lines if len(t) > 2]


def table(text: str, *columns: str) -> list[list[str]]:
    """The lines of the first table whose columns begin like this; none if there is no such table."""
    return next((t[1:] for t in tables(text) if t[0][: len(columns)] == list(columns)), [])


BEFORE = "(earlier)"  # of a part that the page's last run has not measured again


def promised(text: str) -> list[list[str]]:
    """The lines of docs/performance.md that say what was wanted and found, the newest first."""
    return [line for t in tables(text) if t[0][:3] == ["", "wanted", "found"] for line in t[1:]]


def performance(text: str) -> list[str]:
    every = promised(text)
    if not every:
        return []
    now, before = ([c for c in every if c[-1].endswith(BEFORE) == earlier] for earlier in (False, True))
    asked = [(what, c) for what, begin in ASKED.items() for c in [*now, *before] if c[0].startswith(begin)]
    asked = [(what, c) for i, (what, c) in enumerate(asked) if what not in dict(asked[:i])]
    lines = [f"| {what}{'' if c in now else f' {BEFORE}'} | {c[2]} | {c[1]} |" for what, c in asked]
    lines = ["| | found | aim |", "| --- | --- | --- |", *lines, ""] if lines else []
    for which, checks in (("", now), (" of earlier commits", before)):
        if checks:
            met = [c for c in checks if c[3] == "yes"]
            lines.append(
                f"Of {len(checks)} aims{which} {len(met)} were met" + (". **Missed**:" if checks != met else ".")
            )
            lines += ["", *(f"- {c[0]}: wanted {c[1]}, found **{c[2]}**" for c in checks if c not in met), ""]
    return [line for line, after in zip(lines, [*lines[1:], ""], strict=True) if line or after]


def _sections(text: str) -> list[tuple[str, str, bool]]:
    """Of docs/experiments.md: name, text, and whether its cells are of the small grid."""
    found, small = [], False
    for level, section in re.findall(r"^(###?) (.*?)(?=^###? |\Z)", text, re.M | re.S):
        name = section.partition("\n")[0]
        small = name.startswith("The small grid") if level == "##" else small
        found.append((name, section, small))
    return found


def _verdicts(section: str) -> list[tuple[str, str]]:
    return re.findall(r"^(?:- ([^:\n]+): )?(Joining helps in .*)$", section, re.M)


def experiments(text: str) -> list[str]:
    """The verdicts, by experiment, and which of them rest on a smaller grid than the paper's."""
    lines = []
    for name, section, small in _sections(text):
        grid = "small" if small else "the paper's, as far as it is there"
        link = f"[{EXPERIMENTS.get(name, name)}](#{re.sub(r'[^a-z0-9 -]', '', name.lower()).replace(' ', '-')})"
        for which, verdict in _verdicts(section):
            lines.append(f"| {link} | {which or 'joint model against own'} | {verdict} | {grid} |")
        if found := re.search(r"^Hyperband is no worse.*$", section, re.M):
            size = "parties of 2 %" if small else "parties of 10 %"  # a comparison of ours: the paper has none
            lines.append(f"| {link} | Hyperband against a grid | {found[0]} | {size} |")
    return ["| experiment | reading | found | sizes |", "| --- | --- | --- | --- |", *lines] if lines else []


def gains(page: str, of_experiments: str, of_privacy: str) -> str:
    """docs/applications.md with what a party gains by joining, in the place of what it said before."""
    # The paper's grid comes first on the page, and counts where it has an answer.
    sections = {name: (section, small) for name, section, small in reversed(_sections(of_experiments))}
    lines = ["| | what is common | a party gains by joining |", "| --- | --- | --- |"]
    for (what, common), (name, reading) in GAINS.items():
        section, small = sections[name]
        settings = dict(_verdicts(section))[reading].removeprefix("Joining helps ").partition(";")[0]
        uplift = [
            float(line[h.index("uplift, %")].split()[0])
            for h, *rest in tables(section)
            for line in rest
            if "uplift, %" in h
        ]
        size = f", by {min(uplift):.1f} to {max(uplift):.1f} %" if uplift else ""
        lines.append(f"| {what} | {common} | {settings}{size}{' (a small grid)' if small else ''} |")
    claims = table(of_privacy, "claim", "holds here")
    more = [
        f"With 2,000 terms instead of 10,000, k = 7 and no mail at two parties, topics gained {c[1].strip('*')} "
        "([privacy-results.md](privacy-results.md))."
        for c in claims
        if c[0].startswith("Parties of all sizes gain by joining (topics")
    ]
    begin, _, rest = page.partition(GAINS_BEGIN)
    return (
        "\n".join([begin + GAINS_BEGIN, "", *lines, "", *more, *([""] if more else []), GAINS_END])
        + rest.partition(GAINS_END)[2]
    )


def privacy(text: str) -> list[str]:
    claims = table(text, "claim", "holds here")
    lines = ["| the paper's claim | holds here |", "| --- | --- |", *(f"| {c[0]} | {c[1]} |" for c in claims)]
    levels = next((t for t in tables(text) if t[0][:2] == ["level", "every party sees"]), None)
    if levels:
        cells = levels[0][2:]
        lines += ["", "Records that are distinguishable, by what an observer sees:", ""]
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
    applications, *sources = (DOCS / name for name in ("applications.md", "experiments.md", "privacy-results.md"))
    texts = [path.read_text(encoding="utf-8") for path in (applications, *sources)]
    applications.write_text(gains(*texts), encoding="utf-8")
