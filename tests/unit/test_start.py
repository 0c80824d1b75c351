"""A command loads what it needs and no more, by what is in sys.modules at its end: no clock, no machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pdml_spdz.cli.app import COMMANDS, Listed, cli
from pdml_spdz.study.algorithm import ALGORITHMS

HEAVY = ("numpy", "scipy", "cryptography", "rich", "jinja2", "sklearn", "matplotlib")
# Says at the end of the process what it has imported, whatever it did and however it ended.
WITNESS = """
import atexit, os, sys
def say():
    with open(os.environ["WITNESS"], "w") as file:
        file.write("\\n".join(sys.modules))
if "WITNESS" in os.environ:
    atexit.register(say)
"""


def packages(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def imported(command: list[str], directory: Path) -> set[str]:
    (directory / "sitecustomize.py").write_text(WITNESS)
    paths = os.pathsep.join([str(directory), *filter(None, sys.path)])
    report = directory / "modules"
    environment = os.environ | {"PYTHONPATH": paths, "WITNESS": str(report)}
    subprocess.run(command, env=environment, cwd=directory, check=True, capture_output=True)
    return set(report.read_text().split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_library_but_click(option: str, tmp_path: Path) -> None:
    found = imported([sys.executable, "-m", "pdml_spdz", option], tmp_path)
    assert {"click", "pdml_spdz.cli.app"} <= found
    assert not packages(found) & set(HEAVY)
    ours = {name for name in found if name.startswith("pdml_spdz")}
    names = {"pdml_spdz.study", "pdml_spdz.study.algorithm", "pdml_spdz.registry"}  # the algorithms' names
    assert ours <= {"pdml_spdz", "pdml_spdz.errors", "pdml_spdz.cli", "pdml_spdz.cli.app"} | names


def test_console_script_imports_no_more_than_the_module(tmp_path: Path) -> None:
    script = shutil.which("pdml-spdz", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("not installed")
    assert not packages(imported([sys.executable, script, "--version"], tmp_path)) & set(HEAVY)


def test_list_of_commands_says_what_they_say_of_themselves() -> None:
    fits = [(name, line.about) for name, line in ALGORITHMS.lines.items()]
    for name, text in (*fits, *((name, text) for name, _, text in COMMANDS)):
        listed = cli.commands[name]
        assert isinstance(listed, Listed)
        command = listed.load()
        assert command.name == name
        assert command.get_short_help_str(limit=1000) == text, name
        assert listed.get_short_help_str() == command.get_short_help_str()
