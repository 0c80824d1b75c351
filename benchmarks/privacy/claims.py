"""Each of the paper's claims on privacy, answered from the measurements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import grouped, mean_and_error
from benchmarks.privacy.measure import OF_PAPER
from benchmarks.privacy.noise import AS_IT_IS
from benchmarks.privacy.text import percent
from pdml_spdz.privacy import level_mechanism as level

WANTED = 0.05
OTHER_DRAW = "other draw"  # results of some cells on other databases, of an earlier version
EXCEPTION = "Enron 33.3 %"  # the paper's, where hiding the singular values does not help
VISIBLE = 0.0005  # of a p that a table shows as 0.000, it cannot be said that it has grown


@dataclass(frozen=True)
class Answer:
    claim: str
    answer: str
    figures: str


def of(rows: Sequence[Row], **wanted: str) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def p_by_statistic(row: Row) -> dict[str, list[float]]:
    """Of every record, in their order."""
    parts = [part.partition(": ") for part in row["p"].split("; ")]
    return {name: [float(p) for p in values.split()] for name, _, values in parts}


def p_of(row: Row, names: Collection[str] = ()) -> list[float]:
    """The smallest p of every record, by these statistics; by all if there are none of them."""
    found = p_by_statistic(row)
    chosen = [found[name] for name in found if name in names] or list(found.values())
    return [min(p) for p in zip(*chosen, strict=True)]


def reduced(row: Row) -> str:
    """Words for a cell that is not of the paper's size."""
    return "" if row.get("grid", "full") == "full" else f" ({row['records']} records)"


def cell_name(row: Row) -> str:
    rank = f" k = {row['k']}" if "start" in row else ""
    return f"{row['data']}{rank} {100 * float(row['party_share']):g} %{reduced(row)}"


def series(row: Row) -> tuple[str, ...]:
    """What rows have in common that differ by party size alone. More samples make p smaller, so they count too."""
    return row["data"], row["k"], row["view"], row.get("start", ""), row["records"], row["samples"]


def paired(svd: list[Row], first: str, second: str) -> tuple[int, int, str]:
    """(cells in which the mean smallest p of `first` is at most that of `second`, cells, figures).

    By the paper's statistics. Whether by more than chance is not asked here: a bound holds in all cells or is none.
    """
    lower, texts = 0, []
    for row in of(svd, view=first):
        (other,) = of(svd, view=second, data=row["data"], party_share=row["party_share"])
        x, y = (float(r["paper_mean_min_p"]) for r in (row, other))
        lower += x <= y
        all_x, all_y = (float(r["mean_min_p"]) for r in (row, other))
        texts.append(f"{cell_name(row)}: {x:.3f} and {y:.3f} (all statistics: {all_x:.3f} and {all_y:.3f})")
    return lower, len(texts), "; ".join(texts)


def _share(count: int, cells: int) -> str:
    """yes, no, or in how many."""
    answer = "yes" if count == cells else "no" if count == 0 else f"mixed: in {count} of {cells} cells"
    return f"{answer}, in the one cell computed" if cells == 1 else answer


def bounds(svd: list[Row], of_levels: list[Row]) -> Answer:
    """The paper's argument for not looking at iterations has two steps, of which the first is judged in all cells."""
    claim = "Σ-revealing SVD has the p of XᵀX, a lower bound for the iterations (so they need not be looked at)"
    lower, cells, texts = paired(svd, "sigma", "transcript")
    figures = (
        f"mean smallest p of Σ-revealing SVD and of all of XᵀX up to scale, which is more than any run shows: {texts}. "
        f"The first is no larger in {lower} of {cells} cells, where a bound would be in all"
    )
    of_sigma = of(of_levels, view=level.SIGMA)
    if of_sigma:
        shown = [f"{cell_name(row)}: {_p(row)} and {_p(*pair(of_levels, row, level.BY_POWER))}" for row in of_sigma]
        figures += f". It and what 300 iterations of power show, in {len(shown)} cell(s): {'; '.join(shown)}"
    return Answer(claim, _share(cells if lower == cells else 0, cells), figures)


def hiding(svd: list[Row], other_draw: Sequence[Row]) -> Answer:
    """Significantly: by more than two standard errors over records, in all cells but the paper's exception.

    other_draw : of some of the cells, on other databases
    """
    claim = (
        "PD-SVD's p is significantly higher than that of Σ-revealing SVD (hiding Σ helps), except for 33.3 % on Enron"
    )
    _, _, texts = paired(svd, "sigma", "pd-svd")
    pairs = {cell_name(row): (row, *pair(svd, row, "pd-svd")) for row in of(svd, view="sigma")}
    signs = {cell: significant(*both) for cell, both in pairs.items()}
    exception = signs.pop(EXCEPTION, 0)
    above = sum(float(b["paper_mean_min_p"]) > float(a["paper_mean_min_p"]) for a, b in (pairs[cell] for cell in signs))
    higher, lower = (sum(sign == wanted for sign in signs.values()) for wanted in (1, -1))
    figures = (
        f"mean smallest p of Σ-revealing and PD-SVD: {texts}. PD-SVD's is higher in {above} of {len(signs)} cells; by "
        f"more than two standard errors higher in {higher}, lower in {lower}"
    )
    if EXCEPTION in pairs:
        figures += f". {EXCEPTION} is {'no exception: higher, too' if exception > 0 else 'an exception here, too'}"
    again = of(other_draw, view=level.SIGMA)
    if again:
        shown = [f"{cell_name(row)}: {_p(row)} and {_p(*pair(other_draw, row, level.VECTORS))}" for row in again]
        figures += f"; in another draw of databases, {'; '.join(shown)}"
    answer = _share(higher, len(signs))
    return Answer(claim, "mixed: the exception is none" if exception > 0 and answer == "yes" else answer, figures)


def significant(first: Row, second: Row) -> int:
    """1: the smallest p of `second` is higher in the mean, by more than two standard errors, -1: lower, 0: neither.

    By the paper's statistics, over records, which are the same in both. They share their databases, too, so that this
    is less certain than of records that do not.
    """
    differences = np.subtract(p_of(second, OF_PAPER), p_of(first, OF_PAPER))
    mean, error = mean_and_error([float(x) for x in differences])
    return int(np.sign(mean)) if abs(mean) > 2 * error else 0


def pair(rows: Sequence[Row], row: Row, view: str) -> list[Row]:
    """What another observer has in the same cell: one row."""
    return of(rows, view=view, data=row["data"], party_share=row["party_share"])


def _p(row: Row) -> str:
    return f"{float(row['paper_mean_min_p']):.3f}"


def size(rows: list[Row], what: str, other_draw: Sequence[Row] = ()) -> Answer:
    """p grows with party size: from the smallest size to the largest by more than its error, and falls nowhere by more
    than that; with the largest size of another draw of databases, neither.
    """
    texts, grows, small = [], [], False
    for key in dict.fromkeys(map(series, rows)):
        chain = [r for r in rows if series(r) == key]
        chain.sort(key=lambda r: float(r["party_share"]))
        if len(chain) < 2:
            continue
        means = [float(r["paper_mean_min_p"]) for r in chain]
        errors = [float(r["paper_sd_min_p"]) / np.sqrt(int(r["records"])) for r in chain]
        # A step counts if it is larger than what so few records would show by chance.
        steps = [b - a >= -2 * np.hypot(x, y) for (a, x), (b, y) in pairwise(zip(means, errors, strict=True))]
        rises = means[-1] - means[0] > 2 * np.hypot(errors[0], errors[-1]) and means[-1] >= VISIBLE
        again = pair(other_draw, chain[-1], chain[-1]["view"])
        steps += [float(r["paper_mean_min_p"]) >= means[-2] - 2 * errors[-2] for r in again]
        grows.append(bool(rises and all(steps)))
        fails = "" if grows[-1] else " (does not)"
        small |= any(reduced(r) for r in chain)
        rank = f" k = {key[1]}" if key[3] else ""
        texts.append(
            f"{key[0]} {key[2]}{rank}{fails}: "
            + ", ".join(_sized(m, r) for m, r in zip(means, chain, strict=True))
            + "".join(f"; in another draw of databases {_p(r)} ({percent(r['party_share'])})" for r in again)
        )
    if not grows:
        return Answer(f"p grows with party size ({what})", "not measured", "no two sizes of the same number of samples")
    answer = "yes" if all(grows) else "no" if not any(grows) else f"mixed: in {sum(grows)} of {len(grows)} series"
    return Answer(f"p grows with party size ({what})", _on_small(answer, small=small), "; ".join(texts))


def _sized(mean: float, row: Row) -> str:
    return f"{mean:.3f} ({100 * float(row['party_share']):g} %; all statistics {float(row['mean_min_p']):.3f})"


def _on_small(answer: str, *, small: bool) -> str:
    return f"{answer}, on reduced cells" if small and answer.startswith("yes") else answer


def private(rows: list[Row], what: str, view: str) -> Answer:
    chosen = of(rows, view=view)
    passed = [r for r in chosen if float(r["paper_pi"]) >= WANTED]
    by_all = sum(float(r["pi"]) >= WANTED for r in chosen)
    found = ", ".join(f"{cell_name(r)}: {r['paper_flagged']} ({r['flagged']}) of {r['records']}" for r in chosen)
    answer = _share(len(passed), len(chosen))
    chance = " or ".join(
        f"{100 * (1 - (1 - WANTED) ** n):.5g} % of cells of {n}" for n in sorted({int(r["records"]) for r in chosen})
    )
    none = sum(int(r["paper_flagged"]) == 0 for r in chosen)
    return Answer(
        f"{what} satisfies π-KSDP with π = {WANTED}",
        _on_small(answer, small=any(reduced(r) for r in passed)),
        f"π is at least {WANTED} in {len(passed)} of {len(chosen)} cells (all statistics: {by_all}). That alone says "
        f"little: where nothing leaks, the smallest p of independent records is below {WANTED} in {chance}. After "
        f"Holm's correction no record is distinguishable in {none} of {len(chosen)} cells; distinguishable are, by the "
        f"paper's statistics (by all): {found}",
    )


def high(rows: list[Row], what: str, view: str) -> Answer:
    """The paper's tables have means over records: by them alone, as it judges itself."""
    chosen = of(rows, view=view)
    count = sum(float(r["paper_mean_min_p"]) >= WANTED for r in chosen)
    found = ", ".join(f"{cell_name(r)}: {float(r['paper_mean_min_p']):.3f}" for r in chosen)
    answer = _on_small(_share(count, len(chosen)), small=any(reduced(r) for r in chosen))
    by = ", by a·w² alone" if chosen and "start" in chosen[0] else ""
    return Answer(f"The mean p of {what}, as the paper's tables have it{by}, is at least {WANTED}", answer, found)


SETTINGS = [("pcr", "Songs"), ("pcr", "News"), ("lra", "20NG"), ("lra", "Enron")]


def noise(rows: list[Row], beta: str) -> Answer:
    """beta : of whose rows, in PCR: the paper's text has both"""
    texts, worse, undecided, others = [], 0, 0, []
    for experiment, name in SETTINGS:
        mine = of(rows, experiment=experiment, data=name, beta=beta if experiment == "pcr" else "")
        if not mine:
            continue
        found = mean_uplifts(mine)
        mean, error = found["dp-entry"]
        verdict = "worse" if mean < -2 * error else "gains" if mean > 2 * error else "undecided"
        worse, undecided = worse + (verdict == "worse"), undecided + (verdict == "undecided")
        if verdict != "worse":
            others.append(f"{name} ({verdict}: {by_size(mine, 'dp-entry')})")
        shown = {method: uplift(found[method]) for method in ("exact", "dp-entry", "dp-row")}
        texts.append(
            f"{experiment} {name}: PD {shown['exact']}, DP {shown['dp-entry']} (entries), {shown['dp-row']} (rows)"
        )
    judged = "yes" if worse >= 3 else "no" if worse + undecided < 3 else f"mixed: in {worse} of {len(texts)} settings"
    return Answer(
        f"DP is worse than a party's own model in at least three of four settings (beta of {beta})",
        judged if len(texts) == len(SETTINGS) else f"not judged: {len(texts)} of 4 settings",
        f"worse in {worse} of {len(texts)} (mean uplift over sizes ± σ_μ; the paper's budget, entries): "
        f"{'; '.join(texts)}. The exception: {'; '.join(others) or 'none'} here, News in the paper",
    )


def unpredictable(rows: list[Row]) -> Answer:
    """Where one trial gains and another loses, of the same data and size: more often with noise than without."""
    texts, counts = [], []
    for experiment, name in SETTINGS:
        mine = of(rows, experiment=experiment, data=name, beta="all rows" if experiment == "pcr" else "")
        if not mine:
            continue
        by_method = {}
        for method in ("exact", "dp-entry"):
            sizes = grouped(of(mine, method=method), lambda r: (r["party_share"],), "uplift_percent").values()
            both = sum(min(v) < 0 < max(v) for v in sizes)
            by_method[method] = both, float(np.mean([np.std(v, ddof=1) for v in sizes]))
        (exact, usual), (noisy, spread) = by_method["exact"], by_method["dp-entry"]
        counts.append(noisy > exact)
        texts.append(
            f"{experiment} {name}: DP {noisy}, PD {exact} of {len(sizes)} sizes (standard deviation over trials, mean "
            f"over sizes: {spread:.2f} and {usual:.2f} %)"
        )
    found, settings = sum(counts), len(counts)
    return Answer(
        "DP-SVD has unpredictable outcomes",
        "yes" if found == settings else "no" if found == 0 else f"mixed: in {found} of {settings} settings",
        "read as: of the same data and size one trial gains and another loses, in more sizes than without noise (beta "
        f"of all rows; the paper's budget, entries). {'; '.join(texts)}",
    )


def exception(rows: list[Row], form: str) -> Answer:
    """The paper's exception: News, where DP gains at all sizes but the largest; by how columns are scaled."""
    groups = grouped(
        of(rows, experiment=form, data="News", beta="all rows"),
        lambda r: (r["party_share"], r["method"]),
        "uplift_percent",
    )
    shares = sorted({share for share, _ in groups}, key=float)
    found = {share: [mean_and_error(groups[share, m]) for m in ("exact", "dp-entry")] for share in shares}
    gains = [bool(dp[0] > 2 * dp[1]) for _, dp in found.values()]
    as_printed = all(gains[:-1]) and not gains[-1]
    answer = "yes" if as_printed else "no" if not any(gains) else f"mixed: gains in {sum(gains)} of {len(gains)} sizes"
    texts = "; ".join(f"{100 * float(s):g} %: PD {uplift(pd)}, DP {uplift(dp)}" for s, (pd, dp) in found.items())
    return Answer(
        f"DP gains on News for all but the largest sizes (beta of all rows; {form})",
        answer,
        f"{texts} (± σ_μ). Columns as they are differ by orders of magnitude: a few are the leading components, which "
        "noise cannot move, and what is gained is beta's",
    )


def mean_uplifts(rows: list[Row]) -> dict[str, tuple[float, float]]:
    """By method: the mean over party sizes and trials, and its error over trials."""
    groups = grouped(rows, lambda r: (r["method"], r["trial"]), "uplift_percent")
    methods = dict.fromkeys(method for method, _ in groups)
    return {m: mean_and_error([float(np.mean(v)) for (n, _), v in groups.items() if n == m]) for m in methods}


def by_size(rows: list[Row], method: str) -> str:
    groups = grouped(of(rows, method=method), lambda r: (r["party_share"],), "uplift_percent")
    sizes = sorted(groups.items(), key=lambda item: float(item[0][0]))
    return ", ".join(f"{100 * float(share):g} % {uplift(mean_and_error(v))}" for (share,), v in sizes)


def uplift(found: tuple[float, float]) -> str:
    return f"{found[0]:+.1f} ± {found[1]:.1f} %"


def noise_in_nmf(rows: list[Row]) -> Answer:
    texts, worse, count = [], 0, 0
    for experiment in ("topics", "recommender"):
        mine = of(rows, experiment=experiment)
        if mine:
            found = mean_uplifts(mine)
            mean, error = found["dp-row"]
            worse += mean < -2 * error
            count += 1
            texts.append(f"{experiment}: PD {uplift(found['exact'])}, DP {uplift(found['dp-row'])}")
    answer = "yes" if worse == count else "no" if worse == 0 else f"mixed: in {worse} of {count}"
    return Answer("PD-NMF with DP inside is worse than a party's own model", answer, f"{'; '.join(texts)} (± σ_μ)")


def all_gain(rows: list[Row], experiment: str) -> Answer:
    """Of parties of every size, judged by twice the error of a mean over trials."""
    groups = grouped(of(rows, experiment=experiment, method="exact"), lambda r: (r["party_share"],), "uplift_percent")
    texts, gains, loses = [], 0, 0
    for (share,), values in sorted(groups.items(), key=lambda item: float(item[0][0])):
        mean, error = mean_and_error(values)
        gains, loses = gains + (mean > 2 * error), loses + (mean < -2 * error)
        texts.append(f"{100 * float(share):g} %: {mean:+.2f} ± {error:.2f} %")
    answer = "yes" if gains == len(groups) else f"in {gains} of {len(groups)} sizes" + _losses(loses)
    claim = f"Parties of all sizes gain by joining ({experiment}; k = 7, no row at two parties)"
    return Answer(claim, answer, "; ".join(texts))


def _losses(count: int) -> str:
    return f" (a loss in {'one' if count == 1 else count})" if count else ""


def init(nmf: list[Row]) -> Answer:
    texts, differences, variances = [], [], []
    for a in of(nmf, start="PD-NMF-Init", view="pd-nmf"):
        same = {name: a[name] for name in ("data", "party_share", "k", "samples")}
        if not (pair := of(nmf, start="random 2x", view="pd-nmf", **same)):
            continue
        b = pair[0]
        differences.append(float(a["auc"]) - float(b["auc"]))
        # The variance of an AUC of n + n samples where nothing leaks is (2 n + 1)/(12 n^2), at most twice of it here.
        n = int(a["samples"])
        variances.append(2 * (2 * n + 1) / (12 * n * n) / int(a["records"]))
        both = " and ".join(
            f"p {_p(r)} (all statistics {float(r['mean_min_p']):.3f}), AUC {float(r['auc']):.2f}" for r in (a, b)
        )
        texts.append(f"{cell_name(a)}: {both}")
    claim = "PD-NMF-Init leaks less than `random 2x`"
    if not texts:
        return Answer(claim, "not measured", "no cell of both with the same number of samples")
    mean, error = float(np.mean(differences)), float(np.sqrt(np.sum(variances)) / len(variances))
    answer = "no difference found" if abs(mean) < 2 * error else "yes" if mean < 0 else "no"
    figures = (
        f"PD-NMF-Init and random 2x, mean p by a·w²: {'; '.join(texts)}. AUC, by all statistics, differs by "
        f"{mean:+.3f} ± {error:.3f} in {len(texts)} pairs of cells"
    )
    return Answer(claim, answer, figures)


def most_telling(nmf: list[Row]) -> Answer:
    """The paper found a.w^2 to tell most of seven statistics, of which it names no other."""
    best = [row["best_statistic"] for row in nmf]
    count = sum(name == "weighted coefficients" for name in best)
    found = "; ".join(f"{cell_name(row)}: {name}" for row, name in zip(nmf, best, strict=True))
    return Answer(
        "a·w² is the most discriminative statistic",
        "not judged: the paper's other six statistics are not named",
        f"here, with other statistics beside a·w² than the paper's, it is that in {count} of {len(nmf)} cells. "
        f"Which are: {found}",
    )


def all_claims(results: dict[str, list[Row]]) -> list[Answer]:
    answers = []
    if results.get("nmf"):
        plain = of(results["nmf"], start="random", view="pd-nmf")
        answers += [high(plain, "PD-NMF", "pd-nmf"), private(plain, "PD-NMF", "pd-nmf"), size(plain, "PD-NMF")]
        answers.append(most_telling(plain))
        if of(results["nmf"], start="PD-NMF-Init") and of(results["nmf"], start="random 2x"):
            answers.append(init(results["nmf"]))
    if results.get("svd"):
        svd = results["svd"]
        both = [row for row in svd if row["view"] in ("pd-svd", "sigma")]
        of_levels, other_draw = results.get("levels", []), results.get(OTHER_DRAW, [])
        answers += [high(svd, "PD-SVD", "pd-svd"), high(svd, "Σ-revealing SVD", "sigma")]
        answers += [private(svd, "PD-SVD", "pd-svd"), bounds(svd, of_levels), hiding(svd, other_draw)]
        answers.append(size(both, "SVD", other_draw))
    return answers + of_noise(results.get("noise", []))


def of_noise(rows: list[Row]) -> list[Answer]:
    """Those of experiments that are there."""
    have, answers = {row["experiment"] for row in rows}, []
    if have & {"pcr", "lra"}:
        answers += [noise(rows, beta) for beta in ("own rows", "all rows")]
        answers.append(unpredictable(rows))
    if AS_IT_IS in have:
        answers.append(exception(rows, AS_IT_IS))
    answers += [all_gain(rows, experiment) for experiment in ("topics", "recommender") if experiment in have]
    if have & {"topics", "recommender"}:
        answers.append(noise_in_nmf(rows))
    return answers
