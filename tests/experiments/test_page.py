"""The page says what the rows say: tables, verdicts and figures from made-up results; and a whole run on tiny data."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.experiments import page, pcr, tables
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.cells import Cell, Row


def uplift_rows(gain: dict[str, float]) -> list[Row]:
    """Two trials for each party size, half a percent around the mean."""
    return [
        {
            "data": "Enron",
            "k": "7",
            "party_share": share,
            "trial": str(i),
            "uplift_percent": str(mean + 0.5 * (-1) ** i),
        }
        for share, mean in gain.items()
        for i in range(2)
    ]


def start_rows(errors: dict[str, list[float]], value: str = "error") -> list[Row]:
    common = {"data": "20NG", "M": "3", "party_share": "0.1", "k": "20", "limit": "0", "tau": "5"}
    rest = {"npmi": "0.1", "c_v": "0.5", "perplexity": "100", "topics": "7"}
    return [
        common | rest | {"trial": str(i), "start": start, value: str(error)}
        for start, values in errors.items()
        for i, error in enumerate(values)
    ]


def test_uplift_has_means_with_their_deviation_and_a_verdict() -> None:
    rows = uplift_rows({"0.01": 4.0, "0.2": -1.0})
    table = tables.uplift(rows)
    assert table[2:] == ["| Enron | 7 | 1 % | 4.00 ± 0.50 | 2 |", "| Enron | 7 | 20 % | -1.00 ± 0.50 | 2 |"]
    assert tables.gains(rows) == "1 of 2 settings"
    assert tables.smallest_gain_most(rows) == "1 of 1 curves"
    assert tables.smallest_gain_most(uplift_rows({"0.01": 1.0, "0.2": 2.0})) == "0 of 1 curves"


def test_where_all_common_topics_died_is_said() -> None:
    rows = uplift_rows({"0.01": -70.0, "0.03": -50.2, "0.2": 5.0})  # -70.5, -69.5; -50.7, -49.7; 4.5, 5.5
    assert (
        tables.died(rows)
        == "All common topics died in 2 of 2 trials at k = 7 and 1 %, 1 of 2 trials at k = 7 and 3 % of the users."
    )
    assert tables.died(uplift_rows({"0.2": 5.0})) == ""


def test_the_duel_is_by_cell_and_has_an_interval() -> None:
    # Cells of very different sizes; in each the rival is 1 or 3 % above.
    ours, rival = [100.0, 2000.0, 7.0], [101.0, 2060.0, 7.07]
    table = tables.duel(start_rows({"PD-NMF-Init": ours, "random": rival, "nnsvd": ours}), "error")
    percents = [1.0, 3.0, 1.0]
    three = 3 * np.std(percents, ddof=1) / np.sqrt(3)
    assert table[2] == f"| random | +{np.mean(percents):.2f} ± {three:.2f} |"
    assert table[3] == "| nnsvd | +0.00 ± 0.00 |"
    clear = tables.duel(start_rows({"PD-NMF-Init": ours, "random": [1.01 * x for x in ours]}), "error")
    assert clear[2].endswith(" worse |")
    better = tables.duel(start_rows({"PD-NMF-Init": ours, "random": [0.99 * x for x in ours]}), "error")
    assert better[2].endswith(" better |")


def test_curves_are_relative_to_the_end_of_ours_in_the_same_cell() -> None:
    rows = start_rows({"PD-NMF-Init": [100.0, 7.0], "random": [101.0, 7.7]})
    rows += [r | {"tau": "50", "error": str(0.5 * float(r["error"]))} for r in rows]
    found = [(r["start"], r["tau"], r["relative"]) for r in tables.over_last(rows, "error")]
    assert found[:4] == [
        (s, "5", pytest.approx(x)) for s, x in zip(["PD-NMF-Init"] * 2 + ["random"] * 2, [2, 2, 2.02, 2.2], strict=True)
    ]
    assert found[4:6] == [("PD-NMF-Init", "50", 1.0)] * 2


def test_bold_is_what_is_within_three_deviations_of_the_best() -> None:
    rows = start_rows({"PD-NMF-Init": [100.0, 100.0], "nnsvd": [99.0, 102.0], "random": [110.0, 110.1]})
    shown = {line.split(" | ")[2]: line.split(" | ")[3] for line in tables.starts(rows)[2:]}
    assert shown["PD-NMF-Init"].startswith("**1.0000")
    assert shown["nnsvd"].startswith("**1.0050 ± 0.0150")
    assert shown["random"] == "1.1005 ± 0.0005"
    assert any("8216.1, 16.5, 43.9" in line for line in tables.starts(rows))


def test_starts_on_ratings_and_hyperband() -> None:
    rows = start_rows({"PD-NMF-Init": [0.9, 0.92], "random": [1.2, 1.21]}, "rmse")
    assert tables.starts_ratings(rows)[2:] == [
        "| 5 | PD-NMF-Init | **0.9100 ± 0.0100** | 7.0 |",
        "| 5 | random | 1.2050 ± 0.0050 | 7.0 |",
    ]
    search = [
        {"method": method, "sweeps": sweeps, "rmse": rmse}
        for method, sweeps, rmse in (
            ("Hyperband", "69", "0.9"),
            ("grid of 16", "144", "0.91"),
            ("Hyperband", "69", "0.95"),
            ("grid of 16", "144", "0.94"),
        )
    ]
    assert tables.hyperband(search)[2] == "| Hyperband | 69 | 0.9250 ± 0.0250 |"
    assert tables.hyperband_verdict(search) == "Hyperband is no worse than the grid in 1 of 2 trials."


def test_leverage_goes_with_what_joining_costs() -> None:
    common = {"data": "Songs", "form": "scaled", "k": "7", "leverage_own_v": "0.1"}
    rows = [
        common | {"party_share": share, "leverage_common_v": lever, "own_beta_percent": gain}
        for share, lever, gain in (("0.01", "0.4", "-9"), ("0.05", "0.2", "-1"), ("0.2", "0.09", "0.5"))
    ]
    assert "larger one in 2 of 3 settings" in tables.leverage_verdict(rows)
    assert tables.leverage_verdict(rows).endswith("is -1.00.")


def test_the_words_have_a_section_for_every_experiment() -> None:
    assert {
        "introduction",
        *page.UPLIFTS,
        "by_parties",
        "pcr",
        "pcr why",
        "recommender why",
        "starts",
        "starts_ratings",
        "hyperband",
        "differences",
        "earlier",
    } == set(page.words())


def test_a_whole_run_writes_lines_figures_and_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    with gzip.open(tmp_path / "million_songs_subset.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([["year", "a", "b", "c"], *rng.normal(size=(200, 4)).tolist()])

    def cells(directory: Path, *, full: bool) -> list[Cell]:
        return [
            Cell(
                {"data": "Songs", "form": "scaled", "k": 2, "party_share": share, "M": 2, "trial": 0},
                pcr.cell,
                (directory, "Songs", "scaled", 2, share, 2, 0),
            )
            for share in (0.05, 0.2)
        ]

    monkeypatch.setattr(pcr, "cells", cells)
    out = tmp_path / "runs"
    command = ["--data", str(tmp_path), "--out", str(out), "--page", str(out)]
    main([*command, "--jobs", "1"])
    place = out / "small"
    assert str(place / "README.md") in capsys.readouterr().out
    assert {p.name for p in place.iterdir()} == {
        "README.md",
        "pcr.csv",
        "pcr.png",
        "pcr.svg",
        "pcr_why.png",
        "pcr_why.svg",
    }
    text = (place / "README.md").read_text()
    assert "| Songs | 200 | 515,345 |" in text
    assert "- not here: Enron: put enron_mail_20150507.tar.gz" in text
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (place / target).exists()
    assert "There are: pcr: 2 of 2 cells." in text
    lines = (place / "pcr.csv").read_text().splitlines(keepends=True)
    (place / "pcr.csv").write_text("".join(lines[:-1]))
    main([*command, "--no-run"])
    assert "There are: pcr: 1 of 2 cells." in (place / "README.md").read_text()
    (place / "pcr.csv").write_text("".join(lines))
    main([*command, "--no-run"])
    before = {p.name: p.read_bytes() for p in place.iterdir()}
    main([*command, "--jobs", "1"])  # nothing is left to compute
    assert {p.name: p.read_bytes() for p in place.iterdir() if p.suffix != ".png"} == {
        name: content for name, content in before.items() if not name.endswith(".png")
    }
