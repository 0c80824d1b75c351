"""Small charts as SVG text, for a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 26, 40
COLOURS = ("#1b6ca8", "#c0392b", "#1d7044", "#8e44ad", "#555555", "#8a5a00", "#00707a")  # readable on white


@dataclass(frozen=True)
class Curve:
    """kind : "line", "steps" or "dots" """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "line"
    dashed: bool = False


def chart(
    title: str,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    *,
    x_log: bool = False,
    y_log: bool = False,
    top: float = 0.0,
) -> str:
    """One chart with a legend below it; axes from zero (logarithmic: from a power of ten) to the largest
    number, y at least to `top`.
    """
    xs = np.concatenate([np.asarray(c.x, float) for c in curves])
    ys = np.concatenate([np.asarray(c.y, float) for c in curves])
    x_high, y_high = max(float(xs.max(initial=0.0)), 1e-9), max(float(ys.max(initial=top)), 1e-9)
    scale = _Axes(_floor(xs, x_log), x_high, _floor(ys, y_log), y_high, x_log, y_log)
    body = [_axes(scale, x_label, y_label)]
    named = 0
    for i, curve in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        body.append(_draw(scale, curve, colour))
        if curve.label:
            body.append(_legend(named, curve, colour))
            named += 1
    return svg(title, WIDTH, HEIGHT + 15 * ((named + 1) // 2), body)


def _legend(place: int, curve: Curve, colour: str) -> str:
    """Two labels on a line."""
    x, y = LEFT + 200 * (place % 2), HEIGHT + 8 + 15 * (place // 2)
    mark = f'<path d="M{x} {y - 4}h16" stroke="{colour}" stroke-width="3"{_dashes(curve)}/>'
    return f'{mark}<text x="{x + 22}" y="{y}" fill="{colour}">{escape(curve.label)}</text>'


def _dashes(curve: Curve) -> str:
    return ' stroke-dasharray="4 3"' if curve.dashed else ""


def svg(title: str, width: float, height: float, body: Sequence[str]) -> str:
    """A picture with its title, which is also what is read out instead of it."""
    head = f'<text x="{LEFT}" y="16" class="t">{escape(title)}</text>'
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{head}{"".join(body)}</svg>'
    )


def _floor(values: Reals, log: bool) -> float:
    """Where an axis begins."""
    return float(10.0 ** np.floor(np.log10(max(values[values > 0].min(initial=1.0), 1e-30)))) if log else 0.0


@dataclass(frozen=True)
class _Axes:
    x_low: float
    x_high: float
    y_low: float
    y_high: float
    x_log: bool
    y_log: bool

    def x(self, value: float) -> float:
        return LEFT + _share(value, self.x_low, self.x_high, self.x_log) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - _share(value, self.y_low, self.y_high, self.y_log) * (HEIGHT - TOP - BOTTOM)


def _share(value: float, low: float, high: float, log: bool) -> float:
    """How far along an axis a value is, from 0 to 1."""
    if log:
        low, high, value = np.log10(low), np.log10(high), np.log10(max(value, low))
    return float((value - low) / (high - low)) if high > low else 0.0


def _draw(scale: _Axes, curve: Curve, colour: str) -> str:
    points = [(scale.x(float(x)), scale.y(float(y))) for x, y in zip(curve.x, curve.y, strict=True)]
    if curve.kind == "dots":
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}" opacity="0.7"/>' for x, y in points)
    if curve.kind == "steps":
        points = [p for (x0, y0), (x1, y1) in pairwise(points) for p in ((x0, y0), (x1, y0), (x1, y1))]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{_dashes(curve)}/>'


def _axes(scale: _Axes, x_label: str, y_label: str) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#888"/>']
    for value in _ticks(scale.x_low, scale.x_high, 5, scale.x_log):
        x = scale.x(value)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{_number(value)}</text>')
    for value in _ticks(scale.y_low, scale.y_high, 3, scale.y_log):
        y = scale.y(value)
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text x="13" y="{middle}" text-anchor="middle" transform="rotate(-90 13 {middle})">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _number(value: float) -> str:
    """Short: there is little room beside an axis."""
    return f"{value:.3g}".replace("e-0", "e-") if value >= 1e-3 or value == 0 else f"{value:.0e}".replace("e-0", "e-")


def _ticks(low: float, high: float, count: int, log: bool) -> list[float]:
    if not log and low == 0.0 and high == int(high) and high > 1:
        return [float(x) for x in range(0, int(high) + 1, max(1, round(high / 6)))]
    if not log:
        return [low + share * (high - low) for share in np.linspace(0.0, 1.0, count)]
    decades = np.arange(np.log10(low), np.log10(high) + 0.01)
    step = max(1, len(decades) // 6)
    return [float(10.0**e) for e in decades[::step]]
