"""The results as figures and as one page, with the paper's figures beside ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.experiments.cells import Row

mpl.use("Agg")
from matplotlib import pyplot as plt

# [PDML Table "topic modelling"]: means over all its settings; the error depends on the corpus, so only order compares.
PAPER = {
    "best_of_M": (8110.7, 16.9, 44.8),
    "nnsvd": (7903.5, 16.9, 43.8),
    "random": (8216.1, 16.5, 43.9),
    "random 2x": (7919.8, 16.9, 43.8),
    "PD-NMF-Init": (7907.9, 17.0, 43.8),
}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean, and the standard deviation of the mean."""
    spread = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(np.mean(values)), spread


def grouped(rows: list[Row], key: Callable[[Row], tuple[str, ...]], value: str) -> dict[tuple[str, ...], list[float]]:
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(float(row[value]))
    return dict(groups)


def uplift_figure(experiment: str, rows: list[Row], out: Path) -> None:
    """One curve for each data set and k: uplift by party size."""
    figure, axes = plt.subplots(figsize=(5, 3.5))
    for (name, k), _ in sorted(grouped(rows, lambda r: (r["data"], r["k"]), "uplift_percent").items()):
        mine = [r for r in rows if (r["data"], r["k"]) == (name, k)]
        by_share = grouped(mine, lambda r: (r["party_share"],), "uplift_percent")
        shares = sorted(float(s) for (s,) in by_share)
        points = [mean_and_error(by_share[(str(s),)]) for s in shares]
        axes.errorbar(
            [100 * s for s in shares],
            [m for m, _ in points],
            [e for _, e in points],
            marker="o",
            label=f"{name}, k={k}",
        )
    axes.axhline(0, color="grey", linewidth=0.5)
    axes.set(xscale="log", xlabel="party size (% of all rows)", ylabel="uplift (%)", title=experiment)
    axes.legend(fontsize=8)
    for ending in ("png", "svg"):
        figure.savefig(out / f"{experiment}.{ending}", bbox_inches="tight", dpi=120)
    plt.close(figure)


def uplift_table(rows: list[Row]) -> list[str]:
    groups = grouped(rows, lambda r: (r["data"], r["k"], r["party_share"]), "uplift_percent")
    lines = ["| data | k | party size | uplift, % | trials |", "| --- | --- | --- | --- | --- |"]
    for (name, k, share), values in sorted(groups.items(), key=lambda g: (g[0][0], int(g[0][1]), float(g[0][2]))):
        mean, error = mean_and_error(values)
        lines.append(f"| {name} | {k} | {100 * float(share):g} % | {mean:.2f} ± {error:.2f} | {len(values)} |")
    return lines


def starts_table(rows: list[Row]) -> list[str]:
    """Means of cells relative to the best start of the same cell, so that settings can be averaged."""
    lines = [
        "| data | sweeps | start | error / least error | NPMI | perplexity | paper: error, coherence, perplexity |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    cell = ("data", "M", "party_share", "k", "tau", "trial")
    best: dict[tuple[str, ...], float] = {}
    for row in rows:
        key = tuple(row[n] for n in cell)
        best[key] = min(best.get(key, np.inf), float(row["error"]))
    relative = [row | {"relative": float(row["error"]) / best[tuple(row[n] for n in cell)]} for row in rows]
    for name, tau in sorted({(r["data"], r["tau"]) for r in rows}, key=lambda x: (x[0], int(x[1]))):
        mine = [r for r in relative if (r["data"], r["tau"]) == (name, tau)]
        means = {s: mean_and_error([float(r["relative"]) for r in mine if r["start"] == s]) for s in PAPER}
        least = min(m for m, _ in means.values())
        for start, (mean, error) in means.items():
            these = [r for r in mine if r["start"] == start]
            mark = "**" if mean - least <= 3 * (error if np.isfinite(error) else 0.0) else ""
            npmi, _ = mean_and_error([float(r["npmi"]) for r in these])
            perplexity, _ = mean_and_error([float(r["perplexity"]) for r in these])
            paper = ", ".join(str(x) for x in PAPER[start])
            shown = f"{mark}{mean:.4f} ± {error:.4f}{mark}"
            lines.append(f"| {name} | {tau} | {start} | {shown} | {npmi:.3f} | {perplexity:.0f} | {paper} |")
    return lines


def write(results: dict[str, list[Row]], absent: list[str], out: Path, *, full: bool) -> Path:
    lines = ["# The paper's experiments", ""]
    lines += [f"Grid: {'the paper’s' if full else 'small (pass --full for the whole)'}. Generated, not typed.", ""]
    lines += [
        "Uplift: by how many percent joining decreases a party's error on held-out rows (ratings), against its own",
        "model. The paper prints curves without numbers; what it states is that all parties gain, small ones most.",
        "",
    ]
    for experiment, rows in results.items():
        if experiment == "starts":
            continue
        uplift_figure(experiment, rows, out)
        lines += [f"## {experiment}", "", f"![{experiment}]({experiment}.png)", "", *uplift_table(rows), ""]
        lines += [f"Parties that gain on average: {_share_of_gains(rows)}.", ""]
    if results.get("starts"):
        lines += ["## starts of PD-NMF", "", *starts_table(results["starts"]), ""]
        lines += [
            "Bold: within three standard deviations of the mean of the best. `best_of_M` publishes a party's topics:",
            "it is NOT private. The paper's coherence is another measure on another scale, its perplexity of another",
            "model: order compares, size does not.",
            "",
        ]
    lines += ["## Where data or setting differ from the paper", ""]
    lines += [
        "- Enron here is raw mail, not the bag of words of UCI; Million Songs is the 10k subset; Online News is not",
        "  complete. Columns of the regression tables are scaled to deviation 1.",
        "- Stop words, stems and the vocabulary (the most frequent terms, public) are this project's.",
        *(f"- not run: {text}" for text in absent),
        "",
    ]
    path = out / "README.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _share_of_gains(rows: list[Row]) -> str:
    gains = [float(r["uplift_percent"]) > 0 for r in rows]
    return f"{sum(gains)} of {len(gains)} cells"
