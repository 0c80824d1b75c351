"""docs/paper.md from its text, the figures of the errata and the rows of Table 1; docs/claims.md from all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jinja2 import Environment, StrictUndefined

from benchmarks.experiments.cells import Row
from benchmarks.experiments.figures import grouped, mean_and_error
from benchmarks.paper import claims, table_1
from benchmarks.paper.sources import Sources, count_table
from benchmarks.privacy.claims import OTHER_DRAW, cell_name, of, pair
from pdml_spdz.privacy import level_mechanism as level


def pcr_signs(rows: list[Row]) -> dict[str, int]:
    """Of small parties, k = 7: settings in which the mean over trials of the printed formula is a loss, and in which
    that with beta of all rows is a gain.
    """
    small = [row for row in of(rows, k="7") if float(row["party_share"]) < 0.3]
    names = ("data", "form", "party_share")
    found = {
        name: [np.mean(v) for v in grouped(small, lambda r: tuple(r[n] for n in names), name).values()]
        for name in ("as_printed_percent", "uplift_percent")
    }
    return {
        "settings": len(found["uplift_percent"]),
        "negative": int(np.sum(np.array(found["as_printed_percent"]) < 0)),
        "combined": int(np.sum(np.array(found["uplift_percent"]) > 0)),
    }


def printed_gains(rows: list[Row]) -> dict[str, int]:
    """Of PCR by the printed formula: settings that gain, or lose, by more than twice the error of their mean."""
    names = ("data", "form", "k", "party_share")
    found = grouped(rows, lambda r: tuple(r[n] for n in names), "as_printed_percent").values()
    means = [mean_and_error(values) for values in found]
    gain, loss = (sum(sign * mean > 2 * error for mean, error in means) for sign in (1, -1))
    return {"settings": len(means), "gain": gain, "loss": loss}


def told_in_mail(rows: list[Row]) -> dict[str, str]:
    """Records told by whoever sees V_k and Sigma, and all of c S, by party size."""
    mail = {view: of(rows, data="Enron", view=view) for view in ("sigma", "transcript")}
    for found in mail.values():
        found.sort(key=lambda row: float(row["party_share"]))
    first = mail["sigma"]
    told = {view: _listed([row["paper_flagged"] for row in found]) for view, found in mail.items()}
    sizes = _listed([f"{100 * float(row['party_share']):g}" for row in first])
    return told | {"records": first[0]["records"], "sizes": f"{sizes} %"}


def told_by_runs(rows: list[Row]) -> str:
    """Records that observers of V_k alone, and of what runs show, distinguish."""
    texts = []
    for row in of(rows, view=level.VECTORS):
        (power,), (krylov,) = (pair(rows, row, view) for view in (level.BY_POWER, level.BY_KRYLOV))
        alone, by_power, by_krylov = (f"{r['paper_flagged']} ({r['flagged']})" for r in (row, power, krylov))
        texts.append(
            f"{cell_name(row)}, by the paper's statistics (by all): V_k alone {alone}, 300 iterations "
            f"of power {by_power}, krylov, which the paper does not have, {by_krylov} of {row['records']}"
        )
    return "; ".join(texts)


def _listed(items: list[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}"


def render(name: str, **values: object) -> str:
    source = (Path(__file__).parent / name).read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"e": lambda x: f"{x:.0e}", "format_e": lambda x: f"{x:.2e}", "lines": "\n".join}
    return environment.from_string(source).render(**values)


def paper(found: Sources) -> str:
    rows = found.rows["table_1"]
    spent, rest = table_1.hours(rows)
    return render(
        "paper.md.j2",
        **found.errata,
        signs=pcr_signs(found.rows["pcr"]),
        printed=printed_gains(found.rows["pcr"]),
        told=told_in_mail(found.rows["svd"]),
        of_levels=told_by_runs(found.rows["levels"]),
        table_1=table_1.layout(rows),
        duels={name: table_1.duel(rows, name) for name in ("error", "c_v", "perplexity")} if rows else {},
        counts=table_1.counts(rows),
        count=found.counts["table_1"],
        spent=spent,
        rest=rest,
    )


def claims_page(found: Sources) -> str:
    judged = claims.all_claims(found)
    return render(
        "claims.md.j2",
        summary=claims.summary(judged),
        table=claims.claims_table(judged),
        counts=count_table(found),
        draws=two_draws(found.rows["svd"], found.rows[OTHER_DRAW]),
    )


def two_draws(svd: list[Row], other: list[Row]) -> str:
    """The mean p of V_k alone where a cell was computed on two draws of databases."""
    texts = []
    for row in of(other, view=level.VECTORS):
        (same,) = pair(svd, row, level.VECTORS)
        first, second = (f"{float(r['paper_mean_min_p']):.3f}" for r in (same, row))
        texts.append(f"V_k alone, {cell_name(row)}, has {first} in one draw of databases and {second} in another")
    return "; ".join(texts)
