"""What observers of each level tell, beside those of V_k alone; and what their transcripts show of S."""

from __future__ import annotations

import numpy as np
from scipy import stats

from benchmarks.experiments.cells import Row
from benchmarks.privacy import sealed_runs
from benchmarks.privacy.text import percent, table, words
from pdml_spdz.privacy import level_mechanism as level
from pdml_spdz.privacy.nmf_mechanism import ALL, NMF_VIEWS, TOPICS, WITH_DEN, WITH_NUM

LEVELS = {
    level.VECTORS: ("V_k alone", "no level: what nothing can hide"),
    level.SEALED_LESS: (
        "`--reveal sealed`, without ratios",
        "V_k to the bits of its goal; at which checkpoint the gate opened; a blurred power of two of the scale",
    ),
    level.SEALED: ("`--reveal sealed`", "the same, and the ratios of b = 2k Ritz values"),
    level.BY_POWER: (
        "`--reveal normed --solver power`",
        "c S on some 30 dimensions, the span of 300 V_t",
    ),
    level.BY_KRYLOV: (
        "`--reveal normed`",
        "c S on (k + 2) t dimensions, the span of krylov's V_t, its tail included",
    ),
    level.SUMS: ("`--reveal sum`", "S on the same span, and so Σ"),
    level.EVERYTHING: ("all of c S", "more than any run shows"),
}
OF_SUMS = {
    TOPICS: "T",
    WITH_DEN: "T and den",
    WITH_NUM: "T and num",
    ALL: "T, num and den, what a run shows",
}


def of(rows: list[Row], **wanted: str) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def difference(a: Row, b: Row) -> tuple[int, float, float]:
    """(records told by `a` less those by `b`, and a 95 % interval of it), the same records.

    Agresti and Min, Statist. Med. 2005: half a record is added to each of the four kinds (told by both, one, the other,
    neither), and then the usual interval of a paired difference is taken.
    """
    first, second = (np.array([c == "1" for c in row["told"]]) for row in (a, b))
    n = len(first) + 2.0
    only_a, only_b = float(np.sum(first & ~second)) + 0.5, float(np.sum(second & ~first)) + 0.5
    middle = (only_a - only_b) / n
    half = float(stats.norm.ppf(0.975)) * np.sqrt(only_a + only_b - (only_a - only_b) ** 2 / n) / n
    return int(first.sum() - second.sum()), len(first) * (middle - half), len(first) * (middle + half)


def cells_of(rows: list[Row]) -> list[tuple[str, str]]:
    found = dict.fromkeys((row["data"], row["party_share"]) for row in rows)
    return sorted(found, key=lambda c: (c[0], float(c[1])))


def named(cell: tuple[str, str]) -> str:
    return f"{cell[0]} {percent(cell[1])}"


OF_SEALED = (level.SEALED_LESS, level.SEALED)


def level_table(rows: list[Row], again: list[Row]) -> list[str]:
    """again : of sealed and V_k alone, on databases of their own, where there are any"""
    cells = cells_of(of(again or rows, view=level.SEALED))
    records = {c: of(again or rows, view=level.SEALED, data=c[0], party_share=c[1])[0]["records"] for c in cells}
    lines = []
    for view, (name, sees) in LEVELS.items():
        told = []
        for data, share in cells:
            mine = of(rows, view=view, data=data, party_share=share) if view not in OF_SEALED or not again else []
            found = mine or of(again, view=view, data=data, party_share=share)
            told.append(found[0]["flagged"] if found else "-")
        lines.append([name, sees, *told])
    return table(["level", "every party sees", *(f"{named(cell)}, of {records[cell]}" for cell in cells)], lines)


def difference_table(rows: list[Row], again: list[Row]) -> list[str]:
    """Each difference is of the same records in the same databases."""
    lines = []
    for cell in cells_of(of(again or rows, view=level.SEALED)):
        by_grid = [
            {row["view"]: row for row in of(grid, data=cell[0], party_share=cell[1])} for grid in (again or rows, rows)
        ]
        found = []
        for view in list(LEVELS)[1:]:
            mine = by_grid[view not in OF_SEALED]
            found.append(_beyond(mine[view], mine[level.VECTORS]) if view in mine else "-")
        lines.append([named(cell), *found])
    heads = ["sealed, no ratios", "sealed", "normed, power", "normed, krylov", "sum", "all of c S"]
    return table(["cell", *heads], lines)


def again_table(again: list[Row]) -> list[str]:
    lines = []
    for cell in cells_of(again):
        by_view = {row["view"]: row for row in of(again, data=cell[0], party_share=cell[1])}
        views = (level.VECTORS, *OF_SEALED)
        rows = f"{int(by_view[level.SEALED]['rows']):,}"
        lines.append([named(cell), rows, *(f"{by_view[v]['flagged']} ({float(by_view[v]['auc']):.2f})" for v in views)])
    return table(["cell", "mails at each party", "V_k alone", "sealed, no ratios", "sealed"], lines)


def _beyond(row: Row, alone: Row) -> str:
    return "{:+d} ({:+.1f} to {:+.1f})".format(*difference(row, alone))


def shows_table(rows: list[Row]) -> list[str]:
    lines = [
        [
            f"{r['data']} (d = {int(r['d']):,})",
            r["honest"],
            f"{r['solver']}, {r['iterations']}",
            r["dimensions"],
            f"{float(r['error_on_span']):.0e}",
            f"{100 * float(r['trace_known']):.0f} %",
            f"{100 * float(r['unknown']):.0f} %" if float(r["unknown"]) > 1e-3 else f"{float(r['unknown']):.0e}",
            *(_error(r[name]) for name in ("error_of_c_by_sign", "error_of_c_by_columns")),
        ]
        for r in sorted(rows, key=lambda r: (r["data"], -int(r["honest"]), r["solver"]))
    ]
    head = ["rows", "honest rows", "solver, iterations", "dimensions", "error there", "of the trace", "of S unknown"]
    return table([*head, "error of c, by sign", "by zero columns"], lines)


def _error(value: str) -> str:
    return "-" if value == "nan" else f"{float(value):.0e}"


def sections(svd: list[Row], shows: list[Row], again: list[Row], runs: list[Row]) -> list[str]:
    """again : sealed by its present program; runs : recorded ones of sealed, beside what the mechanism computes"""
    lines = []
    if of(again or svd, view=level.SEALED):
        lines += ["", "## What each level shows of single records", "", words("levels").rstrip(), ""]
        lines += level_table(svd, again)
        lines += [
            "",
            "Distinguishable records beyond those by V_k alone, with a 95 % interval:",
            "",
            *difference_table(svd, again),
        ]
    if again:
        lines += ["", "### Sealed and V_k alone, in the same databases", "", words("sealed").rstrip(), ""]
        lines += again_table(again)
    if runs:
        lines += ["", "### The mechanism of sealed beside recorded runs", "", words("sealed-runs").rstrip(), ""]
        lines += sealed_runs.section(runs)
    if shows:
        lines += ["", "## What a transcript shows of S, by solver", "", words("shows").rstrip(), ""]
        lines += shows_table(shows)
    return lines


def sums_verdict(nmf: list[Row]) -> str:
    """Where T alone tells far fewer records than all that a run shows: less than half as many."""
    texts, fewer = [], []
    for row in of(nmf, view=ALL):
        same = {name: row[name] for name in ("data", "k", "party_share", "start", "samples", "records")}
        alone = of(nmf, view=TOPICS, **same)
        if not alone or not int(row["flagged"]):
            continue  # nothing is told, so that nothing can be hidden
        name = f"{row['data']} k = {row['k']} {percent(row['party_share'])} from {row['start']}"
        less, low, high = difference(alone[0], row)
        texts.append(f"{name}: {alone[0]['flagged']} and {row['flagged']} ({less:+d}; {low:+.1f} to {high:+.1f})")
        fewer += [name] * (int(alone[0]["flagged"]) < int(row["flagged"]) / 2)
    if not texts:
        return ""
    where = f"Less than half: {', '.join(fewer)}. There" if fewer else "Nowhere less than half:"
    answer = (
        "would help, elsewhere less" if 0 < len(fewer) < len(texts) else "would help" if fewer else "would not help"
    )
    found = f"Records distinguishable by T alone and by all of it (difference, 95 % interval): {'; '.join(texts)}."
    return f"{found} {where} opening nothing but T {answer}."


def of_sums(nmf: list[Row]) -> list[str]:
    """Records told by T, num and den."""
    lines = []
    for row in of(nmf, view=ALL):
        same = {name: row[name] for name in ("data", "k", "party_share", "start", "samples", "records")}
        by_view = {r["view"]: r for r in of(nmf, **same)}
        if len(by_view) == len(NMF_VIEWS):
            told = [f"{by_view[view]['flagged']} ({float(by_view[view]['auc']):.2f})" for view in OF_SUMS]
            size = f"{row['records']}, {row['samples']} + {row['samples']}"
            lines.append([row["data"], row["k"], percent(row["party_share"]), row["rows"], row["start"], size, *told])
    return table(["data", "k", "party size", "rows", "start", "records, samples", *OF_SUMS.values()], lines)
