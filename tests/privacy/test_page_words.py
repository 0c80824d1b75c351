"""The page for those who decide: colours that mean what was tested, words of the algorithm, figures that agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.openings.sealed import GATE, SCALE
from pdml_spdz.fits.announced import announced
from pdml_spdz.local.joint import local_study
from pdml_spdz.privacy import lights, measures, report_content
from pdml_spdz.privacy.assess import ALGORITHMS, EVERY_VIEW
from pdml_spdz.results.page_words import in_words, with_code
from tests.unit.test_announced import CASES

# What only the protocol's documents call so.
LETTERS = re.compile(r"PD-|V_[kt0]|S V|\bSigma\b|Σ|sigma_|\|\||\^T|W_t|X_m")
SHARP = {"critical": 0.3, "distance": 0.3, "shift": 0.8, "auc": 0.7}
BLUNT = SHARP | {"auc": 0.9}
NOTHING = dict.fromkeys(SHARP)


def view(name: str = "pd-svd", told: int = 0, detectable: Any = SHARP, mean: float = 0.5, of: int = 20) -> Any:
    record = {"p": 0.5, "adjusted": 1.0, "auc": 0.6, "epsilon_family": 0.0}
    return {
        "name": name,
        "flagged": list(range(told)),
        "records": [record | {"document": i} for i in range(of)],
        "detectable": detectable,
        "mean_min_p": mean,
        "by_chance": 0.1,
        "samples": 40,
        "delta": 0.0,
        "level": 0.05,
    }


@pytest.mark.parametrize(
    ("seen", "colour"),
    [
        (None, lights.GREY),
        (view(detectable=NOTHING), lights.GREY),  # so few samples cannot show anything
        (view(detectable=BLUNT), lights.AMBER),
        (view(mean=0.05), lights.AMBER),
        (view(), lights.GREEN),
        (view(told=1), lights.RED),
        (view(told=20, detectable=NOTHING, mean=0.0), lights.RED),
    ],
)
def test_colours_are_of_what_was_tested(seen: Any, colour: str) -> None:
    assert lights.of_view(seen).colour == colour


def test_few_of_many_records_are_not_enough_for_green() -> None:
    few, enough = (lights.of_view(view(of=n), 1000, "random").colour for n in (20, 50))
    assert (few, enough) == (lights.AMBER, lights.GREEN)
    assert lights.of_view(view(of=20), 20, "random").colour == lights.GREEN  # all of them


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_levels_that_nobody_looked_at_are_grey_and_the_others_are_not(algorithm: str) -> None:
    def page(views: list[Any]) -> Any:
        ksdp = {"settings": {"algorithm": algorithm}, "views": views}
        return report_content.content(ksdp, None, None)

    empty = page([])
    assert {line["light"]["colour"] for line in (*empty["levels"], *empty["attacks"])} == {lights.GREY}
    assert empty["headline"].startswith("Not tested")
    name = empty["levels"][1]["view"]
    lines = page([view(name)])["levels"]
    assert [line["view"] for line in lines if line["light"]["colour"] == lights.GREEN] == [name]
    assert [line["told"] for line in lines if line["view"] == name] == [0]


def test_sealed_runs_that_end_without_a_result_are_neither_safe_nor_chance() -> None:
    """They tell fewer records than the result alone, because there is none."""

    def page(closed: float, told: int) -> Any:
        settings = {"algorithm": "pca", "closed": closed}
        views = [view(told=4), view("sealed run", told=told), view("sums", told=4)]
        return report_content.content({"settings": settings, "views": views}, None, None)

    colours = [page(closed, told)["levels"][1]["light"]["colour"] for closed, told in ((0.99, 0), (0.99, 2), (0.1, 0))]
    assert colours == [lights.GREY, lights.RED, lights.GREEN]
    assert not page(0.99, 0)["uneven"]
    assert page(0.1, 0)["uneven"]
    advice = report_content.words()["advice"]["closed"]
    assert advice in page(0.99, 0)["advice"]
    assert advice not in page(0.1, 0)["advice"]


@pytest.mark.parametrize(
    ("finding", "colour"),
    [
        (None, lights.GREY),
        ({"success": False, "tried": False}, lights.GREY),
        ({"success": True, "partly": True}, lights.RED),
        ({"success": False, "partly": True}, lights.AMBER),
        ({"success": False}, lights.GREEN),
    ],
)
def test_attacks_that_were_not_carried_out_are_grey(finding: Any, colour: str) -> None:
    assert lights.of_attack(finding).colour == colour


def test_every_observer_has_words() -> None:
    named = report_content.words()
    assert set(EVERY_VIEW) <= set(named["observers"])
    shown = {line.get("view") for line in (*named["levels"], *named["others"])}
    assert set(EVERY_VIEW) <= shown


def test_words_of_the_page_have_no_letters_of_the_protocol() -> None:
    def texts(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [t for key, value in part.items() if key != "view" for t in texts(value)]
        return [t for value in part for t in texts(value)] if isinstance(part, list) else [str(part)]

    assert [t for t in texts(report_content.words()) if LETTERS.search(t)] == []


SEALED = {"algorithm": "pca", "reveal": "sealed"}
HIDDEN = {"algorithm": "pca", "centre": "hidden"}
BY_COLUMN = {"algorithm": "svd", "normalise": "per-column", "bound": "secsum"}


@pytest.mark.parametrize("settings", [*CASES, SEALED, HIDDEN, BY_COLUMN], ids=str)
def test_what_a_run_shows_can_be_said_without_letters(settings: dict[str, Any]) -> None:
    lines = set(announced(local_study(3, **({"rank": 2} | settings))))
    for line in lines:
        assert not LETTERS.search(in_words(line)), line
    assert len({in_words(line) for line in lines}) == len(lines)  # and different things are not said to be the same


def test_both_bits_of_a_sealed_run_are_named() -> None:
    assert in_words(SCALE) != in_words(GATE)
    assert "large enough" in in_words(SCALE)


def test_share_of_all_records_is_an_interval_around_what_was_found() -> None:
    assert lights.share(0, 50, 1000, "random") == "so 0 % to 7 % of all 1,000 records"
    assert lights.share(25, 50, 1000, "random") == "so 36 % to 64 % of all 1,000 records"
    assert lights.share(2, 50, 60, "random") == "so 3 % to 14 % of all 60 records"  # two are, whatever the others are
    assert lights.share(1, 50, 51, "random") == "so 2 % to 4 % of all 51 records"
    for rows, chosen in ((50, "random"), (1000, "named"), (None, None)):  # all of them, or chosen for a reason
        assert lights.share(3, 50, rows, chosen) == ""


@pytest.mark.parametrize("samples", [4, 20, 41, 200])
def test_no_samples_prove_more_epsilon_than_the_page_says(samples: int) -> None:
    apart = np.arange(samples) / samples
    found = measures.epsilon_bound(apart[None, None] + 2.0, apart[None, None])
    assert found.lower[0] == pytest.approx(max(measures.epsilon_limit(samples), 0.0))


def test_code_in_words_is_marked_and_everything_is_escaped() -> None:
    assert with_code("see `a <b>` & <c>") == "see <code>a &lt;b&gt;</code> &amp; &lt;c&gt;"
