"""Pictures of loadings as SVG text: a heat map, bars, a biplot."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.results.charts import COLOURS, HEIGHT, TOP, WIDTH, svg

CELL, NAME, LETTERS = 16, 190, 28  # pixels of a cell and of a name; letters of a name that are shown
ARROWS, SHORTEST, LINE = 10, 0.1, 11  # features in a biplot, the shortest of them, and pixels between their names
BLUE, RED = (33, 102, 172), (178, 24, 43)  # of the smallest and of the largest number; zero is white


def shortened(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def heat_map(title: str, names: Sequence[str], labels: Sequence[str], loadings: Reals) -> str:
    """loadings : (features, components); blue is below zero, red above, white is zero"""
    n, k = loadings.shape
    wide = max(CELL, min(44, 460 // max(k, 1)))
    largest = float(np.abs(loadings).max(initial=0.0)) or 1.0
    body = []
    for j, label in enumerate(labels):
        x = NAME + (j + 0.5) * wide
        body.append(f'<text x="{x:.1f}" y="{TOP + 8}" text-anchor="middle">{escape(label)}</text>')
    top = TOP + 14
    for i, name in enumerate(names):
        body.append(_text(NAME - 6, top + (i + 0.75) * CELL, shortened(name), "end"))
        for j in range(k):
            place = f'x="{NAME + j * wide}" y="{top + i * CELL}" width="{wide}" height="{CELL}"'
            value = float(loadings[i, j])
            said = f"<title>{escape(name)}, {escape(labels[j])}: {value:.4g}</title>"
            body.append(f'<rect {place} fill="{colour(value / largest)}" stroke="#eee">{said}</rect>')
    return svg(title, max(NAME + k * wide + 10, WIDTH), top + n * CELL + 10, body)


def colour(share: float) -> str:
    far = min(abs(share), 1.0)
    return "#{:02x}{:02x}{:02x}".format(*(round(255 + far * (c - 255)) for c in (RED if share > 0 else BLUE)))


def bars(title: str, names: Sequence[str], values: Sequence[float]) -> str:
    """One bar for each name, left or right of zero."""
    largest = max((abs(v) for v in values), default=0.0) or 1.0
    both = any(v < 0 for v in values)
    width, middle = 150, NAME + (75 if both else 0)
    unit = (width / 2 if both else width) / largest
    body = [f'<path d="M{middle} {TOP}V{TOP + len(names) * CELL}" stroke="#888"/>']
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        y = TOP + i * CELL
        left = middle + min(value, 0.0) * unit
        colour = COLOURS[1] if value > 0 else COLOURS[0]
        body.append(_text(NAME - 6, y + 0.75 * CELL, shortened(name), "end"))
        size = f'width="{abs(value) * unit:.1f}" height="{CELL - 4}"'
        body.append(f'<rect x="{left:.1f}" y="{y + 2}" {size} fill="{colour}"><title>{value:.4g}</title></rect>')
        body.append(_text(NAME + width + 6, y + 0.75 * CELL, f"{value:.3g}"))
    return svg(title, NAME + width + 75, TOP + len(names) * CELL + 8, body)


def biplot(title: str, scores: Reals, names: Sequence[str], loadings: Reals, labels: Sequence[str]) -> str:
    """Rows as dots at their first two coordinates, features as arrows along their first two loadings."""
    side, edge = 460, 40
    reach = float(np.abs(scores).max(initial=0.0)) or 1.0
    half = side / 2 - edge

    def at(x: float, y: float) -> tuple[float, float]:
        return side / 2 + half * x, side / 2 + TOP - half * y

    body = [f'<path d="M{edge} {at(0, 0)[1]:.1f}H{side - edge}M{at(0, 0)[0]:.1f} {TOP + edge}V{side}" stroke="#ccc"/>']
    for x, y in scores / reach:
        cx, cy = at(float(x), float(y))
        body.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="2" fill="{COLOURS[0]}" opacity="0.5"/>')
    lengths = np.linalg.norm(loadings, axis=1)
    longest = float(lengths.max(initial=0.0)) or 1.0
    x0, y0 = at(0, 0)
    ends = []
    for i in np.argsort(-lengths, kind="stable")[:ARROWS]:
        if lengths[i] >= SHORTEST * longest:
            x1, y1 = at(*(float(v) for v in 0.9 * loadings[i] / longest))
            body.append(f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="{COLOURS[1]}" stroke-width="1.3"/>')
            ends.append((x1, y1 - 3, shortened(names[i])))
    body += [_text(x, y, name, "middle") for x, y, name in _apart(ends)]
    body.append(_text(side - edge, at(0, 0)[1] + 14, f"{labels[0]} (±{reach:.3g})", "end"))
    body.append(_text(at(0, 0)[0] + 4, TOP + edge + 4, labels[1]))
    return svg(title, max(side, WIDTH), max(side + TOP + 10, HEIGHT), body)


def _apart(ends: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Names where arrows end, from top to bottom; one that another would cover is moved down below it."""
    placed: list[tuple[float, float, str]] = []
    for x, y, name in sorted(ends, key=lambda end: (end[1], end[0])):
        for other_x, other_y, other in sorted(placed, key=lambda end: end[1]):
            if abs(x - other_x) < 3 * (len(name) + len(other)) and abs(y - other_y) < LINE:
                y = other_y + LINE
        placed.append((x, y, name))
    return placed
