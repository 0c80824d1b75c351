"""Small charts as SVG text, for a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 40
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#555555")


@dataclass(frozen=True)
class Curve:
    """kind : "line", "steps" or "dots" """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "line"
    dashed: bool = False


def chart(
    title: str, curves: Sequence[Curve], x_label: str, y_label: str, *, x_log: bool = False, top: float = 0.0
) -> str:
    """One chart with a legend at the upper left; axes from zero (x: from a power of ten) to the largest number, y at
    least to `top`.
    """
    xs = np.concatenate([np.asarray(c.x, float) for c in curves])
    ys = np.concatenate([np.asarray(c.y, float) for c in curves])
    floor = 10.0 ** np.floor(np.log10(max(xs[xs > 0].min(initial=1.0), 1e-30))) if x_log else 0.0
    scale = _Axes(floor, max(float(xs.max(initial=0.0)), 1e-9), max(float(ys.max(initial=top)), 1e-9), x_log)
    body = [_axes(scale, x_label, y_label), f'<text x="{LEFT}" y="16" class="t">{escape(title)}</text>']
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        body.append(_draw(scale, curve, colour))
        body.append(f'<text x="{LEFT + 8}" y="{TOP + 14 * (i + 1)}" fill="{colour}">{escape(curve.label)}</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


@dataclass(frozen=True)
class _Axes:
    x_low: float
    x_high: float
    y_high: float
    x_log: bool

    def x(self, value: float) -> float:
        low, high, v = self.x_low, self.x_high, value
        if self.x_log:
            low, high, v = np.log10(low), np.log10(high), np.log10(max(value, low))
        share = (v - low) / (high - low) if high > low else 0.0
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.y_high * (HEIGHT - TOP - BOTTOM)


def _draw(scale: _Axes, curve: Curve, colour: str) -> str:
    points = [(scale.x(float(x)), scale.y(float(y))) for x, y in zip(curve.x, curve.y, strict=True)]
    if curve.kind == "dots":
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" opacity="0.7"/>' for x, y in points)
    if curve.kind == "steps":
        points = [p for (x0, y0), (x1, y1) in pairwise(points) for p in ((x0, y0), (x1, y0), (x1, y1))]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="4 3"' if curve.dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>'


def _axes(scale: _Axes, x_label: str, y_label: str) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/>']
    for value in _ticks(scale):
        x = scale.x(value)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{value:.3g}</text>')
    for share in (0.0, 0.5, 1.0):
        y = scale.y(share * scale.y_high)
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{share * scale.y_high:.3g}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _ticks(scale: _Axes) -> list[float]:
    if not scale.x_log:
        return [scale.x_low + share * (scale.x_high - scale.x_low) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    decades = np.arange(np.log10(scale.x_low), np.log10(scale.x_high) + 0.01)
    step = max(1, len(decades) // 6)
    return [float(10.0**e) for e in decades[::step]]
