"""Each of the paper's claims on privacy, answered from the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import grouped


@dataclass(frozen=True)
class Answer:
    claim: str
    answer: str
    figures: str


def of(rows: list[Row], **wanted: str) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def p_of(row: Row) -> list[float]:
    return [float(p) for p in row["p"].split()]


def cell_name(row: Row) -> str:
    rank = f" k = {row['k']}" if "start" in row else ""
    return f"{row['data']}{rank} {100 * float(row['party_share']):g} %"


def series(row: Row) -> tuple[str, ...]:
    """What rows have in common that differ by party size alone. More samples make p smaller, so they count too."""
    return row["data"], row["k"], row["view"], row.get("start", ""), row["records"], row["samples"]


def paired(svd: list[Row], first: str, second: str) -> tuple[int, int, str, float]:
    """(cells in which the mean smallest p of `first` is at most that of `second`, cells, figures, p of the difference).

    The last by Wilcoxon's test over all records of all cells.
    """
    lower, texts, a, b = 0, [], [], []
    for row in of(svd, view=first):
        (other,) = of(svd, view=second, data=row["data"], party_share=row["party_share"])
        x, y = float(row["mean_min_p"]), float(other["mean_min_p"])
        lower += x <= y
        texts.append(f"{cell_name(row)}: {x:.3f} and {y:.3f}")
        a += p_of(row)
        b += p_of(other)
    different = np.array(a) != np.array(b)
    test = float(stats.wilcoxon(a, b).pvalue) if different.any() else 1.0
    return lower, len(texts), "; ".join(texts), test


def bounds(svd: list[Row]) -> Answer:
    claim = "The Σ-revealing p bounds the transcript's from below (so iterations need not be looked at)"
    lower, cells, texts, test = paired(svd, "sigma", "transcript")
    answer = "yes" if lower == cells else "no"
    return Answer(
        claim, answer, f"mean smallest p of both: {texts}. Lower in {lower} of {cells} cells (Wilcoxon p {test:.2g})"
    )


def hiding(svd: list[Row]) -> Answer:
    claim = "PD-SVD's p is higher than that of Σ-revealing SVD (hiding Σ helps)"
    lower, cells, texts, test = paired(svd, "sigma", "pd-svd")
    answer = "yes" if lower == cells and test < 0.05 else "no" if lower <= cells / 2 or test >= 0.05 else "mostly"
    return Answer(
        claim,
        answer,
        f"mean smallest p of Σ-revealing and PD-SVD: {texts}. In {lower} of {cells} cells (Wilcoxon p {test:.2g})",
    )


def size(rows: list[Row], what: str) -> Answer:
    """p grows with party size."""
    texts, grows = [], []
    for key in dict.fromkeys(map(series, rows)):
        chain = [r for r in rows if series(r) == key]
        chain.sort(key=lambda r: float(r["party_share"]))
        if len(chain) < 2:
            continue
        means = [float(r["mean_min_p"]) for r in chain]
        # A step down counts if it is larger than what so few records would show by chance.
        steps = [
            b - a >= -2 * np.hypot(float(x["sd_min_p"]), float(y["sd_min_p"])) / np.sqrt(int(x["records"]))
            for (a, x), (b, y) in pairwise(zip(means, chain, strict=True))
        ]
        grows.append(bool(means[-1] > means[0] and all(steps)))
        rank = f" k = {key[1]}" if key[3] else ""
        texts.append(
            f"{key[0]} {key[2]}{rank}: "
            + ", ".join(f"{m:.3f} ({100 * float(r['party_share']):g} %)" for m, r in zip(means, chain, strict=True))
        )
    if not grows:
        return Answer(f"p grows with party size ({what})", "not measured", "no two sizes of the same number of samples")
    answer = "yes" if all(grows) else "no" if not any(grows) else f"in {sum(grows)} of {len(grows)} series"
    return Answer(f"p grows with party size ({what})", answer, "; ".join(texts))


def private(rows: list[Row], what: str, view: str) -> Answer:
    chosen = of(rows, view=view)
    passed = [r for r in chosen if float(r["pi"]) >= 0.05]
    found = ", ".join(f"{cell_name(r)}: {r['flagged']} of {r['records']}" for r in chosen)
    return Answer(
        f"{what} satisfies π-KSDP with π = 0.05",
        "yes" if len(passed) == len(chosen) else "no",
        f"π is at least 0.05 in {len(passed)} of {len(chosen)} cells; distinguishable after correction: {found}",
    )


def noise(rows: list[Row], beta: str) -> Answer:
    """beta : of whose rows, in PCR: the paper's text has both"""
    texts, worse = [], 0
    settings = [("pcr", "Songs"), ("pcr", "News"), ("lra", "20NG"), ("lra", "Enron")]
    for experiment, name in settings:
        mine = of(rows, experiment=experiment, data=name, beta=beta if experiment == "pcr" else "")
        if not mine:
            continue
        means = mean_uplifts(mine)
        worse += bool(means["dp-entry"] < 0)
        texts.append(
            f"{experiment} {name}: PD {means['exact']:+.1f} %, DP {means['dp-entry']:+.1f} % (entries), "
            f"{means['dp-row']:+.1f} % (rows)"
        )
    return Answer(
        f"DP is worse than a party's own model in three of four settings (beta of {beta})",
        "yes" if worse >= 3 else "no",
        f"worse in {worse} of {len(texts)} (mean uplift over sizes; the paper's budget, entries): {'; '.join(texts)}",
    )


def mean_uplifts(rows: list[Row]) -> dict[str, float]:
    """By method, over party sizes and trials."""
    return {key[0]: float(np.mean(v)) for key, v in grouped(rows, lambda r: (r["method"],), "uplift_percent").items()}


def noise_in_nmf(rows: list[Row]) -> Answer:
    texts, worse, count = [], 0, 0
    for experiment in ("topics", "recommender"):
        mine = of(rows, experiment=experiment)
        if mine:
            means = mean_uplifts(mine)
            worse += bool(means["dp-row"] < 0)
            count += 1
            texts.append(f"{experiment}: PD {means['exact']:+.1f} %, DP {means['dp-row']:+.1f} %")
    answer = "yes" if worse == count else "no"
    return Answer("PD-NMF with DP inside is worse than a party's own model", answer, "; ".join(texts))


def init(nmf: list[Row]) -> Answer:
    texts, differences, variances = [], [], []
    for a in of(nmf, start="PD-NMF-Init"):
        same = {name: a[name] for name in ("data", "party_share", "k", "samples")}
        if not (pair := of(nmf, start="random 2x", **same)):
            continue
        b = pair[0]
        differences.append(float(a["auc"]) - float(b["auc"]))
        # The variance of an AUC of n + n samples where nothing leaks is (2 n + 1)/(12 n^2), at most twice of it here.
        n = int(a["samples"])
        variances.append(2 * (2 * n + 1) / (12 * n * n) / int(a["records"]))
        both = " and ".join(
            f"p {float(r['mean_min_p']):.3f} (by chance {float(r['by_chance']):.3f}), AUC {float(r['auc']):.2f}"
            for r in (a, b)
        )
        texts.append(f"{cell_name(a)}: {both}")
    claim = "PD-NMF-Init leaks less than `random 2x`"
    if not texts:
        return Answer(claim, "not measured", "no cell of both with the same number of samples")
    mean, error = float(np.mean(differences)), float(np.sqrt(np.sum(variances)) / len(variances))
    answer = "no difference found" if abs(mean) < 2 * error else "yes" if mean < 0 else "no"
    figures = f"PD-NMF-Init and random 2x: {'; '.join(texts)}. AUC differs by {mean:+.3f} ± {error:.3f}"
    return Answer(claim, answer, figures)


def all_claims(results: dict[str, list[Row]]) -> list[Answer]:
    answers = []
    if results.get("nmf"):
        plain = of(results["nmf"], start="random")
        answers += [private(plain, "PD-NMF", "pd-nmf"), size(plain, "PD-NMF")]
        if of(results["nmf"], start="PD-NMF-Init") and of(results["nmf"], start="random 2x"):
            answers.append(init(results["nmf"]))
    if results.get("svd"):
        svd = results["svd"]
        answers += [private(svd, "PD-SVD", "pd-svd"), bounds(svd), hiding(svd), size(svd, "SVD")]
    if {row["experiment"] for row in results.get("noise", [])} >= {"pcr", "lra", "topics"}:
        answers += [noise(results["noise"], beta) for beta in ("own rows", "all rows")]
        answers.append(noise_in_nmf(results["noise"]))
    return answers
