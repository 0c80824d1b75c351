"""Parties that do not mean the same thing, and studies that nobody can mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pdml_spdz.errors import MismatchError, PeerError, StudyError
from pdml_spdz.study import file as study_file
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.model import PartyEntry, Study
from tests.parties.helpers import HASTE, Parties, run


@pytest.mark.parametrize("change", [{"rank": 1}, {"tol": 1e-5}], ids=["rank", "tol"])
def test_study_differs_at_one_party(parties: Callable[..., Parties], change: dict[str, float]) -> None:
    site = parties(3)
    site.change_study(1, **change)
    for m, end in enumerate(site.run()):
        other = 0 if m == 1 else 1
        end.failed(MismatchError, f"P{other} has another study than this party", "Do this: send the same study.toml")


def test_study_differs_in_comments_only(parties: Callable[..., Parties]) -> None:
    site = parties()
    study = site.home(1) / "study.toml"
    lines = [line.partition("#")[0] for line in study.read_text().splitlines()]
    study.write_text("# mine\n" + "\n\n".join(line.replace(" = ", "=") for line in lines if line.strip()) + "\n")
    for end in site.run():
        end.well()


def test_resume_differs_at_one_party(parties: Callable[..., Parties]) -> None:
    site = parties(solver="power", tol=0.0, iterations=3)
    for end in site.run():
        end.well()
    before = {path: path.read_bytes() for m in range(2) for path in site.results(m).rglob("*.np*")}
    assert len(before) == 2 * (2 + 2)  # V, V_0 and the last two checkpoints of both
    site.start(0, "--resume")
    site.start(1, "--force")
    resuming, anew = site.end()
    resuming.failed(
        MismatchError, "P1 has another --resume setting", "Do this: pass --resume at every party or at none"
    )
    anew.failed(MismatchError, "P0 has another --resume setting", "Do this: pass --resume at every party or at none")
    assert {path: path.read_bytes() for path in before} == before


def test_id_out_of_range(parties: Callable[..., Parties]) -> None:
    site = parties(timeouts=HASTE)
    site.start(0)
    run("party", "study.toml", "--id", "2", "--data", "rows.npy", cwd=site.home(1)).failed(
        StudyError, "--id is 2 and the study has 2 parties", "Wanted: a number from 0 to 1"
    )
    site.end()[0].failed(PeerError, "P1 did not connect within 2 s", "Do this: start P1")


@pytest.mark.parametrize(
    ("old", "new", "phrases"),
    [
        ('engine = "plain"', 'engine = "spdz"', ["`engine` is 'spdz'", f"Wanted: one of {', '.join(ENGINES.names())}"]),
        ("rank = 2", "ranks = 2", ["the study has no `rank`"]),
        ("iterations = 60", "iteration = 60", ["unknown key `iteration`", "Do this: did you mean `iterations`?"]),
        ("port = 1", "prot = 1", ["[[parties]] number 0 has an unknown key `prot`", "did you mean `port`?"]),
        ("rank = 2", 'rank = "two"', ["`rank` in the study is 'two'", "Wanted: a value of type int"]),
        ("rank = 2", "rank = 2.5", ["`rank` in the study is 2.5", "Wanted: a value of type int"]),
        ("tol = 1e-06", "tol = true", ["`tol` in the study is True", "Wanted: a value of type float"]),
        ("tol = 1e-06", "tol = nan", ["`tol` is nan", "Wanted: zero or more"]),
        ("features = []", 'features = "a"', ["`features` in the study is 'a'"]),
        ("connect = 60.0", "connect = 0", ["`timeouts.connect` is 0.0", "Wanted: a positive number of seconds"]),
        ("connect = 60.0", "connect = inf", ["`timeouts.connect` is inf", "Wanted: a positive number of seconds"]),
        ("[timeouts]", "[[timeouts]]", ["`timeouts` is not a table", "Wanted: a [timeouts] table"]),
        ('start = "secsum"', 'start = "seed"\nseed = -1', ["`seed` is -1", "Wanted: zero or a positive number"]),
        ('bound = "auto"', 'bound = "rows:1"', ["`bound` is 'rows:1'", "Wanted: a number"]),
        ('aggregator = "auto"', "aggregator = 2", ["`aggregator` is '2'", "Wanted: auto, none, or a party's number"]),
        ("rank = 2", "rank = = 2", ["is not valid TOML", "Do this: `pdml-spdz init` writes a commented one"]),
    ],
)
def test_study_that_is_wrong(tmp_path: Path, old: str, new: str, phrases: list[str]) -> None:
    good = study_file.render(
        Study(parties=(PartyEntry(port=1), PartyEntry(port=2)), rank=2, tol=1e-6, engine="plain", reveal="sum")
    )
    assert old in good
    (tmp_path / "study.toml").write_text(good.replace(old, new, 1))
    with pytest.raises(StudyError) as caught:
        study_file.load(tmp_path / "study.toml")
    for phrase in phrases:
        assert phrase in str(caught.value)


def test_study_that_is_wrong_at_one_party(parties: Callable[..., Parties]) -> None:
    site = parties(timeouts=HASTE)
    study = site.home(1) / "study.toml"
    study.write_text(study.read_text().replace('engine = "secsum"', 'engine = "spdz"'))
    waiting, ended = site.run()
    ended.failed(StudyError, "`engine` is 'spdz'", f"Wanted: one of {', '.join(ENGINES.names())}")
    waiting.failed(PeerError, "P1 did not connect within 2 s", "Do this: start P1")
