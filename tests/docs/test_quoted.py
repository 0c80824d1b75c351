"""Figures in the text of several pages are those of the results that they quote."""

from __future__ import annotations

import csv

from benchmarks.privacy.__main__ import RESULTS
from benchmarks.privacy.claims import of
from pdml_spdz.privacy import level_mechanism as level
from tests.docs.pages import ROOT


def told(view: str) -> dict[str, str]:
    """Of 200 mails, in the draws of Fig. 6, by the number of rows of a party."""
    with (RESULTS / "full" / "svd.csv").open(newline="", encoding="utf-8") as file:
        found = of(list(csv.DictReader(file)), data="Enron", view=view, records="200")
    return {row["rows"]: row["flagged"] for row in found}


def page(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_more_rows_are_quoted_as_they_were_measured() -> None:
    alone, whole = told(level.VECTORS), told(level.EVERYTHING)
    assert (
        f"With 1,535 mails at each party {alone['1535']} of 200 are distinguishable from V alone and {whole['1535']} "
        f"from the whole covariance up to its factor, with 5,113 mails {alone['5113']} and {whole['5113']}."
    ) in page("docs/levels.md")
    assert f"With 1,535 mails they were {alone['1535']} and {whole['1535']}." in page("docs/security.md")
