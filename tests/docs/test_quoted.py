"""Figures in the text of several pages are those of the results that they quote."""

from __future__ import annotations

import csv
import math

import numpy as np

from benchmarks.privacy.__main__ import RESULTS
from benchmarks.privacy.claims import of
from pdml_spdz.engines.embedded.sealed_run import inputs_of, sealed_plan
from pdml_spdz.offline.mask_products import MaskProducts, Pair
from pdml_spdz.offline.product_layout import InCoefficients, batches
from pdml_spdz.privacy import level_mechanism as level
from pdml_spdz.programs.sealed_precision import SealedPrecision
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
        f"With 1,535 mails at each party at least {alone['1535']} of 200 are distinguishable from V alone and "
        f"{whole['1535']} from the whole covariance up to its factor, with 5,113 mails {alone['5113']} and "
        f"{whole['5113']}."
    ) in page("docs/levels.md")
    assert f"With 1,535 mails they were {alone['1535']} and {whole['1535']}." in page("docs/security.md")


def test_sets_of_ring_lwe_in_use_are_those_that_security_names() -> None:
    """log2 q of the digits' sealed run: near the limits of the tables, as the page says."""
    precision, pairs = SealedPrecision(3, 64, 7, 14, iterations=17), []

    def record(made: list[Pair]) -> list[np.ndarray]:
        pairs.extend(made)
        return [np.zeros((len(pair.left), pair.right.shape[1]), object) for pair in made]

    dry = MaskProducts([sealed_plan(precision)[1][0]], record, dry=True)  # type: ignore[arg-type]
    for n, bits in inputs_of(precision):
        dry.input(np.zeros(n, object), bits)
    dry.mask()
    layouts = [batch.layout for batch in batches(3, pairs)]
    sets = [layout.parameters if isinstance(layout, InCoefficients) else layout for layout in layouts]
    of_size = {
        N: sorted({f"{math.log2(p.q):.1f}" for p in sets if N == p.N}, reverse=True) for N in {p.N for p in sets}
    }
    assert (
        f"log2 q is {' and '.join(of_size[16384])} at N = 16384, and {' and '.join(of_size[8192])} at N = 8192"
        in page("docs/security.md")
    )
    assert set(of_size) == {8192, 16384}
