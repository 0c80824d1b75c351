"""Different versions of MP-SPDZ, an edited compiler, a damaged cache: noticed, and called by their names."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import compile_program
from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.errors import EngineError, MismatchError, PdmlError
from pdml_spdz.programs.precision import Precision
from tests.parties.helpers import Parties, Process
from tests.spdz.helpers import MARKS, Site, machines
from tests.spdz.loop import FIT, SMALL, Problem, Recorder, loop, program_of

pytestmark = MARKS
D, K, TAU = 3, 1, 2
P, PROBLEM = Precision(2, *SMALL), Problem.random(2, D, K)
PROGRAM = program_of(FIT, P, D, K, TAU)


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[str, str, str], Installation]:
    """MP-SPDZ with one file of its compiler edited: the same programs, and the same commit."""

    def make(name: str, old: str, new: str) -> Installation:
        found = home.require()
        (own := tmp_path / "edited").mkdir()
        for path in found.path.iterdir():
            if path.name not in ("Compiler", "compile.py", "Programs"):
                (own / path.name).symlink_to(path)
        shutil.copy(found.compiler, own)  # it looks for Compiler/ beside itself
        shutil.copytree(found.path / "Compiler", own / "Compiler", ignore=shutil.ignore_patterns("__pycache__"))
        text = (path := own / "Compiler" / name).read_text()
        assert len(re.findall(old, text)) == 1
        path.write_text(re.sub(old, new, text))
        return Installation(own)

    return make


def errors(site: Site, homes: list[Installation]) -> list[PdmlError]:
    def party(place: Place) -> PdmlError:
        with pytest.raises(PdmlError) as caught:
            loop(Recorder(replace(place, home=homes[place.link.me]), P, PROBLEM.bound), PROBLEM, FIT, TAU)
        return caught.value

    found = site.run(party)
    assert machines(site.path) == []
    return found


def test_parties_with_different_compilers(tmp_path: Path, edited: Callable[..., Installation]) -> None:
    other = edited("program.py", r"\Z", "# edited\n")
    for m, error in enumerate(errors(Site(tmp_path, 2), [home.require(), other])):
        assert type(error) is MismatchError
        assert f"P{1 - m} has another MP-SPDZ than this party" in str(error)
        for version in (home.require().version(), other.version()):
            assert version in str(error)


@pytest.mark.parametrize("command", ["party", "offline make"])
def test_versions_are_compared_before_anything_is_compiled_or_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: Callable[..., Installation], command: str
) -> None:
    homes = [home.require().path, edited("program.py", r"\Z", "# edited\n").path]
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache := tmp_path / "cache"))
    settings = {"engine": "mp-spdz", "reveal": "normed", "protocol": "semi", "rank": 1, "d": 6}
    site = Parties(tmp_path / "site", 2, **settings)
    arguments = {"party": ["--data", "rows.npy", "--out", "out"], "offline make": ["--stock", "stocks"]}[command]
    words = [*command.split(), "study.toml", *arguments]
    parties = [
        Process(*words, "--id", str(m), "--mp-spdz", path, cwd=site.home(m)) for m, path in enumerate(map(str, homes))
    ]
    try:
        for m, party in enumerate(parties):
            end = party.end(within=60.0)
            end.failed(MismatchError, f"P{1 - m} has another MP-SPDZ than this party")
            assert "has seen by now" not in end.err
    finally:
        for party in parties:
            party.clear_away()
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_compiler_and_virtual_machine_of_different_versions(
    tmp_path: Path, edited: Callable[..., Installation]
) -> None:
    """Opcodes change between versions: the compiler of another one makes bytecode that this machine does not know."""
    other = edited("instructions_base.py", r"(\bINPUTMIXED\s*=\s*)0x\w+", r"\g<1>0x3FE")
    for error in errors(Site(tmp_path, 2), [other, other]):
        assert type(error) is EngineError
        assert "MP-SPDZ's compiler and its virtual machine are of different versions" in str(error)


@pytest.mark.parametrize("kind", ["*.bc", "*.sch", "counts.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "one digit", "lost"])
def test_damaged_cache_is_repaired(tmp_path: Path, damage: str, kind: str) -> None:
    cache, found = tmp_path / "cache", home.require()
    compiled = compile_program(PROGRAM, P, protocol("semi"), found, cache=cache)
    files = sorted(compiled.path.rglob(kind))
    content = files[0].read_bytes()
    if damage == "lost":
        files[0].unlink()
    elif damage == "one digit":
        files[0].write_bytes(re.sub(rb"[0-8]", lambda digit: bytes([digit[0][0] + 1]), content, count=1))
    else:
        files[0].write_bytes(content[: len(content) // 2] if damage == "cut" else content[::-1])
    said: list[str] = []
    assert compile_program(PROGRAM, P, protocol("semi"), found, cache=cache, note=said.append) == compiled
    assert len(said) == 1
    assert said[0].endswith("again: it was damaged")
    assert files[0].read_bytes() == content


def test_what_takes_the_place_of_a_cached_program_is_replaced(tmp_path: Path) -> None:
    cache, found = tmp_path / "cache", home.require()
    compiled = compile_program(PROGRAM, P, protocol("semi"), found, cache=cache)
    for make in (Path.touch, lambda path: path.symlink_to(tmp_path / "nowhere")):
        shutil.rmtree(compiled.path)
        make(compiled.path)
        assert compile_program(PROGRAM, P, protocol("semi"), found, cache=cache) == compiled
