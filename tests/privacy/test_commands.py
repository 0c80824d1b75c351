"""The privacy commands, on files, as a user gives them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from pdml_spdz.cli.app import cli
from pdml_spdz.errors import PdmlError
from pdml_spdz.privacy.assess import OF_LEVELS
from tests.privacy.test_page_words import LETTERS

SMALL = ["--documents", "4", "--samples", "12", "--jobs", "1", "--seed", "3"]


def call(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["privacy", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).gamma(0.7, size=(40, 6))
    X[0] *= 200.0  # one record that nobody can overlook
    np.save(tmp_path / "rows.npy", X)
    return tmp_path / "rows.npy"


def test_page_of_a_pca_has_its_own_words_and_the_mean_by_subtraction(rows: Path, tmp_path: Path) -> None:
    call("assess", rows, "--algorithm", "pca", "--rank", 2, *SMALL, "--out", tmp_path)
    page, content = ((tmp_path / f"privacy.{kind}").read_text() for kind in ("html", "json"))
    assert not LETTERS.search(page)
    assert "principal components" in page
    by_name = {a["attack"]: a for a in json.loads(content)["attacks"]}
    mean = by_name.pop("mean less own rows")
    assert mean["title"] == "mean minus own rows"
    assert mean["light"]["colour"] == "red"
    assert mean["figures"]["rows"] == len(np.load(rows))
    assert mean["got"].endswith("exact")
    assert {a["light"]["colour"] for a in by_name.values()} == {"grey"}  # nobody has tried them


def test_files_are_measured_as_a_run_would_read_and_scale_them(tmp_path: Path) -> None:
    """As numbers that pandas and NumPy have made of the same table."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(40, 4)) * [1e4, 1, 1, 1] + 3, columns=list("abcd"))
    table["d"] = 0.1  # does not vary
    table["sex"], table["day"] = rng.choice(["f", "m"], 40), "2024-01-01"
    table.loc[7, "b"] = np.nan
    table.to_csv(tmp_path / "raw.csv", sep=";", index=False)
    plain = pd.get_dummies(table.drop(columns="day"), columns=["sex"]).astype(float)
    plain = plain.fillna(plain.mean())
    np.save(tmp_path / "plain.npy", plain / plain.std(ddof=0).where(plain.std() > 1e-9, 1.0))
    asked = ["--algorithm", "pca", "--rank", 2, *SMALL, "--view", "sums", "--json"]
    options = ["--drop", "day", "--encode", "sex=f,m", "--missing", "mean", "--scale", "secsum"]
    raw, prepared = (
        json.loads(call("ksdp", tmp_path / name, *asked, *more, "--out", tmp_path / name[:3]).stdout)
        for name, more in (
            ("raw.csv", [*options, "--others", tmp_path / "raw.csv"]),
            ("plain.npy", ["--others", tmp_path / "plain.npy"]),
        )
    )
    for one, other in zip(raw["views"][0]["records"], prepared["views"][0]["records"], strict=True):
        assert one["adjusted"] == other["adjusted"]
        assert one["auc"] == other["auc"]
    assert sum("this party's" in line for line in raw["settings"]["assumptions"]) == 2 + sum(
        "this party's" in line for line in prepared["settings"]["assumptions"]
    )


def test_observers_of_another_algorithm_are_refused(rows: Path, tmp_path: Path) -> None:
    for algorithm, view in (("svd", "topics"), ("nmf", "sums")):
        with pytest.raises(PdmlError, match="are unknown"):
            call("ksdp", rows, "--algorithm", algorithm, "--rank", 2, "--view", view, *SMALL, "--out", tmp_path)


class Page(HTMLParser):
    """Tags that are open, and addresses that the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "circle", "path", "polyline"):
            self.open.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("circle", "path", "polyline"):
            assert self.open.pop() == tag


def test_assess_writes_a_page_that_names_the_record_and_needs_nothing_else(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "chosen.txt").write_text("0\n7\n9\n11\n")
    out = tmp_path / "out"
    options = ["--rank", 2, *SMALL, "--documents", f"@{tmp_path / 'chosen.txt'}", "--rows", "40,100", "--out", out]
    call("assess", rows, *options)
    page = (out / "privacy.html").read_text()
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    assert parser.loads == []
    assert "<script" not in page
    content = json.loads((out / "privacy.json").read_text())
    assert content["risky"][0]["document"] == 0
    assert sorted(line["document"] for line in content["risky"]) == [0, 7, 9, 11]  # each once, by its worst observer
    assert content["risky"][0]["adjusted"] == min(
        r["adjusted"] for view in content["views"] for r in view["records"] if r["document"] == 0
    )
    assert content["sizes"] == [{"colluding": 0, "rows": 140}, {"colluding": 1, "rows": 40}]
    assert [line["view"] for line in content["levels"]] == list(OF_LEVELS)  # each level, on the same records
    told = {view["name"]: len(view["flagged"]) for view in content["views"]}
    assert [line["told"] for line in content["levels"]] == [told[view] for view in OF_LEVELS]
    assert content["risky"][0]["at"] == [0 in view["flagged"] for view in content["views"]]
    assert all(line in page for line in ("What is not covered", "What was assumed", "What the test could have found"))
    call("exclude", out)
    assert "0" in (out / "exclude.txt").read_text().split()


def test_assess_says_the_same_again_and_resumes_with_the_kept_seed(rows: Path, tmp_path: Path) -> None:
    options = ["--rank", 2, "--documents", 3, "--samples", 8, "--jobs", 1, "--json", "--out", tmp_path / "out"]
    first = json.loads(call("ksdp", rows, *options).stdout)
    (tmp_path / "out" / "samples" / "with-0-3.npz").unlink()
    assert json.loads(call("ksdp", rows, *options).stdout) == first


def test_report_joins_attacks_and_measurements(rows: Path, tmp_path: Path) -> None:
    X = np.load(rows)
    np.save(tmp_path / "a.npy", X[:20])
    np.save(tmp_path / "b.npy", X[20:])
    run = tmp_path / "run"
    files = [str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]
    fit = [
        "nmf",
        *files,
        "--rank",
        "2",
        "--iterations",
        "3",
        "--init",
        "random",
        "--record-transcript",
        "--out",
        str(run),
    ]
    assert CliRunner().invoke(cli, fit, catch_exceptions=False).exit_code == 0
    report = json.loads((run / "party-1" / "report.json").read_text())
    assert report["transcript"]["sum:topic"]["times"] == 6
    call("attack", run, "--own", tmp_path / "b.npy", "--honest", tmp_path / "a.npy")
    call("ksdp", rows, "--algorithm", "nmf", "--rank", 2, "--sweeps", 3, *SMALL, "--out", run)
    call("report", run)
    page = (run / "privacy.html").read_text()
    assert "features of the honest parties" in page
    assert "How large this party is in the eyes of the others" in page
    assert "all other parties together know this party&#39;s part" in page
    assert not LETTERS.search(page)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ksdp", "{rows}", "--rank", "2", "--size", "39"], "too few to draw databases"),
        (["ksdp", "{rows}", "--rank", "9", "--out", "{out}"], "the rank is 9"),
        (["ksdp", "{rows}", "--rank", "2", "--documents", "@nowhere"], "--documents is"),
        (
            ["ksdp", "{rows}", "--rank", "2", "--statistic", "nowhere.py:f", "--jobs", "1", "--out", "{out}"],
            "cannot be loaded",
        ),
        (["assess", "{rows}", "--rank", "2", "--rows", "many"], "--rows is 'many'"),
        (["attack", "{out}"], "does not exist"),
        (["report", "{out}"], "holds no measurement"),
        (["exclude", "{out}"], "holds no measurement"),
    ],
)
def test_wrong_input_is_said_in_words(arguments: list[str], message: str, rows: Path, tmp_path: Path) -> None:
    filled = [a.format(rows=rows, out=tmp_path / "out") for a in arguments]
    with pytest.raises(PdmlError, match=message):
        call(*filled)
