"""The results as figures, PNG and SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.experiments.cells import Row

mpl.use("Agg")
# The same bytes for the same numbers, and text as text: small files that can be compared.
mpl.rcParams.update({"svg.hashsalt": "pdml-spdz", "svg.fonttype": "none", "font.size": 8})
from matplotlib import pyplot as plt  # noqa: E402

Key = tuple[str, ...]
MARKERS = (("o", 3), ("s", 6), ("^", 3), ("D", 5), ("v", 3))  # curves that coincide can still be told


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean, and the standard deviation of the mean."""
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(np.mean(values)), spread


def grouped(rows: Iterable[Row], key: Callable[[Row], Key], value: str) -> dict[Key, list[float]]:
    groups: dict[Key, list[float]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(float(row[value]))
    return dict(groups)


def _panels(count: int) -> tuple[Any, list[Any]]:
    figure, axes = plt.subplots(1, count, figsize=(3.2 * count, 2.8), squeeze=False, layout="constrained")
    return figure, list(axes[0])


def _curve(axes: Any, rows: list[Row], x: str, value: str, *, factor: float = 1.0, **style: Any) -> None:
    points = sorted((float(at), *mean_and_error(v)) for (at,), v in grouped(rows, lambda r: (r[x],), value).items())
    at, means, errors = zip(*points, strict=True)
    style = {"marker": "o", "markersize": 3, "linewidth": 1, "capsize": 2} | style
    axes.errorbar([factor * a for a in at], means, errors, **style)


def _uplift_axes(axes: Any, title: str, *, wide: bool) -> None:
    """Uplift by party size; a party's own model is the line at 0. wide : from large losses to small gains"""
    axes.axhline(0, color="grey", linewidth=0.8, linestyle="--", label="local only")
    axes.set(xscale="log", xlabel="party size (% of all rows)", ylabel="uplift (%)", title=title)
    if wide:
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")


def _legend_below(figure: Any, axes: Any) -> None:
    """One for all panels, beside the data and not on them."""
    figure.legend(*axes.get_legend_handles_labels(), fontsize=7, loc="outside lower center", ncols=5)


@dataclass(frozen=True)
class Figures:
    """Where figures go, and as what: png, svg"""

    out: Path
    endings: tuple[str, ...]

    def _save(self, figure: Any, name: str) -> None:
        for ending in self.endings:
            metadata = {"Date": None} if ending == "svg" else None
            figure.savefig(self.out / f"{name}.{ending}", bbox_inches="tight", dpi=110, metadata=metadata)
        plt.close(figure)

    def uplift(self, experiment: str, rows: list[Row], methods: dict[str, str] | None = None) -> None:
        """One panel for each data set, one curve for each k, or (methods: their names) for each method: uplift by party
        size.
        """
        by = "k" if methods is None else "method"
        labels = methods or {k: f"k = {k}" for k in sorted({r["k"] for r in rows}, key=int)}
        names = sorted({r["data"] for r in rows})
        figure, panels = _panels(len(names))
        for axes, name in zip(panels, names, strict=True):
            for i, (value, label) in enumerate(labels.items()):
                mine = [r for r in rows if (r["data"], r[by]) == (name, value)]
                if mine:
                    marker, size = MARKERS[i]
                    style: dict[str, Any] = {"label": label, "color": f"C{i}", "markerfacecolor": "none"}
                    style |= {"marker": marker, "markersize": size}
                    _curve(axes, mine, "party_share", "uplift_percent", factor=100, **style)
            _uplift_axes(axes, name, wide=methods is not None)
        _legend_below(figure, panels[0])
        self._save(figure, experiment)

    def pcr(self, rows: list[Row]) -> None:
        """Uplift by party size with beta of all rows, and with beta of the party's own rows on the common V."""
        rows = [r for r in rows if r["form"] == "scaled"]
        names = sorted({r["data"] for r in rows})
        figure, panels = _panels(len(names))
        for axes, name in zip(panels, names, strict=True):
            for i, k in enumerate(sorted({int(r["k"]) for r in rows})):
                mine = [r for r in rows if (r["data"], r["k"]) == (name, str(k))]
                style: dict[str, Any] = {"factor": 100, "color": f"C{i}"}
                _curve(axes, mine, "party_share", "uplift_percent", label=f"k = {k}", **style)
                _curve(axes, mine, "party_share", "own_beta_percent", linestyle=":", **style)
            _uplift_axes(axes, f"{name}, scaled", wide=True)
        _legend_below(figure, panels[0])
        self._save(figure, "pcr")

    def pcr_why(self, rows: list[Row]) -> None:
        """For the smallest parties, by k: the variance that fitting beta adds, with own and with common components."""
        least = min(float(r["party_share"]) for r in rows)
        rows = [r for r in rows if r["form"] == "scaled" and float(r["party_share"]) == least]
        names = sorted({r["data"] for r in rows})
        figure, panels = _panels(len(names))
        for axes, name in zip(panels, names, strict=True):
            mine = [r for r in rows if r["data"] == name]
            _curve(axes, mine, "k", "leverage_own_v", label="own components")
            _curve(axes, mine, "k", "leverage_common_v", label="common components")
            axes.set(
                yscale="log", xlabel="k", ylabel="leverage of held-out rows", title=f"{name}, {100 * least:g} % parties"
            )
            axes.legend(fontsize=7)
        self._save(figure, "pcr_why")

    def starts(self, rows: list[Row], value: str, label: str, name: str) -> None:
        """One panel for each data set: the measure by number of sweeps, one curve for each start."""
        names = sorted({r["data"] for r in rows})
        figure, panels = _panels(len(names))
        for axes, data in zip(panels, names, strict=True):
            for start in dict.fromkeys(r["start"] for r in rows):
                mine = [r for r in rows if (r["data"], r["start"]) == (data, start)]
                _curve(axes, mine, "tau", value, label=start)
            axes.set(xscale="log", xlabel="sweeps", ylabel=label, title=data)
            taus = sorted({int(r["tau"]) for r in rows})
            axes.set_xticks(taus, [str(tau) for tau in taus], minor=False)
            axes.set_xticks([], minor=True)
        panels[-1].legend(fontsize=6)
        self._save(figure, name)
