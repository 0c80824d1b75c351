"""The privacy commands, on files, as a user gives them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from pdml_spdz.cli.app import cli
from pdml_spdz.errors import PdmlError

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
    worst = min(r["adjusted"] for view in content["views"] for r in view["records"] if r["document"] == 0)
    assert content["risky"][0]["adjusted"] == worst
    assert content["sizes"] == [{"colluding": 0, "rows": 140}, {"colluding": 1, "rows": 40}]
    assert re.search(r"Who sees the result only \(PD-SVD: V_k\): (\d|none) of 4 records are distinguishable", page)
    assert all(line in page for line in ("What is not covered", "What was assumed", "Records most at risk"))
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
    assert "Effective party size" in page
    assert "all others collude" in page


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
