"""The command line as people and programs use it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.errors import InputError, PeerAborted, StorageError, exit_codes
from pdml_spdz.study import file as study_file
from pdml_spdz.transport import certs
from tests.parties.helpers import EMBEDDED, Ended, Parties, Process, free_ports, rows, run

# Section 10 of the design: the keys of report.json and of the tables in it.
KEYS = """algorithm engine protocol program reveal security insecure parties party_id d rank iterations converged
stop_reason seconds bytes_sent bytes_received rounds peak_memory precision bound stock start observables digests
rows_own versions warnings"""
TABLES = {
    "security": "model malicious corruptions",
    "seconds": "local online offline total",
    "digests": "study program result arrays",
}


def check_keys(report: dict[str, Any]) -> None:
    assert set(KEYS.split()) <= set(report)
    for name, keys in TABLES.items():
        assert set(keys.split()) <= set(report[name])
    assert set(report["seconds"]["online"]) == {"wait", "transport", "crypto"}


def command(*arguments: str | Path, cwd: Path) -> Ended:
    """A command to its end, where it need not be a fresh interpreter's."""
    process = Process(*arguments, cwd=cwd)
    try:
        return process.end()
    finally:
        process.clear_away()


def where(arguments: list[str], cwd: Path, *streams: Path) -> None:
    streams[0].write_text(f"{os.environ['TMPDIR']} {tempfile.gettempdir()}")


def test_processes_have_the_variables_of_the_test_that_starts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not those of an earlier one, with which the server that they are forked from was started."""
    for name in ("a", "b"):
        (directory := tmp_path / name).mkdir()
        monkeypatch.setenv("TMPDIR", str(directory))
        process = Process(cwd=tmp_path, target=where)
        try:
            assert process.end().out == f"{directory} {directory}"
        finally:
            process.clear_away()


def test_help_lists_exit_codes(tmp_path: Path) -> None:
    lines = [line.split() for line in run("--help", cwd=tmp_path).out.splitlines()]
    for code, name, _ in exit_codes():
        assert [str(code), name] in [words[:2] for words in lines]


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [(["svd"], "Missing argument"), (["svd", "x", "--rank", "0"], "--rank"), (["sdv"], "No such command")],
)
def test_usage_error_has_its_own_exit_code(tmp_path: Path, arguments: list[str], phrase: str) -> None:
    end = command(*arguments, cwd=tmp_path)
    assert end.code == 2
    assert phrase in end.err


def test_svd_json_is_one_document(tmp_path: Path) -> None:
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", rows(m))
    end = run("svd", "0.npy", "1.npy", "--rank", "2", "--engine", "secsum", "--json", "--out", "out", cwd=tmp_path)
    end.well()
    report = json.loads(end.out)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    check_keys(report)
    assert report["accuracy"]["largest_angle_sine"] < 1e-6
    assert report["rows_own"] is None
    for m in range(2):
        own = json.loads((tmp_path / "out" / f"party-{m}" / "report.json").read_text())
        check_keys(own)
        assert (own["party_id"], own["rows_own"]) == (m, 12)
        assert "accuracy" not in own


def test_party_json_is_one_document(parties: Callable[..., Parties]) -> None:
    site = parties()
    for m, end in enumerate(site.run("--json")):
        end.well()
        assert json.loads(end.out) == json.loads((site.results(m) / "report.json").read_text())


def test_party_says_which_vectors_it_does_not_tell_apart(parties: Callable[..., Parties]) -> None:
    """Rank d: the subspace is everything from the start. Two singular values are equal, the others are not."""
    site = parties(**EMBEDDED, normalise="per-column", rank=4)
    for m in range(2):
        site.give(m, np.diag([4.0, 2.0, 2.0, 1.0]))
    for m, end in enumerate(site.run()):
        end.well()
        said = re.search(
            r"note: columns 2, 3 of V are singular vectors up to a turn of (\S+) among", " ".join(end.out.split())
        )
        assert said
        assert float(said[1]) > 0.01  # of what noise made of them, whatever that is
        report = json.loads((site.results(m) / "report.json").read_text())
        assert report["converged"]
        assert [error < 1e-6 for error in report["column_errors"]] == [True, False, False, True]
        V = np.abs(np.load(site.results(m) / "V.npy"))
        assert np.abs(V[[0, 3]][:, [0, 3]] - np.eye(2)).max() < max(report["column_errors"][::3])


def test_svd_json_of_an_error_is_one_document(tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", rows(0))
    np.save(tmp_path / "1.npy", rows(1) * np.nan)
    end = command("svd", "0.npy", "1.npy", "--rank", "2", "--json", "--out", "out", cwd=tmp_path)
    end.failed(InputError, "missing values")
    error = json.loads(end.out)["error"]
    assert (error["class"], error["code"]) == ("InputError", InputError.code)
    assert "P1 (exit code 3): 1.npy has missing values" in error["message"]


def test_file_name_with_brackets_is_shown_as_it_is(parties: Callable[..., Parties]) -> None:
    """What the terminal's mark-up would take for a closing tag."""
    site = parties()
    (directory := site.home(1) / "rows[").mkdir()
    np.save(directory / "old].npy", rows(1) * np.nan)
    site.start(0)
    site.start(1, data="rows[/old].npy")
    told, ended = site.end()
    ended.failed(InputError, "rows[/old].npy has missing values")
    assert "rows[/old].npy has missing values" in site.processes[1].out
    told.failed(PeerAborted, "P1 ended the run")


def findings(end: Ended) -> dict[str, tuple[str, str]]:
    return {f["what"]: (f["level"], f["found"]) for f in json.loads(end.out)}


def test_doctor_without_study(tmp_path: Path) -> None:
    end = run("doctor", "--json", cwd=tmp_path, MP_SPDZ_HOME=str(tmp_path))
    end.well()
    found = findings(end)
    assert found["numpy"] == ("ok", np.__version__)
    assert found["loopback"][0] == "ok"
    assert {level for level, _ in found.values()} <= {"ok", "note"}


def test_state_that_cannot_be_kept_is_found_out_before_anything_is_opened(tmp_path: Path) -> None:
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", np.random.default_rng(m).normal(size=(20, 4)) * [4, 2, 1, 1])
    (tmp_path / "file").touch()
    nowhere = {"XDG_STATE_HOME": str(tmp_path / "file"), "XDG_DATA_HOME": str(tmp_path / "file")}
    words = ["0.npy", "1.npy", "-k", "1", "--out", "out", "--force"]
    for command_line, variable in (
        (["pca", *words], "XDG_STATE_HOME"),
        (["svd", *words, "--bound", "exponent"], "XDG_STATE_HOME"),
        (["svd", *words, "--reveal", "sealed"], "XDG_DATA_HOME"),
    ):
        ended = run(*command_line, cwd=tmp_path, **{variable: nowhere[variable]})
        ended.failed(StorageError, f"or set {variable} to a directory that is")
        assert "Every party has seen" not in ended.err
    run("svd", *words, "--engine", "secsum", cwd=tmp_path, **nowhere).well()
    found = findings(run("doctor", "--json", cwd=tmp_path, **nowhere))
    assert found["state directory"][0] == found["data directory"][0] == "problem"
    assert "XDG_STATE_HOME" in found["state directory"][1]


def test_doctor_with_study(parties: Callable[..., Parties]) -> None:
    site = parties()
    end = command("doctor", "study.toml", "--id", "1", "--json", cwd=site.home(1))
    end.well()
    found = findings(end)
    assert found["study"] == ("ok", f"2 parties, svd, rank 2, digest {site.study.digest[:16]}")
    assert found["port"] == ("ok", f"127.0.0.1:{site.study.parties[1].port} is free")
    assert found["P0.pem"][0] == found["P1.pem"][0] == "ok"


def without_key(site: Parties) -> None:
    (site.certs(1) / "P1.key").unlink()


def without_peer(site: Parties) -> None:
    (site.certs(1) / "P0.pem").unlink()


def broken_study(site: Parties) -> None:
    (site.home(1) / "study.toml").write_text("rank = 0")


@pytest.mark.parametrize(
    ("spoil", "what", "phrase"),
    [
        (without_key, "P1", "P1.key is missing"),
        (without_peer, "P1", "P0.pem cannot be read"),
        (broken_study, "study", "the study has 0 parties"),
    ],
)
def test_doctor_finds_a_problem(
    parties: Callable[..., Parties], spoil: Callable[[Parties], None], what: str, phrase: str
) -> None:
    site = parties()
    spoil(site)
    end = command("doctor", "study.toml", "--id", "1", "--json", cwd=site.home(1))
    assert end.code == 1
    level, found = findings(end)[what]
    assert level == "problem"
    assert phrase in found


def test_doctor_finds_a_port_in_use(parties: Callable[..., Parties]) -> None:
    site = parties()
    port = site.study.parties[0].port
    with socket.create_server(("127.0.0.1", port)):
        end = command("doctor", "study.toml", "--id", "0", cwd=site.home(0))
    assert end.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in " ".join(end.out.split())


def test_init_does_not_replace_a_study(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("mine")
    end = command("init", "--parties", "2", "--rank", "2", cwd=tmp_path)
    end.failed(StorageError, "study.toml is already there", "--force to replace it")
    assert (tmp_path / "study.toml").read_text() == "mine"


def test_certs_show_lists_what_is_pinned(parties: Callable[..., Parties]) -> None:
    site = parties(3)
    end = command("certs", "show", "--json", cwd=site.home(1))
    end.well()
    assert {c["party"]: c["fingerprint"] for c in json.loads(end.out)} == {
        m: party.fingerprint for m, party in enumerate(site.study.parties)
    }


def test_steps_that_init_prints_lead_to_a_run(tmp_path: Path) -> None:
    homes = [tmp_path / "P0", tmp_path / "P1"]
    for m, home in enumerate(homes):
        home.mkdir()
        np.save(home / "rows.npy", rows(m))
    first, second = free_ports(2)
    end = command("init", "--parties", "2", "--rank", "2", "--engine", "secsum", "--seed", "1", cwd=homes[0])
    end.well()
    for step in ("certs make --id I --name NAME", "study pack study.toml P*.pem", "join study.bundle"):
        assert f"pdml-spdz {step}" in end.out
    assert "4. every party I: pdml-spdz party study.toml --id I --data FILE" in end.out
    # The same without a bundle: each party pins certificates, and one writes fingerprints into the study.
    for m, home in enumerate(homes):
        command("certs", "make", "--id", str(m), cwd=home).well()
        shutil.copy(home / "certs" / f"P{m}.pem", homes[1 - m])
    for m, home in enumerate(homes):
        end = command("certs", "add", f"P{1 - m}.pem", cwd=home)
        end.well()
        assert certs.spoken(certs.read(homes[1 - m] / "certs" / f"P{1 - m}.pem").fingerprint) in end.out
    text = (homes[0] / "study.toml").read_text()
    for m, port in enumerate((first, second)):
        text = text.replace(f'"host-{m}.example"', '"127.0.0.1"').replace(f"port = {7000 + m}", f"port = {port}")
    (homes[0] / "study.toml").write_text(f"# mine\n{text}")
    shutil.copy(homes[0] / "study.toml", homes[1])
    doctor = findings(command("doctor", "study.toml", "--id", "1", "--json", cwd=homes[1]))
    assert doctor["P1"][0] == "problem"
    assert "no fingerprint of the certificate of P0, P1" in doctor["P1"][1]
    command("certs", "fingerprints", "study.toml", cwd=homes[0]).well()
    assert (homes[0] / "study.toml").read_text().startswith("# mine\n")
    shutil.copy(homes[0] / "study.toml", homes[1])
    assert study_file.load(homes[1] / "study.toml").seed == 1
    for m, home in enumerate(homes):
        command("doctor", "study.toml", "--id", str(m), cwd=home).well()
    running = [
        Process("party", "study.toml", "--id", str(m), "--data", "rows.npy", cwd=home) for m, home in enumerate(homes)
    ]
    try:
        for home, process in zip(homes, running, strict=True):
            (end := process.end()).well()
            named = " ".join(end.out.split()).rpartition("files: ")[2].split(", ")
            assert len(named) == 4
            assert all((home / name).is_file() for name in named)
    finally:
        for process in running:
            process.clear_away()
    V = [np.load(home / "runs" / "party" / f"party-{m}" / "V.npy") for m, home in enumerate(homes)]
    np.testing.assert_array_equal(*V)
