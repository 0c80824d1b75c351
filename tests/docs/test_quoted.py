"""Figures in the text of several pages are those of the results that they quote."""

from __future__ import annotations

import csv

from benchmarks.privacy.__main__ import RESULTS
from benchmarks.privacy.claims import of
from pdml_spdz.privacy import level_mechanism as level
from tests.docs.pages import ROOT


def told(grid: str, names: dict[str, str]) -> dict[str, str]:
    """Records of 200 mails that are told, by what `names` says."""
    with (RESULTS / "full" / f"{grid}.csv").open(newline="", encoding="utf-8") as file:
        found = of(list(csv.DictReader(file)), data="Enron", records="200", **names)
    return {row["rows"] if "view" in names else row["view"]: row["flagged"] for row in found}


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_more_rows_are_quoted_as_they_were_measured() -> None:
    alone, whole = (told("svd", {"view": view}) for view in (level.VECTORS, level.EVERYTHING))
    assert (
        f"With 1,535 mails at each party {alone['1535']} of 200 are distinguishable from V alone and {whole['1535']} "
        f"from the whole covariance up to its factor, with 5,113 mails {alone['5113']} and {whole['5113']}."
    ) in page("docs/levels.md")
    assert f"With 1,535 mails they were {alone['1535']} and {whole['1535']}." in page("docs/security.md")


def test_levels_are_quoted_as_they_were_measured() -> None:
    n = told("levels", {"party_share": "0.333"})
    alone, power, krylov, sums, sealed = (
        n[view] for view in (level.VECTORS, level.BY_POWER, level.BY_KRYLOV, level.SUMS, level.SEALED)
    )
    readme, levels, security = page("README.md"), page("docs/levels.md"), page("docs/security.md")
    assert f"so the singular values | {sums} (" in readme
    assert f"but for its scale | {krylov} |" in readme
    assert f"| {power} (a lower figure) |" in readme
    assert f"a blurred exponent of the scale | {sealed} |" in readme
    assert f"| the result alone | | {alone} |" in readme
    for name, figure in (("`sum`, solver krylov", sums), ("`normed`, solver krylov", krylov), ("`sealed`", sealed)):
        assert f"| {name} | {figure} |" in levels
    assert f"At sum every party sees the covariance of all rows as it is, and {sums} of 200" in levels
    assert f"up to one factor: {krylov} of 200." in levels
    assert f"told {krylov} of 200 mails, whoever sees those of 300 iterations of power {power}, " in security
    assert f"told {alone} of 200 mails, whoever has all of c S, which is more than a run shows, told " in security
    assert (
        f"for {sums} of them whether they took part with the level `sum`, for {krylov} with `normed` (which is part of "
        f"what `sum` shows: the difference is chance), for {sealed} with `sealed`; whoever sees the model alone, for "
        f"{alone} "
    ) in page("docs/statement.md")
