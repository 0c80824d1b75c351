"""The results as Markdown tables, with the paper's figures beside ours where it prints any."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import grouped, mean_and_error

# [PDML Table 1]: means over all its settings: error, coherence, perplexity.
PAPER = {
    "best_of_M": (8110.7, 16.9, 44.8),
    "best local topics": (8110.7, 16.9, 44.8),
    "nnsvd, global IDF": (7903.5, 16.9, 43.8),
    "random": (8216.1, 16.5, 43.9),
    "random 2x": (7919.8, 16.9, 43.8),
    "PD-NMF-Init": (7907.9, 17.0, 43.8),
}
OURS = "PD-NMF-Init"
CELL = ("data", "M", "party_share", "k", "trial", "tau")


def _table(head: str, lines: list[str]) -> list[str]:
    columns = head.split("|")
    return [f"|{head}|", "|" + "|".join(" --- " for _ in columns) + "|", *lines]


def _shown(values: list[float], form: str) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:{form}}" + (f" ± {error:{form}}" if np.isfinite(error) else "")


def uplift(rows: list[Row]) -> list[str]:
    groups = grouped(rows, lambda r: (r["data"], r["k"], r["party_share"]), "uplift_percent")
    lines = [
        f"| {name} | {k} | {100 * float(share):g} % | {_shown(values, '.2f')} | {len(values)} |"
        for (name, k, share), values in sorted(groups.items(), key=lambda g: (g[0][0], int(g[0][1]), float(g[0][2])))
    ]
    return _table(" data | k | party size | uplift, % | trials ", lines)


def by_parties(rows: list[Row]) -> list[str]:
    groups = grouped(rows, lambda r: (r["data"], r["M"]), "uplift_percent")
    lines = [
        f"| {name} | {M} | {_shown(values, '.2f')} | {len(values)} |"
        for (name, M), values in sorted(groups.items(), key=lambda g: (g[0][0], int(g[0][1])))
    ]
    return _table(" data | M | uplift, % | trials ", lines)


def pcr(rows: list[Row]) -> list[str]:
    keys = sorted(
        {(r["data"], r["form"], r["k"], r["party_share"]) for r in rows},
        key=lambda key: (key[0], key[1], int(key[2]), float(key[3])),
    )
    lines = []
    for key in keys:
        mine = [r for r in rows if (r["data"], r["form"], r["k"], r["party_share"]) == key]
        shown = {
            value: _shown([float(r[value]) for r in mine], ".2f")
            for value in ("uplift_percent", "own_beta_percent", "as_printed_percent")
        }
        levers = [np.mean([float(r[f"leverage_{v}_v"]) for r in mine]) for v in ("own", "common")]
        lines.append(
            f"| {key[0]} | {key[1]} | {key[2]} | {100 * float(key[3]):g} % | {' | '.join(shown.values())} | "
            f"{levers[0]:.3g}, {levers[1]:.3g} |"
        )
    head = (
        " data | columns | k | party size | combined rows | own rows | own rows, as printed | leverage: own, common V "
    )
    return _table(head, lines)


def gains(rows: list[Row], value: str = "uplift_percent") -> str:
    """In how many settings, on average over trials, joining helps."""
    names = [n for n in ("data", "form", "k", "party_share") if n in rows[0]]
    means = [np.mean(v) for v in grouped(rows, lambda r: tuple(r[n] for n in names), value).values()]
    return f"{sum(m > 0 for m in means)} of {len(means)} settings"


DIED = -50.0  # percent: every rating is then predicted as the lowest one


def died(rows: list[Row]) -> str:
    """Where a recommender's common topics have all died."""
    groups = grouped(rows, lambda r: (r["k"], r["party_share"]), "uplift_percent")
    found = [
        f"{sum(gain < DIED for gain in gains)} of {len(gains)} trials at k = {k} and {100 * float(share):g} %"
        for (k, share), gains in groups.items()
        if min(gains) < DIED
    ]
    return f"All common topics died in {', '.join(found)} of the users." if found else ""


def smallest_gain_most(rows: list[Row], value: str = "uplift_percent") -> str:
    """In how many curves the smallest party size has the largest gain."""
    names = [n for n in ("data", "form", "k") if n in rows[0]]
    curves: dict[tuple[str, ...], dict[float, float]] = {}
    for key, values in grouped(rows, lambda r: (*(r[n] for n in names), r["party_share"]), value).items():
        curves.setdefault(key[:-1], {})[float(key[-1])] = float(np.mean(values))
    return f"{sum(max(c, key=c.__getitem__) == min(c) for c in curves.values())} of {len(curves)} curves"


def leverage_verdict(rows: list[Row]) -> str:
    """How often the common components are the less certain ones, and whether that goes with what joining costs."""
    keys = [(r["data"], r["form"], r["k"], r["party_share"]) for r in rows]
    settings = list(dict.fromkeys(keys))
    means = {
        name: np.array(
            [np.mean([float(r[name]) for r, key in zip(rows, keys, strict=True) if key == s]) for s in settings]
        )
        for name in ("leverage_own_v", "leverage_common_v", "own_beta_percent")
    }
    ratio = means["leverage_common_v"] / means["leverage_own_v"]
    rank = float(spearmanr(ratio, means["own_beta_percent"]).statistic)
    return (
        f"The common components' leverage is the larger one in {int(np.sum(ratio > 1))} of {len(ratio)} settings; over "
        f"settings, the rank correlation of their ratio with the uplift of *own rows* is {rank:.2f}."
    )


def starts(rows: list[Row]) -> list[str]:
    """Errors relative to PD-NMF-Init's in the same cell, so that settings can be averaged; bold: within 3 sigma_mu of
    the best.
    """
    relative = _relative(rows, "error")
    lines = []
    for name, tau in sorted({(r["data"], r["tau"]) for r in rows}, key=lambda x: (x[0], int(x[1]))):
        mine = [r for r in relative if (r["data"], r["tau"]) == (name, tau)]
        names = list(dict.fromkeys(r["start"] for r in mine))
        best = {
            value: _bold({s: [float(r[value]) for r in mine if r["start"] == s] for s in names}, form, sign)
            for value, form, sign in (
                ("relative", ".4f", 1),
                ("c_v", ".3f", -1),
                ("npmi", ".3f", -1),
                ("perplexity", ".0f", 1),
            )
        }
        for start in names:
            paper = ", ".join(str(x) for x in PAPER.get(start, ("-",)))
            lines.append(f"| {name} | {tau} | {start} | {' | '.join(best[v][start] for v in best)} | {paper} |")
    head = " data | sweeps | start | error | C_V | NPMI | perplexity | paper: error, coherence, perplexity "
    return _table(head, lines)


def starts_ratings(rows: list[Row]) -> list[str]:
    lines = []
    for tau in sorted({int(r["tau"]) for r in rows}):
        mine = [r for r in rows if int(r["tau"]) == tau]
        values = {
            s: [float(r["rmse"]) for r in mine if r["start"] == s] for s in dict.fromkeys(r["start"] for r in mine)
        }
        shown = _bold(values, ".4f", 1)
        alive = {s: np.mean([float(r["topics"]) for r in mine if r["start"] == s]) for s in values}
        lines += [f"| {tau} | {start} | {shown[start]} | {alive[start]:.1f} |" for start in values]
    return _table(" sweeps | start | RMSE | topics in use ", lines)


def duel(rows: list[Row], value: str) -> list[str]:
    """By how much a rival's error is above PD-NMF-Init's in the same cell: mean, and an interval of 3 sigma_mu."""
    relative = _relative(rows, value)
    lines = []
    for start in dict.fromkeys(r["start"] for r in rows if r["start"] != OURS):
        shown = []
        for tau in sorted({int(r["tau"]) for r in rows}):
            percents = [100 * (r["relative"] - 1) for r in relative if r["start"] == start and int(r["tau"]) == tau]
            mean, error = mean_and_error(percents)
            verdict = " worse" if mean > 3 * error else " better" if mean < -3 * error else ""  # with nan: neither
            shown.append(f"{mean:+.2f} ± {3 * error:.2f}{verdict}")
        lines.append(f"| {start} | {' | '.join(shown)} |")
    taus = sorted({int(r["tau"]) for r in rows})
    return _table(f" start | {' | '.join(f'{tau} sweeps' for tau in taus)} ", lines)


def hyperband(rows: list[Row]) -> list[str]:
    lines = []
    for method in dict.fromkeys(r["method"] for r in rows):
        mine = [r for r in rows if r["method"] == method]
        sweeps = {r["sweeps"] for r in mine}
        lines.append(f"| {method} | {', '.join(sorted(sweeps))} | {_shown([float(r['rmse']) for r in mine], '.4f')} |")
    return _table(" method | sweeps | RMSE of the best setting ", lines)


def _relative(rows: list[Row], value: str) -> list[Row]:
    """Each row with its value over PD-NMF-Init's in the same cell."""
    ours = {tuple(r[n] for n in CELL): float(r[value]) for r in rows if r["start"] == OURS}
    return [r | {"relative": float(r[value]) / ours[tuple(r[n] for n in CELL)]} for r in rows]


def over_last(rows: list[Row], value: str) -> list[Row]:
    """Each row with its value over PD-NMF-Init's after the most sweeps in the same cell."""
    names = [n for n in CELL if n != "tau"]
    last = max(int(r["tau"]) for r in rows)
    ours = {tuple(r[n] for n in names): float(r[value]) for r in rows if r["start"] == OURS and int(r["tau"]) == last}
    return [r | {"relative": float(r[value]) / ours[tuple(r[n] for n in names)]} for r in rows]


def _bold(values: dict[str, list[float]], form: str, sign: int) -> dict[str, str]:
    """Means with sigma_mu, bold within 3 sigma_mu of the best; sign : 1 where less is better"""
    means = {s: mean_and_error(v) for s, v in values.items()}
    best = min(sign * m for m, _ in means.values())
    return {
        s: f"**{_shown(values[s], form)}**"
        if sign * m - best <= 3 * (e if np.isfinite(e) else 0.0)
        else _shown(values[s], form)
        for s, (m, e) in means.items()
    }


def hyperband_verdict(rows: list[Row]) -> str:
    by = {m: [float(r["rmse"]) for r in rows if r["method"] == m] for m in ("Hyperband", "grid of 16")}
    wins = sum(a <= b for a, b in zip(by["Hyperband"], by["grid of 16"], strict=True))
    return f"Hyperband is no worse than the grid in {wins} of {len(by['Hyperband'])} trials."
