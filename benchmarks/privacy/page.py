"""The results as one page, with the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import summaries
from benchmarks.experiments import cells
from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import Figures, grouped, mean_and_error
from benchmarks.privacy import claims, levels, noise, only_topics, ratings
from benchmarks.privacy.text import percent, table, words
from pdml_spdz.results.charts import Curve, chart

EXPERIMENTS = Path(__file__).parents[1] / "experiments" / "results"
# [PDML Table "KSDP"], mean smallest p (+- standard deviation) by party size.
PAPER = {
    ("ML-1M", "0.005"): "0.45 ± 0.16",
    ("ML-1M", "0.03"): "0.52 ± 0.20",
    ("ML-1M", "0.1"): "0.48 ± 0.18",
    ("Enron", "0.005"): "0.029 ± 0.02",
    ("Enron", "0.03"): "0.044 ± 0.02",
    ("Enron", "0.1"): "0.113 ± 0.07",
}


SVD = {"exact": "PD-SVD", "dp-entry": "DP-SVD, entries", "dp-row": "DP-SVD, rows"}
NMF = {"exact": "PD-NMF", "dp-row": "DP-NMF"}
# By experiment and whose rows beta is of: file, title, methods.
UPLIFTS = {
    ("pcr", "own rows"): ("uplift-pcr", "Principal component regression, beta of the party's own rows", SVD),
    ("pcr", "all rows"): ("uplift-pcr-all", "Principal component regression, beta of all rows", SVD),
    (noise.AS_IT_IS, "all rows"): (
        "uplift-pcr-as-it-is",
        "Principal component regression, beta of all rows, columns as they are",
        SVD,
    ),
    ("lra", ""): ("uplift-lra", "Low-rank approximation", SVD),
    ("topics", ""): ("uplift-topics", "Topics", NMF),
    ("recommender", ""): ("uplift-recommender", "Recommender", NMF),
}


def measured(row: Row) -> list[str]:
    return [
        f"{row['documents']}, {row['samples']} + {row['samples']}",
        f"{float(row['paper_mean_min_p']):.3f} ± {float(row['paper_sd_min_p']):.3f}",
        f"{float(row['paper_by_chance']):.3f}",
        f"{float(row['paper_pi']):.1e}",
        f"{row['paper_flagged']} of {row['records']}",
        f"{float(row['mean_min_p']):.3f}",
        f"{row['flagged']} of {row['records']}",
        f"{float(row['auc']):.2f}",
        f"{float(row['epsilon']):.2f}",
    ]


OF_PAPER = ["p, paper's", "by chance", "π", "distinguishable, paper's"]
MEASURED = ["records, samples", *OF_PAPER, "p, all", "distinguishable, all", "AUC", "ε ≥"]
VIEWS = ("pd-svd", "sigma", "transcript")


def ksdp_table(rows: list[Row], columns: dict[str, str], more: dict[str, Callable[[Row], str]]) -> list[str]:
    """columns : what they are called in front of the figures -> in a row; more : behind them"""
    lines = [
        [
            *(percent(row[name]) if name == "party_share" else row[name] for name in columns.values()),
            *measured(row),
            row["best_statistic"],
            *(make(row) for make in more.values()),
        ]
        for row in rows
    ]
    return table([*columns, *MEASURED, "most discriminative", *more], lines)


def _size(row: Row) -> float:
    return float(row["party_share"])


def nmf_table(rows: list[Row]) -> list[str]:
    def of_paper(row: Row) -> str:
        return PAPER.get((row["data"], row["party_share"]), "") if row["start"] == "random" else ""

    rows = sorted(claims.of(rows, view="pd-nmf"), key=lambda r: (r["data"], int(r["k"]), r["start"], _size(r)))
    columns = {"data": "data", "k": "k", "party size": "party_share", "rows": "rows", "start": "start"}
    return ksdp_table(rows, columns, {"paper": of_paper})


def svd_table(rows: list[Row]) -> list[str]:
    rows = [row for row in rows if row["view"] in VIEWS]
    rows = sorted(rows, key=lambda r: (r["data"], _size(r), VIEWS.index(r["view"])))
    return ksdp_table(rows, {"data": "data", "party size": "party_share", "rows": "rows", "observer sees": "view"}, {})


def noise_table(rows: list[Row], methods: dict[str, str]) -> list[str]:
    """Uplift by data and size: mean over trials, and the standard deviation of that mean."""
    groups = grouped(rows, lambda r: (r["data"], r["party_share"], r["method"]), "uplift_percent")
    lines = []
    for data, share in sorted({key[:2] for key in groups}, key=lambda key: (key[0], float(key[1]))):
        found = [groups[data, share, method] for method in methods]
        shown = ["{:+.2f} ± {:.2f}".format(*mean_and_error(values)) for values in found]
        lines.append([data, percent(share), *shown, str(len(found[0]))])
    return table(["data", "party size", *(f"{name}, %" for name in methods.values()), "trials"], lines)


def noise_sections(rows: list[Row], place: Path) -> list[str]:
    """A figure and a table for each experiment, every method beside a party's own model."""
    lines = []
    pictures = Figures(place, ("svg",))
    for (experiment, beta), (name, title, methods) in UPLIFTS.items():
        mine = claims.of(rows, experiment=experiment, beta=beta)
        if mine:
            pictures.uplift(name, mine, methods)
            lines += [
                "",
                f"### {title}",
                "",
                f"![{title}: uplift of joining by party size]({name}.svg)",
                "",
                *noise_table(mine, methods),
            ]
    return lines


def attacks(rows: list[Row]) -> list[str]:
    """Those of version 0.2.0, if there are none since."""
    if not rows:
        return ["Of version 0.2.0, power's runs; not run again since.", "", words("earlier").rstrip()]
    return ["Three processes; the first party is honest, the other two collude.", "", *attack_table(rows)]


def attack_table(rows: list[Row]) -> list[str]:
    lines = [
        [r["case"], r["engine"], r["algorithm"], r["attack"], r["got"], "yes" if r["success"] == "True" else "no"]
        for r in rows
    ]
    return table(["rows", "engine", "algorithm", "attack", "got", "succeeded"], lines)


def figure(rows: list[Row], data: str) -> str:
    curves = []
    for view in VIEWS:
        mine = sorted(claims.of(rows, data=data, view=view), key=_size)
        x = [100 * float(r["party_share"]) for r in mine]
        curves.append(Curve(view, x, [float(r["paper_mean_min_p"]) for r in mine]))
    level = float(rows[0]["paper_by_chance"])
    curves.append(Curve("by chance", [0.5, 33.3], [level, level], dashed=True))
    return chart(f"KSDP of SVD, {data}", curves, "party size (%)", "mean smallest p", x_log=True)


def write(
    results: dict[str, list[Row]], page: Path, missing: Sequence[str] = (), counts: Sequence[str] = (), *, full: bool
) -> Path:
    """counts : of each grid, how much of it is there"""
    grid = "the paper’s" if full else "small (`make privacy ARGS=--full` for the whole)"
    lines = ["# Privacy, measured: the paper's experiments", "", "Generated by `make privacy`, not typed.", ""]
    lines += [f"Grid: {grid}.", *counts, *([words("sizes").rstrip()] if counts else []), "", words("words")]
    lines += ["## The paper's claims", ""]
    answers = [[a.claim, f"**{a.answer}**", a.figures] for a in claims.all_claims(results)]
    lines += table(["claim", "holds here", "figures"], answers)
    if results.get("nmf"):
        lines += ["", "## PD-NMF: the adversary knows the victim's own sums (M = 2)", "", *nmf_table(results["nmf"])]
        lines += ["", "### What T, num and den tell, each", "", words("sums"), *levels.of_sums(results["nmf"])]
        lines += ["", levels.sums_verdict(results["nmf"])]
    if results.get("only_topics"):
        lines += ["", "### What opening nothing but T would hide", "", words("only_topics")]
        lines += only_topics.lines(results["only_topics"])
    of_levels = (results.get(grid, []) for grid in ("levels", "shows", "sealed", "sealed-runs"))
    lines += levels.sections(*of_levels)
    if results.get("svd"):
        lines += ["", "## PD-SVD (mail) and PD-PCA (songs)", "", *svd_table(results["svd"]), ""]
        lines += svd_figures(results["svd"], page.parent)
    if results.get("noise"):
        lines += ["", "## What privacy by noise costs: uplift of joining", "", words("noise").rstrip()]
        lines += noise_sections(results["noise"], page.parent)
    if results.get("ratings"):
        lines += ["", "## What a recommender gains, by its penalties", "", words("ratings")]
        lines += ratings.lines(results["ratings"])
        by_hyperband = cells.read(EXPERIMENTS / "full" / "recommender.csv")
        compared = ratings.compared(results["ratings"], results.get("noise", []), by_hyperband)
        lines += [words("ratings_figures"), *compared] if full else []
    if full or results.get("attacks"):
        lines += ["", "## Attacks on recorded runs", ""]
        lines += attacks(results.get("attacks", []))
    lines += ["", "## Where this differs from the paper", "", words("differences")]
    if missing:
        lines += ["Not run:", "", *(f"- {cell}" for cell in missing), ""]
    page.write_text(summaries.summarised("\n".join(lines), summaries.privacy), encoding="utf-8")
    return page


def svd_figures(rows: list[Row], place: Path) -> list[str]:
    """One for each data set of which there are all sizes."""
    lines = []
    for data in dict.fromkeys(r["data"] for r in rows):
        if len({r["party_share"] for r in claims.of(rows, data=data)}) > 1:
            name = f"ksdp-{data.lower()}.svg"
            (place / name).write_text(standalone(figure(rows, data)), encoding="utf-8")
            lines += [f"![KSDP of SVD, {data}]({name})"]
    return lines


def standalone(svg: str) -> str:
    style = "<style>text{font:11px sans-serif}.t{font-weight:600}</style><rect width='100%' height='100%' fill='#fff'/>"
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f">{style}", 1)
