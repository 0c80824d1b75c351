"""The real MP-SPDZ is found, described, and known for a build that may be used."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import compile_program
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import render

FOUND = home.find()
pytestmark = [pytest.mark.spdz, pytest.mark.skipif(FOUND is None, reason=home.missing_text())]
PROGRAMS = [path for row in (FOUND.protocols() if FOUND else []) for path in (row.party, row.offline) if path]


def test_there_is_a_program_and_a_version() -> None:
    assert FOUND is not None
    assert any(row.party for row in FOUND.protocols())
    assert FOUND.compiler.is_file()
    assert not FOUND.version().startswith("unknown")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_programs_start_and_are_not_insecure(program: Path) -> None:
    assert FOUND is not None
    said = subprocess.run([program], cwd=program.parent, capture_output=True, text=True, timeout=20)
    assert re.search("USAGE:.*<progname>", said.stdout + said.stderr)
    assert not FOUND.is_insecure(program), "tests of security need a build without -DINSECURE"
    assert FOUND.has_mac_fix(), "and one later than release 0.4.2"


@pytest.mark.parametrize("mark", [home.WARNS, home.REUSES])
def test_an_insecure_library_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: bytes) -> None:
    """The loader takes LD_LIBRARY_PATH's library before the one that belongs to the program."""
    assert FOUND is not None
    linked = [path for path in PROGRAMS if home.LIBRARY.encode() in path.read_bytes()]
    if not linked:
        pytest.skip("statically linked programs load no library")
    (tmp_path / home.LIBRARY).write_bytes(mark)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert FOUND.is_insecure(linked[0])


def test_program_of_the_same_name_in_its_own_sources_does_not_matter(tmp_path: Path) -> None:
    assert FOUND is not None
    (own := tmp_path / "home").mkdir()
    for path in FOUND.path.iterdir():
        if path.name != "Programs":
            (own / path.name).symlink_to(path)
    (own / "compile.py").unlink()
    (own / "compile.py").write_bytes(FOUND.compiler.read_bytes())  # it looks for sources beside itself
    (own / "Programs" / "Source").mkdir(parents=True)
    program = render("normed_sum", p := Precision(2, 10, 20), 3, 1)
    (own / "Programs" / "Source" / f"{program.name}.mpc").write_text("not_a_program\n")
    compiled = compile_program(program, p, protocol("semi"), home.Installation(own), cache=tmp_path / "cache")
    assert compiled.name.startswith("normed_sum-")
    assert (compiled.path / "Programs" / "Schedules" / f"{compiled.name}.sch").is_file()
