"""Table 1 in the paper's layout, how much of it there is, and what its rivals are above PD-NMF-Init."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from benchmarks.experiments import official, pooled
from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import grouped, mean_and_error
from benchmarks.privacy.text import percent, table

OURS = "PD-NMF-Init"
# [PDML Table 1]: Frobenius error, coherence, perplexity.
PAPER = {
    "best_of_M": ("8110.7", "**16.9**", "44.8"),
    "nnsvd": ("**7903.5**", "**16.9**", "**43.8**"),
    "random": ("8216.1", "16.5", "**43.9**"),
    "random 2x": ("**7919.8**", "**16.9**", "**43.8**"),
    OURS: ("**7907.9**", "**17.0**", "**43.8**"),
}
BESIDES = ("nnsvd, local IDF", "best local topics")
MEASURES = (("error", "{:.2f}", 1), ("c_v", "{:.3f}", -1), ("perplexity", "{:.0f}", 1))
CELL = ("data", "M", "party_share", "k", "trial")
TRIALS = 5


def cell_of(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in CELL)


def by_start(rows: list[Row], name: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of every start, by cell."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for row in rows:
        found.setdefault(row["start"], {})[cell_of(row)] = float(row[name])
    return found


def layout(rows: list[Row]) -> list[str]:
    """The paper's: averages over all cells, absolute; bold within 3 sigma_mu of the best of the paper's five.

    sigma_mu is of the relative differences from the best in the same cell: corpora and sizes differ by far more than
    starts do, and an absolute difference weighs corpora by their size.
    """
    if not rows:
        return []
    starts = [*PAPER, *(start for start in BESIDES if any(row["start"] == start for row in rows))]
    shown: dict[str, list[str]] = {start: [] for start in starts}
    for name, form, sign in MEASURES:
        values = by_start(rows, name)
        best = min(PAPER, key=lambda start: sign * _mean_log(values[start]))
        for start in starts:
            differences = [sign * (values[start][cell] / values[best][cell] - 1.0) for cell in values[best]]
            mean, error = mean_and_error(differences)
            near = mean <= 3 * (error if np.isfinite(error) else 0.0)
            text = form.format(np.mean([*values[start].values()]))
            shown[start].append(f"**{text}**" if near and start in PAPER else text)
    head = ["start", "Fro. error", "coherence (C_V)", "perplexity", "paper: Fro. error", "coherence", "perplexity"]
    return table(head, [[start, *shown[start], *PAPER.get(start, ("", "", ""))] for start in starts])


def _mean_log(values: dict[tuple[str, ...], float]) -> float:
    """Of which the best is the best by ratios."""
    return float(np.mean(np.log([*values.values()])))


def above_ours(rows: list[Row], name: str, rival: str, chosen: Callable[[Row], bool] = lambda row: True) -> list[float]:
    """By how many percent the rival's figure is above PD-NMF-Init's, cell by cell."""
    values = by_start([row for row in rows if chosen(row)], name)
    return [100.0 * (values[rival][cell] / value - 1.0) for cell, value in values.get(OURS, {}).items()]


def duel(rows: list[Row], name: str) -> list[str]:
    """The rivals above PD-NMF-Init in %, +- 3 sigma_mu, in all cells, by number of parties and by corpus."""
    kinds = [("M", M) for M in sorted({row["M"] for row in rows}, key=int)]
    kinds += [("data", data) for data in sorted({row["data"] for row in rows})]
    lines = []
    for rival in (start for start in (*PAPER, *BESIDES) if start != OURS):
        found = [above_ours(rows, name, rival)]
        found += [above_ours(rows, name, rival, lambda row, n=n, v=v: row[n] == v) for n, v in kinds]  # type: ignore[misc]
        lines.append([rival, *(_interval(percents, less_is_better=name != "c_v") for percents in found)])
    return table(["start", "all cells", *(f"M = {v}" if n == "M" else v for n, v in kinds)], lines)


def _interval(percents: list[float], *, less_is_better: bool) -> str:
    mean, error = mean_and_error(percents)
    words = (" worse", " better") if less_is_better else (" better", " worse")
    verdict = words[0] if mean > 3 * error else words[1] if mean < -3 * error else ""
    return f"{mean:+.2f} ± {3 * error:.2f}{verdict}"


def grid() -> list[tuple[str, ...]]:
    """All cells of the paper's table."""
    return [cell.key for cell in pooled.cells(official.EVERYWHERE)]


def counts(rows: list[Row]) -> list[str]:
    """How many cells of each number and size of parties there are, and CPU seconds of one of 40 topics (in brackets:
    estimated).
    """
    have, seconds = {cell_of(row) for row in rows}, cost(rows)
    whole = grid()
    sizes = sorted({(M, share) for _, M, share, _, _ in whole}, key=lambda size: (int(size[0]), float(size[1])))
    lines = []
    for M, share in sizes:
        mine = [cell for cell in whole if cell[1:3] == (M, share)]
        done = [cell for cell in mine if cell in have]
        trials = [sum(cell[4] == str(trial) for cell in done) for trial in range(TRIALS)]
        of_each = len(mine) // TRIALS
        known = f"{40 * seconds[M, share]:.0f}" if done else f"({40 * seconds[M, share]:.0f})"
        by_trial = ", ".join(f"{n} of {of_each}" for n in trials)
        lines.append([M, percent(share), f"{len(done)} of {len(mine)}", by_trial, known])
    lines.append(["all", "", f"{len(have & set(whole))} of {len(whole)}", "", ""])
    return table(["M", "party size", "cells, full size", "by trial", "CPU s a cell, k = 40"], lines)


def cost(rows: list[Row]) -> dict[tuple[str, str], float]:
    """CPU seconds of a cell for each of its k topics, by number and size of parties, mean over corpora and k; where
    none is there, as much more than the largest known as there are more rows.
    """
    known: dict[tuple[str, str], float] = {}
    ours = [row | {"each": float(row["cpu_seconds"]) / int(row["k"])} for row in rows if row["start"] == OURS]
    for (M, share), values in grouped(ours, lambda r: (r["M"], r["party_share"]), "each").items():
        known[M, share] = float(np.mean(values))
    largest = max(known, key=_rows) if known else ("3", "0.03")
    for size in product(("3", "5", "30"), ("0.03", "0.1", "0.3")):
        known.setdefault(size, known.get(largest, float("nan")) * max(1.0, _rows(size) / _rows(largest)))
    return known


def _rows(size: tuple[str, str]) -> float:
    return int(size[0]) * float(size[1])


def hours(rows: list[Row]) -> tuple[float, float]:
    """CPU hours of the cells that are there, and of the rest, estimated."""
    have, seconds = {cell_of(row) for row in rows}, cost(rows)
    spent = sum(float(row["cpu_seconds"]) for row in rows if row["start"] == OURS)
    rest = sum(int(cell[3]) * seconds[cell[1], cell[2]] for cell in grid() if cell not in have)
    return spent / 3600.0, rest / 3600.0
