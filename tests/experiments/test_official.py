"""The data sets as their authors publish them: small archives of the same form; and what is said without them."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.experiments import datasets, official
from benchmarks.experiments.__main__ import main

MAIL = "From: someone\nSubject: topics\n\nAbout topics.\n"
STORY = "<REUTERS><TEXT><TITLE>T</TITLE><BODY>Grain &amp; oil.</BODY></TEXT></REUTERS>\n<BODY>Second\nstory</BODY>"


def tar(path: Path, files: dict[str, str]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("latin-1")))


def zipped(path: Path, name: str, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/" + name, "not this")
        archive.writestr(name, text)


@pytest.mark.parametrize("name", ["20NG", "Enron"])
def test_posts_and_mails_come_without_their_headers(tmp_path: Path, name: str) -> None:
    tar(tmp_path / official.OFFICIAL[name].archive, {"a/1": MAIL, "a/2": "No header here.\n\nAt all."})
    assert list(official.texts(tmp_path, name)) == ["About topics.\n", "No header here.\n\nAt all."]
    assert official.rows_found(tmp_path, name) == 2


def test_stories_are_the_bodies_of_the_sgml_files(tmp_path: Path) -> None:
    tar(tmp_path / "reuters21578.tar.gz", {"reut2-000.sgm": STORY, "README.txt": "<BODY>not a story</BODY>"})
    assert list(official.texts(tmp_path, "Reuters")) == ["Grain & oil.", "Second\nstory"]


def test_json_lines_do_as_well(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "reuters21578.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps({"body": body}) + "\n" for body in ("one", "two"))
    assert list(official.texts(tmp_path, "Reuters")) == ["one", "two"]


@pytest.mark.parametrize("official_form", [True, False])
def test_ratings_of_both_forms(tmp_path: Path, official_form: bool) -> None:
    if official_form:
        zipped(tmp_path / "ml-1m.zip", "ml-1m/ratings.dat", "7::30::5::978300760\n9::20::3::978302109\n7::20::1::9\n")
    else:
        with gzip.open(tmp_path / "movielens1m_ratings.csv.gz", "wt") as lines:
            lines.write("user,movie,rating\n7,30,5\n9,20,3\n7,20,1\n")
    assert datasets.ratings(tmp_path).toarray().tolist() == [[1, 5], [3, 0]]
    assert official.rows_found(tmp_path, "ML-1M") == 3


def test_regression_tables_of_the_official_form(tmp_path: Path) -> None:
    zipped(tmp_path / "YearPredictionMSD.txt.zip", "YearPredictionMSD.txt", "2001,1.5,7,3\n1999,2.5,7,4\n")
    head = "url, timedelta, a, b, shares"
    zipped(
        tmp_path / "OnlineNewsPopularity.zip",
        "x/OnlineNewsPopularity.csv",
        f"{head}\nu, 1.0, 2, 3, 50\nv, 2.0, 4, 3, 70\n",
    )
    zipped(tmp_path / "BlogFeedback.zip", "blogData_train.csv", "1.0,2.0,3.0\n4.0,2.0,6.0\n")
    # Columns that are the same in all rows are left out.
    for name, X, y in (
        ("Songs", [[1.5, 3], [2.5, 4]], [2001, 1999]),
        ("News", [[2], [4]], [50, 70]),
        ("Blogs", [[1], [4]], [3, 6]),
    ):
        found = datasets.regression_table(tmp_path, name)
        assert (found[0].tolist(), found[1].tolist()) == (X, y)
        assert official.rows_found(tmp_path, name) == 2


def test_parties_have_no_duplicates_of_their_own_and_nothing_that_is_held_out() -> None:
    rows, held = datasets.parties(1000, 0.3, 5, seed=1)
    assert [len(np.unique(r)) for r in rows] == [300] * 5
    assert len(held) == 200
    assert not set(held) & set(np.concatenate(rows))
    assert len(np.unique(np.concatenate(rows))) < 1500  # parties are drawn independently


def test_without_data_every_file_is_named_and_the_run_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDML_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="nothing to run: no data set that is wanted is in") as ended:
        main([])
    assert ended.value.code  # a message: exit code 1
    said = capsys.readouterr().err
    for o in official.OFFICIAL.values():
        assert f"put {o.archive} ({o.where}) into {tmp_path}" in said


@pytest.mark.skipif("PDML_DATA" not in os.environ, reason="PDML_DATA, the directory of the data sets, is not set")
@pytest.mark.parametrize("name", official.OFFICIAL)
def test_the_data_directory_has_what_the_loaders_expect(name: str) -> None:
    directory = Path(os.environ["PDML_DATA"])
    if not official.has(directory, name):
        pytest.skip(f"{name} is not there")
    assert 0.005 * official.OFFICIAL[name].rows < official.rows_found(directory, name) <= official.OFFICIAL[name].rows
