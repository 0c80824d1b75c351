"""Finding and describing MP-SPDZ, on directories that look like it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS, protocol
from pdml_spdz.errors import EngineError, StudyError
from pdml_spdz.local.joint import LocalRun, checked, local_study, run_local, study_of
from pdml_spdz.study.file import write
from pdml_spdz.study.model import PartyEntry, PrecisionSettings

COMMIT = "3a0a7b1d5e80e9f7e1b1ce76ae8b8a43931e80f4"
SECURE = home.REFUSES + b" for \0" + home.PURGES + b" because something is wrong\0"


def make_home(path: Path, *binaries: str, content: bytes = SECURE) -> Path:
    (path / "Compiler").mkdir(parents=True)
    (path / "compile.py").write_text("print('compile')\n")
    (path / "Compiler" / "types.py").write_text("sint = None\n")
    for name in binaries:
        make_binary(path / name, content)
    return path


def make_binary(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF\0" + content)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data directory is an empty one of the test's."""
    data = tmp_path / "data"
    monkeypatch.delenv(home.VARIABLE, raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(home.platformdirs, "user_data_dir", lambda name: str(data / name))
    return data / "pdml-spdz" / "mp-spdz"


# Where it is


def test_order_is_option_then_variable_then_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_installed: Path
) -> None:
    assert home.find() is None
    make_home(nothing_installed)
    assert home.require().path == nothing_installed
    monkeypatch.setenv(home.VARIABLE, str(make_home(tmp_path / "variable")))
    assert home.require().path == tmp_path / "variable"
    assert home.require(make_home(tmp_path / "option")).path == tmp_path / "option"


def test_wrong_path_does_not_lead_to_another_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_installed: Path
) -> None:
    make_home(nothing_installed)
    assert home.find(tmp_path / "wrong") is None
    monkeypatch.setenv(home.VARIABLE, str(tmp_path))
    assert home.find() is None


def test_missing_says_where_it_was_looked_for(tmp_path: Path, nothing_installed: Path) -> None:
    with pytest.raises(EngineError) as caught:
        home.require()
    text = str(caught.value)
    for part in ("--mp-spdz", home.VARIABLE, str(nothing_installed), "docs/mp-spdz.md"):
        assert part in text
    with pytest.raises(EngineError, match="which has no compile"):
        home.require(tmp_path)
    assert str(nothing_installed) in home.missing_text()


# What is there


@pytest.mark.parametrize(
    ("flags", "folder"),
    [
        ({"avx2", "bmi2", "adx"}, "Linux-adx"),
        ({"avx2"}, "Linux-amd64"),
        (set(), "Linux-amd64"),
    ],
)
def test_release_folder_fits_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: set[str], folder: str
) -> None:
    monkeypatch.setattr(home.platform, "system", lambda: "Linux")
    monkeypatch.setattr(home.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(home, "_cpu_flags", lambda: flags)
    names = ("bin/Linux-adx/semi-party.x", "bin/Linux-amd64/semi-party.x")
    found = Installation(make_home(tmp_path / "mp-spdz-0.4.2", *names))
    assert found.binary("semi-party.x") == found.path / "bin" / folder / "semi-party.x"
    assert found.binary("semi-offline.x") is None


def test_older_releases_have_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home.platform, "system", lambda: "Linux")
    monkeypatch.setattr(home.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(home, "_cpu_flags", lambda: {"avx2", "bmi2", "adx"})
    found = Installation(make_home(tmp_path / "h", "bin/Linux-avx2/semi-party.x", "bin/Linux-amd64/semi-party.x"))
    assert found.binary("semi-party.x") == found.path / "bin" / "Linux-avx2" / "semi-party.x"


def test_other_processors_get_no_program_of_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home.platform, "machine", lambda: "aarch64")
    assert Installation(make_home(tmp_path / "h", "bin/Linux-amd64/semi-party.x")).binary("semi-party.x") is None


def test_protocols_lists_what_is_there_and_executable(tmp_path: Path) -> None:
    found = Installation(make_home(tmp_path / "h", "semi-party.x", "semi-offline.x", "temi-party.x", "hemi-party.x"))
    (found.path / "hemi-party.x").chmod(0o644)
    rows = {row.protocol.name: row for row in found.protocols()}
    assert set(rows) == set(PROTOCOLS)
    assert rows["semi"].party == found.path / "semi-party.x"
    assert rows["semi"].offline == found.path / "semi-offline.x"
    assert rows["temi"].offline is None
    assert rows["hemi"].party is None


def test_version_of_a_checkout_is_its_commit(tmp_path: Path) -> None:
    path = make_home(tmp_path / "h")
    git = path / ".git"
    git.mkdir()
    (git / "HEAD").write_text(f"{COMMIT}\n")
    assert Installation(path).version().startswith(f"commit {COMMIT[:12]} (compiler ")
    (git / "HEAD").write_text("ref: refs/heads/master\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{COMMIT} refs/heads/master\n")
    assert Installation(path).version().startswith(f"commit {COMMIT[:12]} (compiler ")
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "master").write_text(f"{COMMIT[::-1]}\n")
    assert Installation(path).version().startswith(f"commit {COMMIT[::-1][:12]} (")


def test_version_of_a_work_tree(tmp_path: Path) -> None:
    path, main = make_home(tmp_path / "h"), tmp_path / "main" / ".git"
    (main / "worktrees" / "h").mkdir(parents=True)
    (path / ".git").write_text(f"gitdir: {main}/worktrees/h\n")
    (main / "worktrees" / "h" / "HEAD").write_text("ref: refs/heads/x\n")
    (main / "worktrees" / "h" / "commondir").write_text("../..\n")
    (main / "packed-refs").write_text(f"{COMMIT} refs/heads/x\n")
    assert Installation(path).version().startswith(f"commit {COMMIT[:12]} (compiler ")


def test_version_without_git_is_the_release_and_the_compiler(tmp_path: Path) -> None:
    named = Installation(make_home(tmp_path / "mp-spdz-0.3.9"))
    assert named.version() == f"0.3.9 (compiler {named.digest()})"
    (named.path / "CHANGELOG.md").write_text("Words.\n\n## 0.4.2 (Dec 24, 2025)\n\n## 0.4.1\n")
    assert named.version().startswith("0.4.2 (")
    before = named.digest()
    (named.path / "Compiler" / "types.py").write_text("sint = 1\n")
    assert named.digest() != before
    assert Installation(make_home(tmp_path / "other")).version().startswith("unknown release")


# Whether it may be used


@pytest.mark.parametrize(
    ("content", "insecure"),
    [
        (SECURE, False),
        (home.WARNS + b"\0" + home.REUSES, True),
        (SECURE + home.REUSES, True),
        (SECURE + home.WARNS + b"preprocessing", True),  # -DINSECURE_FAKE
        (home.REFUSES, True),  # a party's program that never purges
        (home.PURGES, True),
        (b"nothing that tells", True),
    ],
)
def test_insecure_build_of_a_release(tmp_path: Path, content: bytes, insecure: bool) -> None:
    found = Installation(make_home(tmp_path / "h", "semi-party.x", content=content))
    assert found.is_insecure(found.path / "semi-party.x") is insecure


def test_offline_programs_have_nothing_to_purge(tmp_path: Path) -> None:
    found = Installation(make_home(tmp_path / "h", "semi-offline.x", content=home.REFUSES))
    assert not found.is_insecure(found.path / "semi-offline.x")


def test_library_of_a_source_build_is_judged(tmp_path: Path) -> None:
    linked = b"libSPDZ.so\0" + home.PURGES + b"\0"
    found = Installation(make_home(tmp_path / "h", "semi-party.x", content=linked))
    party = found.path / "semi-party.x"
    assert found.is_insecure(party)  # the library is not there
    (found.path / "libSPDZ.so").write_bytes(home.REFUSES)
    assert not found.is_insecure(party)
    (found.path / "libSPDZ.so").write_bytes(home.WARNS + home.REUSES)
    assert found.is_insecure(party)


@pytest.mark.parametrize("by_variable", [True, False])
def test_every_library_that_may_be_loaded_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run_path = b"" if by_variable else f"\0/nowhere:{elsewhere}".encode()
    found = Installation(
        make_home(tmp_path / "h", "semi-party.x", content=b"libSPDZ.so" + run_path + b"\0" + home.PURGES + b"\0")
    )
    if by_variable:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(elsewhere))
    (found.path / "libSPDZ.so").write_bytes(home.REFUSES)
    (elsewhere / "libSPDZ.so").write_bytes(home.REFUSES)
    assert not found.is_insecure(found.path / "semi-party.x")
    (elsewhere / "libSPDZ.so").write_bytes(home.WARNS)
    assert found.is_insecure(found.path / "semi-party.x")


CHANGES = "Words.\n\n## {} (Dec 24, 2025)\n\n## 0.4.1\n"


@pytest.mark.parametrize(
    ("file", "text", "fixed"),
    [
        ("CHANGELOG.md", CHANGES.format("0.4.2"), False),
        ("CHANGELOG.md", CHANGES.format("0.4.10"), True),
        ("CHANGELOG.md", "Words.\n", None),
        (home.MAC_SOURCE, "  vals.erase();\n", False),
        (home.MAC_SOURCE, "  this->coordinator->finished();\n", True),  # of whatever release its list of changes is
    ],
)
def test_malicious_protocols_need_the_fix_of_the_mac_check(
    tmp_path: Path, file: str, text: str, fixed: bool | None
) -> None:
    path = make_home(tmp_path / "h", "mascot-party.x", "semi-party.x")
    (path / "CHANGELOG.md").write_text(CHANGES.format("0.4.2"))
    (path / file).parent.mkdir(exist_ok=True)
    (path / file).write_text(text)
    os.utime(path / file, (1, 1))
    found = Installation(path)
    assert found.has_mac_fix() is fixed
    assert home.find_program(found, protocol("semi")).name == "semi-party.x"  # it has no MACs
    assert home.find_program(found, protocol("mascot"), insecure=True).name == "mascot-party.x"
    if fixed is False:
        with pytest.raises(EngineError, match=r"lacks the fix of a race in its MAC check(.|\n)*after release 0\.4\.2"):
            home.find_program(found, protocol("mascot"))
    else:
        assert home.find_program(found, protocol("mascot")).name == "mascot-party.x"
    said = CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(path)]).output
    assert ("lacks MAC fix" in said, "nothing says whether it has the fix" in said) == (fixed is False, fixed is None)
    rows = json.loads(CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(path), "--json"]).output)
    assert {r["name"] for r in rows["protocols"] if r["lacks_mac_fix"]} == ({"mascot"} if fixed is False else set())
    done = CliRunner().invoke(cli, ["doctor", "--mp-spdz", str(path), "--json"])
    findings = {f["what"]: f for f in json.loads(done.output)}
    assert (findings["MP-SPDZ mascot"]["level"] == "ok") == (fixed is True)
    assert findings["MP-SPDZ semi"]["level"] == "ok"


def test_programs_that_are_older_than_their_sources_are_noticed(tmp_path: Path) -> None:
    path = make_home(tmp_path / "h", "semi-party.x")
    found, program = Installation(path), path / "semi-party.x"
    (path / "Math").mkdir()
    (path / "Math" / "gfp.hpp").write_text("// as it was built\n")
    os.utime(program, (2_000_000_000, 2_000_000_000))
    assert found.doubts(protocol("semi"), program) == []
    os.utime(path / "Math" / "gfp.hpp", (2_000_000_001, 2_000_000_001))
    (doubt,) = found.doubts(protocol("semi"), program)
    assert "semi-party.x is older than a source beside it" in doubt
    assert doubt in " ".join(CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(path)]).output.split())


# Protocols


def test_protocols_are_consistent() -> None:
    for name, p in PROTOCOLS.items():
        assert name == p.name
        assert p.party == f"{name}-party.x"
        assert p.offline in (None, f"{name}-offline.x")
        assert p.domain in ("prime", "ring")


def test_unknown_protocol_gets_near_matches() -> None:
    assert protocol("mascot").malicious
    with pytest.raises(StudyError, match="did you mean `semi`"):
        protocol("smei")
    with pytest.raises(StudyError, match="one of mascot"):
        protocol("shamir")
    with pytest.raises(StudyError, match="lowgear is not offered: it makes keys anew in every run") as caught:
        protocol("lowgear")
    assert "--protocol mascot" in str(caught.value)


def test_protocols_of_the_guide() -> None:
    text = (Path(__file__).parents[2] / "docs" / "mp-spdz.md").read_text()
    for p in PROTOCOLS.values():
        offline = f"`{p.offline}`" if p.offline else "none"
        start = f"| `{p.name}` | {p.parties} | {p.corruptions} | {'yes' if p.malicious else 'no'} | {p.domain} | "
        row = next(line for line in text.splitlines() if line.startswith(start))
        assert f"| {offline} |" in row
        assert p.security in row


# Whether it is enough for a study: a hidden mean takes longer numbers.
HIDDEN = {"algorithm": "pca", "centre": "hidden", "bound": "1000"}
SEALED = {"reveal": "sealed", "d": 2}
SHORT: dict[str, Any] = {"precision": PrecisionSettings(20, 20), "bound": "1000"}


@pytest.mark.parametrize(
    ("there", "protocol", "settings", "phrases"),
    [
        (None, "semi", {}, ["MP-SPDZ was not found", "get it as docs/mp-spdz.md says"]),
        (("semi-party.x",), "mascot", {}, ["mascot-party.x of the protocol mascot is not in", "`make mascot-party.x`"]),
        (("semi-party.x",), "semi", {}, []),
        (("semi-party.x",), "semi", SHORT, ["not built for primes of 192 bits", "without -DFEWER_PRIMES"]),
        (("mascot-party.x",), "mascot", {}, ["not built for primes of 256 bits", "`make clean; make mascot-party.x`"]),
        (("mascot-party.x",), "mascot", SHORT, []),
        (("mascot-party.x",), "mascot", SEALED, ["not built for primes of 256 bits", "without -DFEWER_PRIMES"]),
        (("semi-party.x",), "semi", SEALED, []),
        (("hemi-party.x",), "hemi", {}, []),  # of no names of hemi's
        (("semi2k-party.x",), "semi2k", {}, []),
        (("semi2k-party.x",), "semi2k", HIDDEN, ["not built for numbers of 256 bits", "-DRING_SIZE=256", "semi, hemi"]),
        (("semi2k-party.x",), "semi2k", SHORT, []),
        (("spdz2k-party.x",), "spdz2k", {}, ["not built for numbers of 192 bits"]),
        (("spdz2k-party.x",), "spdz2k", HIDDEN, []),
        (
            ("spdz2k-party.x",),
            "spdz2k",
            {"precision": PrecisionSettings(10, 10), "bound": "1"},
            ["numbers of 128 bits"],
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(
    tmp_path: Path, there: tuple[str, ...] | None, protocol: str, settings: dict[str, Any], phrases: list[str]
) -> None:
    """By the command that would start the parties: no directory of results is made."""
    path = tmp_path / "h"
    if there is not None:
        make_home(path, *there, content=SECURE + RINGS + PRIMES)
    study = local_study(2, rank=1, engine="mp-spdz", protocol=protocol, **settings)
    run = LocalRun([np.eye(2)] * 2, study, tmp_path / "out", mp_spdz=path if there else None)
    if not phrases:
        checked(run)
        return
    with pytest.raises(EngineError) as caught:
        run_local(run)
    for phrase in phrases:
        assert phrase in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_release_has_no_offline_program_and_it_is_said_before_anything_is_compiled(tmp_path: Path) -> None:
    path = make_home(tmp_path / "h", "semi-party.x", "temi-party.x")
    for name, phrases in (("semi", ("semi-offline.x", "`make semi-offline.x`")), ("temi", ("no offline program",))):
        command = ["offline", "make", "--engine", "mp-spdz", "--protocol", name, "--dim", "2"]
        failed = CliRunner().invoke(cli, [*command, "--mp-spdz", str(path)]).exception
        assert isinstance(failed, EngineError)
        for phrase in (*phrases, "--offline on-demand"):
            assert phrase in str(failed)


# Of semi2k machines for 64 and 192 bits; of spdz2k for 64 and 256, and a type of shares with 128 that is no ring.
MACHINES = (b"Semi2kShareILi64EE", b"Semi2kShareILi192EE", b"Spdz2kShareILi64ELi64EE", b"Spdz2kShareILi256ELi64EE")
RINGS = b"".join(b"7MachineI11" + name for name in MACHINES) + b"11Spdz2kShareILi128ELi64EE"
# Of semi machines for primes of one, two and four words, of mascot (whose shares are called Share) for three.
PRIMES = b"".join(b"7MachineI9SemiShareI4gfp_ILi0ELi%dEEE" % words for words in (1, 2, 4)) + b"I5ShareI4gfp_ILi0ELi3EEE"


def test_stock_of_a_protocol_that_has_none_is_refused_before_the_run(tmp_path: Path) -> None:
    path = make_home(tmp_path / "h", "temi-party.x")
    study = local_study(2, rank=1, engine="mp-spdz", protocol="temi", offline="stock")
    with pytest.raises(EngineError, match=r"no offline program for temi(.|\n)*--offline on-demand"):
        checked(LocalRun([np.eye(2)] * 2, study, tmp_path / "out", mp_spdz=path))


def test_stock_that_nothing_here_could_have_made_is_refused_before_the_run(tmp_path: Path) -> None:
    """A release has no offline programs."""
    path = make_home(tmp_path / "h", "hemi-party.x")
    study = local_study(2, rank=1, engine="mp-spdz", protocol="hemi", offline="stock")
    run = LocalRun([np.eye(2)] * 2, study, tmp_path / "out", stock=tmp_path / "stocks", mp_spdz=path)
    with pytest.raises(EngineError, match=r"hemi-offline\.x(.|\n)*`make hemi-offline\.x`(.|\n)*--offline on-demand"):
        checked(run)
    make_binary(path / "hemi-offline.x", SECURE)
    checked(run)  # that there is none is known when the program is


@pytest.mark.parametrize("offline", ["auto", "stock"])
def test_doctor_checks_what_the_study_needs(tmp_path: Path, offline: str) -> None:
    parties = [PartyEntry(), PartyEntry()]
    settings = {"rank": 1, "engine": "mp-spdz", "protocol": "hemi", "offline": offline}
    write(study := tmp_path / "study.toml", study_of(parties, settings))

    def findings(*there: str) -> tuple[int, dict[str, dict[str, str]]]:
        path = make_home(tmp_path / f"h-{len(there)}", *there)
        done = CliRunner().invoke(cli, ["doctor", str(study), "--mp-spdz", str(path), "--json"])
        return done.exit_code, {f["what"]: f for f in json.loads(done.output)}

    code, found = findings("semi-party.x")
    assert (code, found["engine mp-spdz"]["level"]) == (1, "problem")
    assert "`make hemi-party.x`" in found["engine mp-spdz"]["found"]
    code, found = findings("semi-party.x", "hemi-party.x")
    what, level = ("engine mp-spdz", "problem") if offline == "stock" else ("offline phase", "note")
    assert (code, found[what]["level"]) == (offline == "stock", level)
    assert "`make hemi-offline.x`" in found[what]["found"]
    code, found = findings("semi-party.x", "hemi-party.x", "hemi-offline.x")
    assert (code, found["engine mp-spdz"]["level"]) == (0, "ok")
    assert "offline phase" not in found


# Commands


def test_list_without_an_installation_says_how_to_get_it() -> None:
    done = CliRunner().invoke(cli, ["mp-spdz", "list"])
    assert done.exit_code == 0
    assert "mascot" in done.output
    assert "docs/mp-spdz.md says how to get it" in done.output
    assert json.loads(CliRunner().invoke(cli, ["mp-spdz", "list", "--json"]).output)["installation"] is None


def test_list_of_a_wrong_directory_fails(tmp_path: Path) -> None:
    assert isinstance(CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(tmp_path)]).exception, EngineError)


def test_list_and_doctor_show_programs_and_insecure_ones(tmp_path: Path) -> None:
    path = make_home(tmp_path / "h", "semi-party.x", "semi-offline.x", "hemi-party.x")
    make_binary(path / "mascot-party.x", home.WARNS)
    done = CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(path), "--json"])
    rows = {row["name"]: row for row in json.loads(done.output)["protocols"]}
    assert rows["semi"]["offline_found"] == str(path / "semi-offline.x")
    assert rows["semi"]["insecure"] == []
    assert rows["mascot"]["insecure"] == ["mascot-party.x"]
    assert "INSECURE" in CliRunner().invoke(cli, ["mp-spdz", "list", "--mp-spdz", str(path)]).output

    done = CliRunner().invoke(cli, ["doctor", "--mp-spdz", str(path), "--json"])
    findings = {f["what"]: f for f in json.loads(done.output)}
    assert findings["MP-SPDZ"]["found"] == str(path)
    assert findings["MP-SPDZ compiler"]["found"] == str(path / "compile.py")
    assert findings["MP-SPDZ semi"] == {"level": "ok", "what": "MP-SPDZ semi", "found": "semi-party.x, semi-offline.x"}
    assert "on demand" in findings["MP-SPDZ hemi"]["found"]
    assert findings["MP-SPDZ mascot"]["level"] == "note"
    assert "INSECURE" in findings["MP-SPDZ mascot"]["found"]
    assert "--insecure-benchmark" in findings["MP-SPDZ mascot"]["found"]


def test_doctor_without_mp_spdz_is_content(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    findings = {f["what"]: f for f in json.loads(done.output)}
    assert findings["MP-SPDZ"]["level"] == "note"
    assert home.missing_text() in findings["MP-SPDZ"]["found"]
    done = CliRunner().invoke(cli, ["doctor", "--mp-spdz", str(make_home(tmp_path / "h")), "--json"])
    assert "only the compiler" in done.output
