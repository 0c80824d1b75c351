"""docs/paper.md from its text, the figures of the errata and the rows of Table 1; docs/claims.md from all rows."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, StrictUndefined

from benchmarks.paper import claims, table_1
from benchmarks.paper.sources import Sources, count_table


def pcr_signs(figures: dict[str, dict[str, float]]) -> dict[str, int]:
    return {
        "settings": len(figures),
        "negative": sum(f["printed"] < 0 for f in figures.values()),
        "combined": sum(f["combined"] > 0 for f in figures.values()),
    }


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
        signs=pcr_signs(found.errata["pcr"]),
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
    )
