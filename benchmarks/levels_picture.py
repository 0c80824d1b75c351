"""What does each level show? docs/levels.svg: of the tutorial's three hospitals, what every party has seen in the end.

    python -m benchmarks.levels_picture

Covariance and components are computed from the tables of examples/hospitals; how many records are distinguishable is
read from the table of levels in docs/privacy-results.md. A test draws it again and compares.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from html import escape
from pathlib import Path

import numpy as np

from benchmarks.privacy.page import standalone
from benchmarks.summaries import tables as tables_of
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import fix_signs
from pdml_spdz.results.charts import COLOURS
from pdml_spdz.results.pictures import colour

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "levels.svg"
K, CELL, WIDE, HIGH = 3, 10, 250, 250
LEFT_OUT = ("patient", "admitted", "ward", "admission", "smoker")
# Title, what is seen, and the line of the table of levels.
PANELS = {
    "sum": ("all see the covariance of all rows", "`--reveal sum`"),
    "normed (the default)": ("all see it, up to one factor c", "`--reveal normed`"),
    "sealed": ("all see V, and ratios of 2k numbers", "`--reveal sealed`"),
    "the result alone": ("all see V: no level shows less", "V_k alone"),
}


def tables() -> Reals:
    """The measurements of all three hospitals, scaled; gaps get the mean."""
    spec = importlib.util.spec_from_file_location("hospitals", ROOT / "examples" / "hospitals" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    hospitals = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hospitals)
    rows = []
    for hospital in hospitals.SIZES:
        text = hospitals.table(hospital)
        mark = ";" if ";" in text else ","
        for row in csv.DictReader(io.StringIO(text), delimiter=mark):
            cells = [row[name].replace(",", ".") for name in sorted(row) if name not in LEFT_OUT]
            rows.append([float(cell) if cell not in ("", "NA") else np.nan for cell in cells])
    X = np.array(rows)
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def told(data: str = "Enron", size: str = "33.3 %") -> tuple[dict[str, int], int]:
    """Records that are distinguishable by what each level shows, and of how many: a column of the table of levels."""
    found = tables_of((ROOT / "docs" / "privacy-results.md").read_text(encoding="utf-8"))
    names, *lines = next(t for t in found if t[0][:2] == ["level", "every party sees"])
    column = next(i for i, name in enumerate(names) if name.startswith(f"{data} {size}, of "))
    return {line[0]: int(line[column]) for line in lines}, int(names[column].rpartition(" ")[2])


def _map(matrix: Reals, x: float, y: float) -> str:
    largest = float(np.abs(matrix).max())
    return "".join(
        f'<rect x="{x + j * CELL:.0f}" y="{y + i * CELL:.0f}" width="{CELL}" height="{CELL}" '
        f'fill="{colour(float(v) / largest)}"/>'
        for (i, j), v in np.ndenumerate(matrix)
    )


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}>{escape(words)}</text>'


def picture() -> str:
    X = tables()
    S = X.T @ X / len(X)
    values, V = np.linalg.eigh(S)
    values, V = values[::-1], fix_signs(V[:, ::-1])
    found, of = told()
    body = []
    for i, (title, (seen, line)) in enumerate(PANELS.items()):
        x, y = 14 + WIDE * (i % 2), 12 + HIGH * (i // 2)
        body += [_text(x, y + 12, title, ' class="t"'), _text(x, y + 28, seen)]
        top, side = y + 38, len(S) * CELL
        if i < 2:
            body.append(_map(S, x, top))
            body.append(_text(x + side + 10, top + 12, "as it is" if i == 0 else "times c"))
        else:
            body.append(f'<rect x="{x}" y="{top}" width="{side}" height="{side}" fill="#e9ecef"/>')
            body.append(_text(x + 6, top + side / 2, "covariance: not opened", ' fill="#444"'))
            body.append(_map(V[:, :K], x + side + 10, top))
        if i == 2:
            for j, share in enumerate(values[: 2 * K] / values[: 2 * K].sum()):
                tall = 90 * float(share) / float(values[0] / values[: 2 * K].sum())
                place = f'x="{x + side + 46 + 7 * j}" y="{top + side - tall:.1f}" width="5" height="{tall:.1f}"'
                body.append(f'<rect {place} fill="{COLOURS[0]}"/>')
        share = found[line] / of
        bar = top + side + 14
        body.append(f'<rect x="{x}" y="{bar}" width="200" height="10" fill="#e9ecef"/>')
        body.append(f'<rect x="{x}" y="{bar}" width="{200 * share:.1f}" height="10" fill="{COLOURS[1]}"/>')
        body.append(_text(x, bar + 24, f"≥ {found[line]} of {of} mails distinguishable"))
    width, height = 2 * WIDE + 14, 2 * HIGH - 14
    title = "What every party sees at each level"
    return standalone(
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}">'
        f"{''.join(body)}</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
