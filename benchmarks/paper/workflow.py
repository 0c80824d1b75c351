"""The paper's figure of PD-NMF's workflow, drawn from its steps. [PDML Fig. PD-NMF]"""

from __future__ import annotations

from html import escape

WIDTH, HEIGHT = 860, 270
PARTIES = ("X⁽¹⁾", "X⁽²⁾", "X⁽³⁾")
Y = (80, 140, 200)


def _text(x: float, y: float, text: str, *, size: int = 14, colour: str = "#222", anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="#444"{dash}/>'


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#1b6ca8" stroke-width="1.5" marker-end="url(#a)"/>'


def _column(x: float, names: tuple[str, ...], heights: tuple[float, ...]) -> list[str]:
    """The parties' matrices, one below the other."""
    low, high = heights[0] - 26, heights[-1] + 16
    return [_box(x - 36, low, 72, high - low), *(_text(x, y, name) for name, y in zip(names, heights, strict=True))]


def svg() -> str:
    inner = (95, 140, 185)
    body = [
        _box(8, 22, 844, 240),
        _box(18, 40, 440, 214, dashed=True),
        _text(448, 60, "PD-NMF-Init", colour="#c0392b", anchor="end"),
        _text(842, 44, "PD-NMF", size=16, colour="#c0392b", anchor="end"),
        *_column(70, PARTIES, Y),
        *_column(210, ("T̂⁽¹⁾", "T̂⁽²⁾", "T̂⁽³⁾"), inner),
        *_column(560, PARTIES, Y),
        *(_arrow(108, y - 4, 170, z - 4) for y, z in zip(Y, inner, strict=True)),
        _text(140, 72, "NMF, local", size=11),
        _arrow(250, 136, 388, 136),
        _text(318, 126, "PD-NMF-Iter", size=12),
        _text(318, 156, "weighted topics,", size=11),
        _text(318, 170, "from a random T₀", size=11),
        _text(414, 141, "T_init"),
        _arrow(440, 136, 520, 136),
        _arrow(600, 136, 752, 136),
        _text(676, 126, "PD-NMF-Iter", size=12),
        _text(676, 156, "on all rows,", size=11),
        _text(676, 170, "from T_init", size=11),
        _text(790, 141, "T, the same"),
        _text(790, 157, "at all parties", size=11),
        _text(318, 240, "num, den by SecSum; W stays with its party", size=11, colour="#555"),
        _text(676, 240, "num, den by SecSum; W stays with its party", size=11, colour="#555"),
    ]
    marker = (
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#1b6ca8"/></marker></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return (
        f'{head} font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>{marker}{"".join(body)}</svg>\n'
    )
