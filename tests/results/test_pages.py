"""What a run leaves for people: loadings.csv, result.html; and what may be in them."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pdml_spdz
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.results.result_page import loadings_of, page
from pdml_spdz.results.sheets import csv_text, safe

HOSTILE = ["=1+1", "+a", "-b", "@c", "<script>alert(1)</script>", "\"&'", "\tx", "plain"]


class Text(HTMLParser):
    """What a browser would show, and every tag and address that it would follow."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words, self.tags, self.followed = "", set(), []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.followed += [value for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.words += data


def tables(names: list[str], M: int = 3) -> list[pd.DataFrame]:
    rng = np.random.default_rng(0)
    scales = 2.0 ** -np.arange(len(names))
    return [pd.DataFrame(rng.standard_normal((30, len(names))) * scales + 1.0, columns=names) for _ in range(M)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose features have names that nobody should have."""
    out = tmp_path_factory.mktemp("pages") / "run"
    study = local_study(3, algorithm="pca", rank=2, engine="secsum", variance=True, tol=1e-6)
    run_local(LocalRun(tables(HOSTILE), study, out, transport="threads"))
    return out


def test_loadings_have_all_digits_and_the_names_of_the_features(finished: Path) -> None:
    V = np.load(finished / "V.npy")
    with (finished / "loadings.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == ["feature", "PC1", "PC2"]
    np.testing.assert_array_equal(np.array([[float(x) for x in line[1:]] for line in lines]), V)
    assert [line[0].removeprefix("'") for line in lines] == HOSTILE
    assert (finished / "party-1" / "loadings.csv").read_bytes() == (finished / "loadings.csv").read_bytes()


@pytest.mark.parametrize("cell", ["=1", "+x", "-x", "@x", "\t=1", "\r=1", "=-1"])
def test_cells_that_a_spreadsheet_would_execute_are_text(cell: str) -> None:
    (line,) = list(csv.reader(csv_text(["a"], [cell], [[]]).splitlines(keepends=True)[1:]))[:1]
    assert safe(cell) == f"'{cell}"
    assert line[0][:1] == "'"


@pytest.mark.parametrize("cell", ["-5", "+1e3", "-0.5", "age", "a=b"])
def test_numbers_and_ordinary_names_stay_as_they_are(cell: str) -> None:
    assert safe(cell) == cell


def test_names_are_text_in_the_page_and_nothing_is_fetched(finished: Path) -> None:
    for path in (finished / "result.html", finished / "party-0" / "result.html"):
        seen = Text(path.read_text(encoding="utf-8"))
        assert "script" not in seen.tags
        assert seen.followed == []
        for name in HOSTILE:
            assert name.strip() in seen.words


def test_result_of_a_function_is_a_table_as_the_file_has_it(finished: Path) -> None:
    again = pdml_spdz.pca(tables(HOSTILE), rank=2, engine="secsum", transport="threads").loadings()
    written = pd.read_csv(finished / "loadings.csv", index_col="feature")
    assert list(again.columns) == list(written.columns)
    assert list(again.index) == HOSTILE
    np.testing.assert_allclose(np.abs(again.to_numpy()), np.abs(written.to_numpy()), atol=1e-5)


def test_page_says_what_was_seen_and_computed(finished: Path) -> None:
    words = Text((finished / "result.html").read_text(encoding="utf-8")).words
    for phrase in ("the mean of all rows", "S V_t in every iteration", "Explained variance", "Convergence", "90 rows"):
        assert phrase in words
    assert "Not revealed" not in words


def test_page_of_all_has_nothing_of_a_party(finished: Path) -> None:
    own = (finished / "party-0" / "result.html").read_text(encoding="utf-8")
    common = (finished / "result.html").read_text(encoding="utf-8")
    assert "30 of them this party's own" in own
    assert "this party's own" not in common
    assert "keep it like the data" in own
    assert "keep it like the data" not in common


def test_page_of_a_party_is_for_its_owner_only(finished: Path) -> None:
    assert (finished / "party-0" / "result.html").stat().st_mode & 0o077 == 0


def test_warnings_about_a_partys_rows_are_on_its_own_page_only(tmp_path: Path) -> None:
    rows = tables(["a", "b", "c"])
    rows[1]["record_id"] = np.arange(30.0)
    for m in (0, 2):
        rows[m]["record_id"] = np.random.default_rng(m).permutation(30) / 7.0
    study = local_study(3, algorithm="pca", rank=2, engine="secsum", tol=1e-4, centre="none")
    run_local(LocalRun(rows, study, tmp_path, transport="threads"))
    assert "identifier" in (tmp_path / "party-1" / "result.html").read_text()
    assert not re.search("identifier", (tmp_path / "result.html").read_text())


def test_results_of_an_older_run_go(tmp_path: Path) -> None:
    rows = [np.abs(t.to_numpy()) for t in tables(["a", "b", "c"])]
    first = local_study(3, algorithm="nmf", rank=2, seed=1, start="seed", iterations=3)
    run_local(LocalRun(rows, first, tmp_path, transport="threads"))
    assert (tmp_path / "topics.csv").is_file()
    again = local_study(3, algorithm="svd", rank=1, engine="secsum", tol=1e-4)
    run_local(LocalRun(rows, again, tmp_path, force=True, transport="threads"))
    assert not (tmp_path / "topics.csv").exists()
    assert not (tmp_path / "party-0" / "topics.csv").exists()
    assert "Singular vectors of 3 parties" in (tmp_path / "result.html").read_text()


def test_page_of_many_features_shows_the_largest_and_stays_small() -> None:
    d, k = 20_000, 10
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0]
    V[17, 3] = 0.9
    report = {
        "algorithm": "svd",
        "features": None,
        "parties": 2,
        "party_id": None,
        "d": d,
        "observables": [],
        "warnings": [],
        "seconds": {"local": 0, "online": {"wait": 0, "transport": 0, "crypto": 0}, "offline": 0, "total": 0},
        "bytes_sent": 0,
        "rounds": 0,
        "offline": {"bytes_sent": 0, "rounds": 0},
        "by_party": None,
        "insecure": True,
        "engine": "plain",
        "protocol": None,
        "reveal": "sum",
        "security": {"model": "none", "corruptions": "none"},
        "mp_spdz": {"megabytes_sent": 12.5, "rounds": 7, "seconds": 1.0, "executions": 1, "version": "0.4.2"},
        "asked": {"tol": 0.0, "iterations": 1},
    }
    report["party_id"] = 0
    report["rows_own"] = 1
    written = page(report, loadings_of(report, V), private=False)
    assert len(written) < 1_000_000
    words = Text(written).words
    assert "feature 18" in words
    assert "INSECURE" in words
    assert "12.500 MB, 7 rounds" in words
    assert "the singular values" not in words
