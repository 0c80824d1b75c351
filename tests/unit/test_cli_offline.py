"""`pdml-spdz offline` without processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.errors import StorageError, StudyError
from pdml_spdz.repeats import count


def test_plan_says_what_a_run_takes() -> None:
    done = CliRunner().invoke(
        cli, ["offline", "plan", "-M", "3", "-d", "64", "-k", "7", "--iterations", "300", "--json"]
    )
    assert done.exit_code == 0, done.output
    plan = json.loads(done.output)
    assert plan["plan"] == {"triples": 64, "vectors": [64 * 7 * 300]}
    assert plan["kind"] == {"M": 3, "vector_bits": 160, "scalar_bits": 320, "vole": "lpn"}


def test_plan_of_very_many_iterations_takes_no_time() -> None:
    arguments = ["offline", "plan", "-d", "64", "-k", "7", "--iterations", "1000000", "--json"]
    assert json.loads(CliRunner().invoke(cli, arguments).output)["plan"]["vectors"] == [64 * 7 * 10**6]


def test_options_beside_a_study_are_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    assert CliRunner().invoke(cli, ["init", "--parties", "2", "--rank", "2", "--out", str(study)]).exit_code == 0
    done = CliRunner().invoke(cli, ["offline", "plan", str(study), "--rank", "3"])
    assert done.exit_code == 2
    assert "the study says it" in done.output


def test_study_without_d_is_refused_with_what_to_do(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    CliRunner().invoke(cli, ["init", "--parties", "2", "--rank", "2", "--out", str(study)])
    done = CliRunner().invoke(cli, ["offline", "plan", str(study)])
    assert isinstance(done.exception, StudyError)
    assert "init --dim" in str(done.exception)


def test_status_of_an_empty_directory(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["offline", "status", "--stock", str(tmp_path)])
    assert "no stock in" in done.output


@pytest.mark.parametrize("content", ["", "{", "[]", '{"salt": 3, "uses": {}}', '{"salt": "00", "uses": 7}'])
def test_damaged_count_of_repeats_is_not_taken_for_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "repeats.json"
    path.write_text(content)
    with pytest.raises(StorageError, match="cannot be read"):
        count(b"x", path)
    assert path.read_text() == content
