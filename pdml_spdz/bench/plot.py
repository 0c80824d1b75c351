"""Figures of results, as PNG and SVG."""

from __future__ import annotations

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pdml_spdz.bench.normed_sum import PAPER
from pdml_spdz.bench.results import Cell, Result
from pdml_spdz.bench.tables import row_name
from pdml_spdz.errors import EngineError
from pdml_spdz.system.files import writing

ENDINGS = ("png", "svg")


def plot(result: Result, path: Path) -> list[Path]:
    """The figure of a result at path.png and path.svg; none for benchmarks that have no figure."""
    draw = {"normed-sum": _normed_sum, "precision": _precision}.get(result.benchmark)
    if draw is None or not any(c.values for c in result.cells):
        return []
    figure = draw(result, _pyplot())
    paths = [path.with_suffix(f".{ending}") for ending in ENDINGS]
    with writing(path):
        for file in paths:
            figure.savefig(file, bbox_inches="tight", dpi=110, metadata={"Date": None} if file.suffix == ".svg" else {})
    _pyplot().close(figure)
    return paths


def require() -> None:
    """Raise, before anything is measured, if nothing can be drawn here."""
    if find_spec("matplotlib") is None:
        raise EngineError("there is no matplotlib here to draw with.", do="pip install 'pdml-spdz[bench]'")


def _pyplot() -> Any:
    require()
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "pdml-spdz"  # the same file for the same result
    from matplotlib import pyplot

    return pyplot


def _normed_sum(result: Result, plt: Any) -> Any:
    """Seconds by d, both logarithmic, a panel for each M; what was scaled has an empty marker."""
    every = sorted({int(c.key["M"]) for c in result.cells if c.values})
    figure, panels = plt.subplots(1, len(every), figsize=(4.2 * len(every), 4.2), sharey=True, squeeze=False)
    names = list(dict.fromkeys(row_name(c) for c in result.cells if c.values))
    colours = {name: plt.get_cmap("tab10")(i % 10) for i, name in enumerate(names)}
    for M, axes in zip(every, panels[0], strict=True):
        if M in PAPER:
            axes.plot(list(PAPER[M]), list(PAPER[M].values()), "k^--", label="the paper (2018)")
        for name in names:
            cells = [c for c in result.cells if c.values and c.key["M"] == M and row_name(c) == name]
            _series(axes, sorted(cells, key=lambda c: int(c.key["d"])), name, colours[name])
        axes.set(xscale="log", yscale="log", xlabel="d", title=f"M = {M}")
        axes.grid(visible=True, which="major", alpha=0.3)
    panels[0][0].set_ylabel("seconds online, one NormedSecSum")
    handles = {
        text: handle for axes in panels[0] for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, fontsize=8)
    return figure


def _series(axes: Any, cells: list[Cell], name: str, colour: Any) -> None:
    if not cells:
        return
    x, y = [c.key["d"] for c in cells], [c.values["online s"] for c in cells]
    errors = [[v.median - v.low for v in y], [v.high - v.median for v in y]]
    axes.errorbar(x, [v.median for v in y], errors, label=name, color=colour, linewidth=1)
    for cell, a, b in zip(cells, x, y, strict=True):
        axes.plot(a, b.median, "o", color=colour, markerfacecolor="none" if cell.scaled_from else colour)


def _precision(result: Result, plt: Any) -> Any:
    """Errors by norm (left) and by condition (right), for the largest d."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 4))
    for axes, what, by in ((panels[0], "NormedSecSum", "norm"), (panels[1], "V_k", "condition")):
        cells = [c for c in result.cells if c.key["what"] == what]
        d = max(int(c.key["d"]) for c in cells)
        for i, f in enumerate(sorted({int(c.key["bits"]) for c in cells})):
            for engine, style in (("embedded", "o-"), ("paper", "x--")):
                mine = [c for c in cells if c.fits(engine=engine, bits=f, d=d)]
                x = [2.0 ** -float(c.key[by]) if by == "norm" else float(c.key[by]) for c in mine]
                y = [min(c.values["error"].median, 1.0) for c in mine]
                kept = [(a, b) for a, b in zip(x, y, strict=True) if not math.isnan(b)]
                axes.plot(
                    *(zip(*kept, strict=True) if kept else ([], [])), style, color=f"C{i}", label=f"{engine}, {f} bits"
                )
        axes.set(
            xscale="log", yscale="log", xlabel="||s|| / bound" if by == "norm" else "condition of X", ylabel="error"
        )
        axes.set_title(f"{what}, d = {d}")
        axes.grid(visible=True, alpha=0.3)
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=3, fontsize=8)
    return figure
