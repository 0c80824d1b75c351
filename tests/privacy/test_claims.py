"""Answers to the paper's claims follow from the rows of the tables, and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.experiments.cells import Cell
from benchmarks.privacy import claims, levels, measure, page, ratings
from benchmarks.privacy.__main__ import absent, counted, mixed
from pdml_spdz.privacy.level_mechanism import LEVEL_VIEWS
from pdml_spdz.privacy.nmf_mechanism import NmfMechanism


def row(p: float, **more: Any) -> dict[str, str]:
    rng = np.random.default_rng(int(1e6 * p))
    records = p * rng.uniform(0.5, 1.5, size=20)
    figures = {
        "data": "Songs",
        "k": 7,
        "party_share": 0.1,
        "view": "pd-svd",
        "rows": 100,
        "pi": records.min(),
        "mean_min_p": records.mean(),
        "sd_min_p": records.std(),
        "by_chance": 0.1,
        "flagged": 0,
        "records": 20,
        "documents": 20,
        "samples": 50,
        "auc": 0.5,
        "epsilon": 0.0,
        "best_statistic": "W max",
        "told": "0" * 20,
        "p": f"W max: {' '.join(f'{x:.3g}' for x in records)}; learned attacker: {' '.join(['1'] * 20)}",
    }
    figures |= {f"paper_{name}": figures[name] for name in ("pi", "mean_min_p", "sd_min_p", "by_chance", "flagged")}
    return {name: str(value) for name, value in (figures | more).items()}


def svd(sigma: float, transcript: float, pd: float) -> list[dict[str, str]]:
    by_view = {"sigma": sigma, "transcript": transcript, "pd-svd": pd}
    return [row(p * g, view=view, party_share=s) for view, p in by_view.items() for s, g in ((0.005, 1), (0.1, 2))]


@pytest.mark.parametrize(
    ("p", "bounds", "hiding"),
    [((0.1, 0.2, 0.3), "yes", "yes"), ((0.2, 0.1, 0.05), "no", "no"), ((0.1, 0.05, 0.2), "no", "yes")],
)
def test_claims_on_sigma_follow_the_order_of_the_p_values(
    p: tuple[float, float, float], bounds: str, hiding: str
) -> None:
    rows = svd(*p)
    assert claims.bounds(rows, []).answer == bounds
    assert claims.hiding(rows, []).answer == hiding
    assert claims.size(rows, "SVD").answer == "yes"


@pytest.mark.parametrize(("p", "answer"), [(0.3, "yes"), (0.01, "mixed: in 1 of 2 series")])
def test_size_is_judged_by_another_draw_of_databases_too(p: float, answer: str) -> None:
    rows = [row(q, view=v, party_share=s) for v in ("pd-svd", "sigma") for q, s in ((0.1, 0.005), (0.2, 0.1))]
    found = claims.size(rows, "SVD", [row(p, view="pd-svd", paper_mean_min_p=p)])
    assert found.answer == answer
    assert f"; in another draw of databases {p:.3f} (10 %)" in found.figures


@pytest.mark.parametrize(
    ("pd", "mail", "answer", "words"),
    [
        (0.3, 0.05, "yes", "Enron 33.3 % is an exception here, too"),
        (0.3, 0.3, "mixed: the exception is none", "no exception: higher, too"),
        (0.1001, 0.05, "no", "by more than two standard errors higher in 0, lower in 0"),
        (0.05, 0.05, "no", "higher in 0 of 2 cells; by more than two standard errors higher in 0, lower in 2"),
    ],
)
def test_hiding_sigma_helps_where_p_is_higher_by_more_than_chance_but_for_the_papers_exception(
    pd: float, mail: float, answer: str, words: str
) -> None:
    rows = svd(0.1, 0.2, pd)
    rows += [row(p, view=v, data="Enron", party_share=0.333) for v, p in (("sigma", 0.1), ("pd-svd", mail))]
    found = claims.hiding(rows, [])
    assert found.answer == answer
    assert words in found.figures


def test_claims_on_sigma_name_the_other_draw_of_databases() -> None:
    others = [
        row(p, view=view, paper_mean_min_p=p)
        for view, p in (("sigma", 0.09), ("pd-svd", 0.037), ("power transcript", 0.096))
    ]
    rows = svd(0.1, 0.2, 0.3)
    assert (
        "300 iterations of power show, in 1 cell(s): Songs 10 %: 0.090 and 0.096" in claims.bounds(rows, others).figures
    )
    assert "in another draw of databases, Songs 10 %: 0.090 and 0.037" in claims.hiding(rows, others).figures


def test_claim_on_size_is_denied_where_p_falls() -> None:
    rows = [row(p, party_share=s) for p, s in ((0.3, 0.005), (0.2, 0.03), (0.1, 0.1))]
    assert claims.size(rows, "SVD").answer == "no"


def test_claim_of_privacy_is_denied_by_one_small_p() -> None:
    rows = [row(0.3), row(0.3, party_share=0.2, paper_pi=0.01)]
    assert claims.private(rows, "PD-SVD", "pd-svd").answer == "mixed: in 1 of 2 cells"
    assert claims.private(rows[1:], "PD-SVD", "pd-svd").answer == "no, in the one cell computed"
    assert claims.private(rows[:1], "PD-SVD", "pd-svd").answer == "yes, in the one cell computed"


def test_claim_of_privacy_says_how_often_chance_denies_it() -> None:
    figures = claims.private([row(0.3, records=50), row(0.3, records=50, paper_flagged=3)], "PD-NMF", "pd-svd").figures
    assert "below 0.05 in 92.306 % of cells of 50" in figures  # 1 - 0.95^50
    assert "no record is distinguishable in 1 of 2 cells" in figures


def test_claims_are_judged_by_the_papers_statistics_and_say_what_rests_on_reduced_cells() -> None:
    mine = [row(0.3, pi=1e-9, flagged=20, party_share=share) for share in (0.1, 0.3)]
    assert claims.private(mine, "PD-SVD", "pd-svd").answer == "yes"
    assert "0 (20) of 20" in claims.private(mine, "PD-SVD", "pd-svd").figures
    small = claims.private([mine[0] | {"grid": "reduced"}, mine[1]], "PD-SVD", "pd-svd")
    assert small.answer == "yes, on reduced cells"
    assert "(20 records)" in small.figures


def test_p_does_not_grow_from_nothing_to_nothing() -> None:
    rows = [row(p, party_share=s) for p, s in ((1e-6, 0.005), (1e-4, 0.03))]
    assert claims.size(rows, "SVD").answer == "no"


def noise(uplifts: tuple[float, ...]) -> list[dict[str, str]]:
    settings = (("pcr", "Songs"), ("pcr", "News"), ("lra", "20NG"), ("lra", "Enron"))
    return [
        {
            "experiment": e,
            "data": name,
            "beta": "own rows" if e == "pcr" else "",
            "party_share": share,
            "trial": str(trial),
            "method": method,
            "uplift_percent": str(value + 0.1 * trial),
        }
        for (e, name), u in zip(settings, uplifts, strict=True)
        for method, value in (("exact", 3.0), ("dp-entry", u), ("dp-row", u))
        for share in ("0.1", "0.3")
        for trial in (-1, 0, 1)
    ]


@pytest.mark.parametrize(
    ("uplifts", "answer"),
    [
        ((-1, -1, -1, 2), "yes"),
        ((-1, 1, 1, -2), "no"),
        ((-1, -1, -0.05, 1), "mixed: in 2 of 4 settings"),  # the third is within its error of nothing
    ],
)
def test_claim_on_noise_counts_settings(uplifts: tuple[float, ...], answer: str) -> None:
    rows = noise(uplifts)
    assert claims.noise(rows, "own rows").answer == answer
    assert claims.noise(rows, "all rows").answer == "not judged: 2 of 4 settings"  # PCR is not there in that reading


def test_claim_that_all_gain_names_the_sizes_that_do_not() -> None:
    def gain(share: str, value: float, trial: int) -> dict[str, str]:
        uplift = str(value + 0.01 * trial)
        return {"experiment": "topics", "method": "exact", "party_share": share, "uplift_percent": uplift}

    rows = [gain(s, v, t) for s, v in (("0.01", 1.0), ("0.1", -0.015), ("0.3", -0.08)) for t in range(3)]
    found = claims.all_gain(rows, "topics")
    assert found.answer == "in 1 of 3 sizes (a loss in one)"  # at 10 % it is within twice its error of nothing
    assert "30 %: -0.07" in found.figures
    assert claims.all_gain(rows[:3], "topics").answer == "yes"


def test_user_mean_is_the_mean_of_what_is_known_of_the_user() -> None:
    known = sp.csr_array(np.array([[4.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
    held = sp.csr_array(np.array([[0.0, 0.0, 5.0], [1.0, 0.0, 0.0]]))
    assert ratings.user_means(known, held) == pytest.approx(2.0)  # 5 - 3, and 1 - 3, the mean of all


def test_figures_of_a_recommender_stand_beside_each_other() -> None:
    def gain(local: float, trial: int, **names: str) -> dict[str, str]:
        names |= {"party_share": "0.1", "local": str(local), "joint": "0.9"}
        return names | {"uplift_percent": str(100 * (1 - 0.9 / local) + trial)}

    tuned = [gain(0.96, t, method=m) for m in ("both with 1", "each tuned") for t in (-1, 1)]
    beside = [gain(0.93, 0, experiment=e, method="exact") for e in ("recommender", "topics")]
    found = ratings.compared(tuned, beside, [gain(1.0, t, k=k) for k in ("7", "14") for t in (-1, 0, 1)])
    assert [line.split(" | ")[1:] for line in found[2:]] == [
        ["1.000", "0.900", "+10.0 ± 0.6", "3 |"],
        ["0.930", "0.900", "+3.2 ± nan", "1 |"],
        ["0.960", "0.900", "+6.2 ± 1.0", "2 |"],
        ["0.960", "0.900", "+6.2 ± 1.0", "2 |"],
    ]
    assert [line.split(" | ")[1] for line in ratings.lines(tuned)[2:]] == ["both with 1", "each tuned"]


def test_levels_stand_beside_each_other_and_beside_v_k(tmp_path: Path) -> None:
    told = {view: "1" * i + "0" * (20 - i) for i, view in enumerate(LEVEL_VIEWS)}
    rows = [row(0.1, view=view, data="Enron", told=told[view], flagged=i) for i, view in enumerate(LEVEL_VIEWS)]
    text = page.write({"levels": rows}, tmp_path / "page.md", full=False).read_text()
    assert "| V_k alone | no level: what nothing can hide | 0 |" in text
    assert "| `--reveal sealed` | the same, and the ratios of b = 2k Ritz values | 6 |" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| Enron 10 % | +")]
    assert line.startswith("| Enron 10 % | +7 (")  # sealed without ratios, less V_k alone


def test_uplift_has_all_methods_and_the_own_model_in_one_figure(tmp_path: Path) -> None:
    lines = page.noise_sections(claims.of(noise((-1, 2, 0, 0)), experiment="pcr"), tmp_path)
    assert "| Songs | 10 % | +3.00 ± 0.06 | -1.00 ± 0.06 | -1.00 ± 0.06 | 3 |" in lines
    figure = (tmp_path / "uplift-pcr.svg").read_text()
    assert all(f">{name}</text>" in figure for name in ("PD-SVD", "DP-SVD, entries", "DP-SVD, rows", "local only"))


def test_page_has_the_paper_beside_ours(tmp_path: Path) -> None:
    nmf = [row(0.1, data="Enron", party_share=s, view="pd-nmf", start="random") for s in (0.005, 0.03, 0.1)]
    text = page.write({"nmf": nmf, "svd": svd(0.1, 0.2, 0.3)}, tmp_path / "page.md", full=False).read_text()
    assert "0.029 ± 0.02" in text
    assert (tmp_path / "ksdp-songs.svg").is_file()
    assert text.count("**yes**") + text.count("**no**") >= 6


def test_small_cells_stand_in_for_those_of_the_papers_size_that_are_not_there(tmp_path: Path) -> None:
    def cell(share: str, grid: str, samples: str) -> dict[str, str]:
        return row(0.1, data="Enron", party_share=share, view="pd-nmf", start="random", samples=samples) | {
            "grid": grid
        }

    paper = [cell("0.005", "full", "200")]
    rows = mixed("nmf", paper, [cell("0.005", "small", "30"), cell("0.03", "small", "30")])
    assert [(r["party_share"], r["samples"]) for r in rows] == [("0.005", "200"), ("0.03", "30")]
    names = ("data", "k", "party_share", "start", "samples")
    grid = [
        Cell(
            {n: {"data": "Enron", "k": 7, "party_share": share, "start": "random", "samples": 200}[n] for n in names},
            list,
            (),
        )
        for share in (0.005, 0.03, 0.1)
    ]
    (missing,) = absent("nmf", grid, rows)
    assert missing == "nmf: data Enron, k 7, start random, samples 200: 3 % (small above), 10 %"
    count = counted("nmf", grid, rows)
    assert count == "NMF: of 3 cells 1 are of the paper's size, 1 reduced, 1 not computed."
    text = page.write({"nmf": rows}, tmp_path / "page.md", [missing], [count], full=True).read_text()
    assert f"- {missing}" in text
    assert count in text
    assert "| 20, 200 + 200 |" in text
    assert "| 20, 30 + 30 |" in text
    assert claims.size(rows, "PD-NMF").answer == "not measured"  # p of 30 and of 200 samples do not compare


def test_cell_measures_what_the_table_shows(tmp_path: Path) -> None:
    X = np.random.default_rng(0).gamma(0.7, size=(60, 5))
    rows, others, size = measure.split(X, 0.2, 1)
    assert (len(rows), len(others), size) == (48, 12, 12)
    (found,) = measure.measured(rows, NmfMechanism(others, 2, 3), size, 3, 6, tmp_path)
    assert found["records"] == 3
    p = claims.p_of({"p": found["p"]})
    assert len(p) == len(found["told"]) == 3
    assert float(found["pi"]) == pytest.approx(min(p), rel=1e-2)  # as many digits as the table keeps
    (alone,) = [values for name, values in claims.p_by_statistic(found).items() if name in measure.OF_PAPER]
    assert claims.p_of(found, measure.OF_PAPER) == alone
    assert float(found["paper_pi"]) == pytest.approx(min(alone), rel=1e-2)


@pytest.mark.parametrize(
    ("alone", "everything", "says"),
    [
        (10, 10, "Nowhere less than half: opening nothing but T would not help."),
        (4, 10, "Less than half: Songs k = 7 10 % from random. There opening nothing but T would help."),
        (0, 0, ""),
    ],
)
def test_opening_topics_alone_is_judged_by_the_records_they_tell(alone: int, everything: int, says: str) -> None:
    told = {"pd-nmf": everything, "topics": alone}
    rows = [row(0.1, view=v, start="random", flagged=n, told="1" * n + "0" * (20 - n)) for v, n in told.items()]
    found = levels.sums_verdict(rows)
    assert found.endswith(says)
    assert bool(found) == bool(says)
    assert f"{alone} and {everything} ({alone - everything:+d}; " in found or not says
