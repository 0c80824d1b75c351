"""Records by their ids, and records that are left out of a run."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from pdml_spdz.cli import fit
from pdml_spdz.cli.app import cli
from pdml_spdz.errors import InputError
from pdml_spdz.local.joint import LocalRun
from pdml_spdz.rows.data import from_rows
from pdml_spdz.rows.reading import Reading
from tests.parties.helpers import run as run_process

NAMES = list("abcdef")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two parties' tables of people with ids, one of whom nobody is like."""
    rng = np.random.default_rng(0)
    for m, who in enumerate(("x", "y")):
        rows = rng.gamma(1.0, 1.0, (30, 6)) * 2.0 ** -np.arange(6)
        rows[7] = 50.0 * np.eye(6)[5]
        table = pd.DataFrame(rows, columns=NAMES)
        table.to_csv(tmp_path / f"{m}.csv", index=False)
        table.insert(2, "who", [f"{who}{i:02}" for i in range(30)])
        table.to_csv(tmp_path / f"{who}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fit, "LocalRun", functools.partial(LocalRun, transport="threads"))
    return tmp_path


def say(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), env={"COLUMNS": "300"})


def well(*words: str) -> str:
    found = say(*words)
    assert found.exit_code == 0, f"{found.output} {found.exception}"
    return found.output


def test_run_without_records_is_that_of_the_other_rows(home: Path) -> None:
    (home / "leave-out.txt").write_text("7\n3\n")
    fit_it = ("svd", "--rank", "2", "--engine", "secsum")
    said = well(*fit_it, "0.csv", "1.csv", "--exclude", "1=leave-out.txt", "--out", "without")
    assert "left out 2 of 30 rows, which leave-out.txt names" in said
    pd.read_csv("1.csv").drop(index=[3, 7]).to_csv("rest.csv", index=False)
    well(*fit_it, "0.csv", "rest.csv", "--out", "rest")
    V, W = np.load("without/V.npy"), np.load("rest/V.npy")
    np.testing.assert_allclose(np.abs(np.sum(V * W, axis=0)), 1.0, atol=1e-9)
    report = json.loads(Path("without/report.json").read_text())
    assert report["accuracy"]["largest_angle_sine"] < 1e-6  # compared with the same rows of the files
    assert "leave-out" not in Path("without/result.html").read_text()
    assert json.loads(Path("without/party-1/ids.json").read_text())[2:4] == ["2", "4"]


def test_records_are_named_by_their_ids(home: Path) -> None:
    (home / "leave-out.txt").write_text("y07\nx07\nnobody\n")
    options = ("--id-column", "who", "--rank", "2", "--exclude", "leave-out.txt", "--out", "topics")
    said = well("nmf", "x.csv", "y.csv", "--iterations", "10", *options)
    assert "2 of its names are not here" in said  # at each of the two
    assert "privacy assess" in said  # the note after nmf
    assert Path("topics/party-0/ids.json").stat().st_mode & 0o077 == 0
    ids = json.loads(Path("topics/party-0/ids.json").read_text())
    assert len(ids) == 29
    assert "x07" not in ids
    W = np.load("topics/party-0/W.npy")
    assert f"own rows: {ids[int(np.argmax(W[:, 0]))]} (" in well("topics", "topics", "--id", "0")
    well("recommend", "topics", "--id", "0", "--user", "x11")
    assert "did you mean `x11`" in str(say("recommend", "topics", "--id", "0", "--user", "x111").exception)
    well("project", "topics", "x.csv", "--id-column", "who", "--out", "scores.csv")
    scores = pd.read_csv("scores.csv")
    assert list(scores["id"]) == [f"x{i:02}" for i in range(30)]


def test_party_process_leaves_records_out(home: Path) -> None:
    (home / "leave-out.txt").write_text("y07\nx07\n")
    options = ("--rank", "1", "--engine", "secsum", "--id-column", "who", "--exclude", "leave-out.txt", "--out", "o")
    run_process("svd", "x.csv", "y.csv", *options, cwd=home).well()
    assert json.loads(Path("o/report.json").read_text())["accuracy"]["largest_angle_sine"] < 1e-6
    assert len(json.loads(Path("o/party-1/ids.json").read_text())) == 29


def test_records_to_leave_out_are_written_by_their_ids(home: Path) -> None:
    measure = ("--algorithm", "nmf", "--rank", "2", "--documents", "@who.txt", "--samples", "40", "--jobs", "1")
    (home / "who.txt").write_text("x07\nx11\n")
    well("privacy", "assess", "x.csv", "--id-column", "who", *measure, "--sweeps", "3", "--seed", "1", "--out", "a")
    assert "<td>x07</td>" in Path("a/privacy.html").read_text()
    well("privacy", "exclude", "a", "--out", "leave-out.txt")
    assert Path("leave-out.txt").read_text().split() == ["x07"]


def test_numbers_without_a_party_and_lists_that_leave_nothing_are_refused(home: Path) -> None:
    (home / "all.txt").write_text("".join(f"{i}\n" for i in range(30)))
    unclear = say("svd", "0.csv", "1.csv", "--rank", "1", "--exclude", "all.txt")
    assert unclear.exit_code == 2
    assert "--exclude I=FILE" in unclear.output
    with pytest.raises(InputError, match=r"all\.txt leaves no row"):
        from_rows(np.eye(3), "rows").without([str(i) for i in range(3)], "all.txt")


def test_what_is_said_for_one_party_is_for_it_alone() -> None:
    both = Reading(exclude=("common.txt", "1=own.txt", "0=other=one.txt"))
    assert both.of(1).exclude == ("common.txt", "own.txt")
    assert both.of(0).exclude == ("common.txt", "other=one.txt")
    assert both.options() == ["--exclude", "common.txt", "--exclude", "1=own.txt", "--exclude", "0=other=one.txt"]
