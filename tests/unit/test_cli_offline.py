"""`pdml-spdz offline` without processes."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from pdml_spdz.cli import offline
from pdml_spdz.cli.app import cli
from pdml_spdz.cli.show import Watcher
from pdml_spdz.engines.mp_spdz.engine import layout_of
from pdml_spdz.engines.mp_spdz.place import MATERIAL
from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.mp_spdz.setup import remedy
from pdml_spdz.engines.spec import precision_of, sealed_precision_of
from pdml_spdz.errors import StorageError, StudyError
from pdml_spdz.offline.stock import MANIFEST
from pdml_spdz.programs.render import render_sealed
from pdml_spdz.run.repeats import count
from pdml_spdz.study.file import load
from pdml_spdz.study.model import PartyEntry, PrecisionSettings, Study
from tests.mp_spdz_stocks import PARTS, material
from tests.properties.contents import OfPreprocessing
from tests.stocks import fake
from tests.threads import run_threads


@pytest.mark.parametrize(("bound", "triples", "bits"), [("auto", 109, (224, 320)), ("1e6", 55, (160, 320))])
def test_plan_says_what_a_run_takes(bound: str, triples: int, bits: tuple[int, int]) -> None:
    problem = ["-M", "3", "-d", "64", "-k", "7", "--solver", "power", "--bound", bound]
    done = CliRunner().invoke(cli, ["offline", "plan", *problem, "--json"])
    assert done.exit_code == 0, done.output
    plan = json.loads(done.output)
    assert plan["plan"] == {"triples": triples, "vectors": [64 * 7 * 300]}
    assert plan["kind"] == {"M": 3, "vector_bits": bits[0], "scalar_bits": bits[1], "vole": "lpn"}


def test_plan_of_very_many_iterations_takes_no_time() -> None:
    arguments = ["offline", "plan", "-d", "64", "-k", "7", "--solver", "power", "--iterations", "1000000", "--json"]
    assert json.loads(CliRunner().invoke(cli, arguments).output)["plan"]["vectors"] == [64 * 7 * 10**6]


@pytest.mark.parametrize(
    ("dim", "iterations", "lots"),
    [(64, 60, [64 * 9 * 4] * 4), (8, 60, [8 * 8 * 4] * 4), (64, 3, [64 * 9 * 3]), (5000, 60, [5000 * 9 * 16])],
    ids=["by lots", "of d columns", "of few iterations", "by LPN, whose start is dear"],
)
def test_plan_of_krylov_is_for_expected_iterations_by_lots(dim: int, iterations: int, lots: list[int]) -> None:
    arguments = ["offline", "plan", "-d", str(dim), "-k", "7", "--iterations", str(iterations)]
    plan = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).output)
    assert plan["plan"]["vectors"] == lots
    assert [lot["vectors"] for lot in plan["lots"]] == [[n] for n in lots]
    assert [lot["triples"] for lot in plan["lots"]] == [plan["plan"]["triples"]] + [0] * (len(lots) - 1)
    assert f"in {len(lots)} lot(s)" in CliRunner().invoke(cli, arguments).output


def test_a_call_for_each_column_is_a_scale_for_each(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    command = ["init", "--parties", "3", "--rank", "2", "--engine", "mp-spdz", "--online", "per-column"]
    done = CliRunner().invoke(cli, [*command, "--out", str(study)])
    assert done.exit_code == 0, done.output
    assert (load(study).online, load(study).normalise) == ("per-column", "per-column")
    refused = CliRunner().invoke(cli, [*command, "--normalise", "fit", "--out", str(study), "--force"]).exception
    assert isinstance(refused, StudyError)  # whoever says both is told


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


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in root.rglob("*")}


def test_status_changes_nothing(tmp_path: Path) -> None:
    """No directory is made, no lock or ledger left, nothing of an interrupted run cleared away."""
    fake(tmp_path / "stock", 2)
    killed = tmp_path / "stock" / "mp-spdz" / "pdml-spdz-vm-1"
    (killed / "Programs").mkdir(parents=True)
    (killed / "lock").touch()
    before = tree(tmp_path)
    for root in ("stock", "nowhere"):
        done = CliRunner().invoke(cli, ["offline", "status", "--stock", str(tmp_path / root), "--json"])
        assert done.exit_code == 0, done.output
    assert tree(tmp_path) == before


def status(root: Path, *options: str) -> str:
    done = CliRunner(env={"COLUMNS": "250"}).invoke(cli, ["offline", "status", "--stock", str(root), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_status_of_stocks_for_mp_spdz(tmp_path: Path) -> None:
    """One is unused, one was claimed, one is damaged."""
    content = OfPreprocessing()
    content.fill(tmp_path, 2, 3)
    run_threads(2, lambda link: content.claim(link, tmp_path))
    (tmp_path / "P0" / "stock-0000000000000002" / "party-0" / MANIFEST).unlink()
    (tmp_path / "P0").rename(tmp_path / MATERIAL)
    used, unused, damaged = sorted(json.loads(status(tmp_path, "--json")), key=lambda stock: stock["id"])
    about = {"parties": 2, "protocol": "semi", "program": "normed_sum", "bytecode": "digest", "domain": "a field"}
    size = sum(len(material(unused["id"], part)) for part in PARTS)
    counts = {"triples": 1, "bits": 2, "inputs": [3, 3], "rounds": 4}
    assert unused == about | {
        "id": "0000000000000001",
        "party": 0,
        "counts": counts,
        "created": "2026-01-01",
        "bytes": size,
        "problem": "",
        "claims": [],
    }
    (claim,) = used["claims"]
    assert claim["run"] == b"run".hex()
    assert damaged.keys() == unused.keys()
    assert "manifest.json cannot be used" in damaged["problem"]
    shown = status(tmp_path)
    for word in ("claimed by", "nobody", f"{b'run'.hex()} ({claim['time']})", "cannot be used"):
        assert word in " ".join(shown.split())


def test_count_of_repeats_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "repeats.json"
    before = os.umask(0)
    try:
        (tmp_path / ".repeats.json.new").write_text("left by a crash, readable by all")
        assert count(b"x", path) == 1
        path.chmod(0o644)  # as older versions left it
        assert count(b"x", path) == 2
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", "[]", '{"salt": 3, "uses": {}}', '{"salt": "00", "uses": 7}'])
def test_damaged_count_of_repeats_is_not_taken_for_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "repeats.json"
    path.write_text(content)
    with pytest.raises(StorageError, match="cannot be read"):
        count(b"x", path)
    assert path.read_text() == content


@pytest.mark.parametrize("option", ["--stock", "--mp-spdz"])
def test_nmf_takes_no_material_and_so_no_place_of_it(option: str) -> None:
    done = CliRunner().invoke(cli, ["nmf", "a.npy", "b.npy", "--rank", "2", option, "somewhere"])
    assert done.exit_code == 2
    assert f"No such option '{option}'" in done.output


SMALL = PrecisionSettings(bits=10, range=20)  # too small a range for a bound that is found


def program_of(study: Study, d: int) -> str:
    """What a stock for the study is bound to, but for the compiler."""
    if study.level.sealed:
        return render_sealed(sealed_precision_of(study, d)).digest
    shape, own_masks = study.spec.shape(study, d), protocol_of(study).own_masks
    return layout_of(
        study.opening, precision_of(study), shape, study.online, shape.tau, own_masks=own_masks
    ).program.digest


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 1, "solver": "power", "iterations": 6, "precision": SMALL, "bound": "1000"},
        {"rank": 2, "algorithm": "pca", "centre": "hidden", "protocol": "mascot", "bound": "rows:1.5,20"},
        {"rank": 2, "normalise": "per-column", "online": "per-column", "iterations": 3, "insecure_benchmark": True},
        {"rank": 1, "algorithm": "normed-sum", "program": "paper", "protocol": "semi"},
        {"rank": 2, "reveal": "sealed", "accuracy_goal": 1e-3, "decay": 0.5, "block": 3, "algorithm": "pca"},
        {"rank": 1, "precision": SMALL, "parties": (PartyEntry(quota=2.0), PartyEntry(quota=3.0))},
    ],
    ids=["agreed bound", "hidden mean", "per-column", "the paper's program", "sealed", "quotas"],
)
@pytest.mark.parametrize("given", [Path("/opt/MP-SPDZ"), None], ids=["--mp-spdz", "as usual"])
def test_command_that_a_missing_stock_names_makes_a_fitting_one(
    settings: dict[str, Any], given: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed: where the run looks for it, and of the same program."""
    made: list[tuple[Study, Path, Path | None]] = []

    def make_here(agreed: Study, root: Path, home: Path | None, watcher: Watcher) -> list[dict[str, Any]]:
        made.append((agreed, root, home))
        return [{"stock": "1", "seconds": 1.0, "bytes_sent": None}]

    monkeypatch.setattr(offline, "_make_here", make_here)
    monkeypatch.setattr(offline, "offline_phase", lambda agreed: SimpleNamespace(ready=lambda agreed, home: None))
    monkeypatch.setattr(offline, "offline_plan", lambda agreed, home: SimpleNamespace(text="a plan"))
    d, study = 8, Study(**({"parties": (PartyEntry(),) * 2, "engine": "mp-spdz"} | settings))
    stocks = Path("/somewhere/my stocks")
    said = re.search(r"`pdml-spdz (offline make --algorithm[^`]*)`", remedy(study, d, stocks, given))
    assert said is not None
    done = CliRunner().invoke(cli, shlex.split(said[1]))
    assert done.exit_code == 0, done.output
    ((agreed, root, home),) = made
    assert (agreed.M, agreed.d, root, home) == (study.M, d, stocks, given)
    assert (agreed.bound_kind, agreed.insecure_benchmark) == (study.bound_kind, study.insecure_benchmark)
    assert (protocol_of(agreed), program_of(agreed, d)) == (protocol_of(study), program_of(study, d))
