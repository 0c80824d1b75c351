"""A process loads what it needs and no more, by what is in sys.modules at its end: no clock, no machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.cli.app import COMMANDS, Listed, cli
from pdml_spdz.run import handshake
from pdml_spdz.study.algorithm import ALGORITHMS

HEAVY = ("numpy", "scipy", "cryptography", "rich", "jinja2", "sklearn", "matplotlib")
# For people, or for those who start parties: of no use to a party.
NOT_FOR_PARTIES = ("api", "applications", "bench", "estimators", "local", "privacy")
# Every process says at its end what it was called with, or what a fork became, and what it has imported.
WITNESS = """
import atexit, json, os, sys
def say():
    with open(f"{os.environ['WITNESS']}/{os.getpid()}.json", "w") as file:
        json.dump([sys.orig_argv + sys.argv, list(sys.modules)], file)
if "WITNESS" in os.environ:
    atexit.register(say)
"""


def processes(command: list[str], directory: Path) -> list[tuple[list[str], set[str]]]:
    """(arguments, modules) of every Python process that the command is, or has started."""
    (directory / "sitecustomize.py").write_text(WITNESS)
    (directory / "said").mkdir()
    paths = os.pathsep.join([str(directory), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": paths, "WITNESS": str(directory / "said")}
    subprocess.run([sys.executable, *command], env=environment, cwd=directory, check=True, capture_output=True)
    said = [json.loads(path.read_text()) for path in sorted((directory / "said").iterdir())]
    return [(arguments, set(modules)) for arguments, modules in said]


def libraries(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & set(HEAVY)


def ours(modules: set[str], *packages: str) -> set[str]:
    """Of our modules those that are, or are in, one of the packages."""
    wanted = tuple(f"pdml_spdz.{package}." for package in packages)
    return {name for name in modules if f"{name}.".startswith(wanted or ("pdml_spdz.",))}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_library_but_click(option: str, tmp_path: Path) -> None:
    ((_, found),) = processes(["-m", "pdml_spdz", option], tmp_path)
    assert "click" in found
    assert libraries(found) == set()
    names = {"pdml_spdz.study", "pdml_spdz.study.algorithm", "pdml_spdz.registry"}  # the algorithms' names
    assert ours(found) == {"pdml_spdz", "pdml_spdz.errors", "pdml_spdz.cli", "pdml_spdz.cli.app"} | names


def test_console_script_imports_no_more_than_the_module(tmp_path: Path) -> None:
    script = shutil.which("pdml-spdz", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("not installed")
    ((_, found),) = processes([script, "--version"], tmp_path)
    assert libraries(found) == set()


def test_list_of_commands_says_what_they_say_of_themselves() -> None:
    fits = [(name, line.about) for name, line in ALGORITHMS.lines.items()]
    for name, text in (*fits, *((name, text) for name, _, text in COMMANDS)):
        listed = cli.commands[name]
        assert isinstance(listed, Listed)
        command = listed.load()
        assert command.name == name
        assert command.get_short_help_str(limit=1000) == text, name
        assert listed.get_short_help_str() == command.get_short_help_str()


def parties(directory: Path, *options: str) -> list[set[str]]:
    """The modules of each party of a local `svd` of dense rows."""
    for m in range(2):
        np.save(directory / f"{m}.npy", np.random.default_rng(m).standard_normal((20, 4)))
    command = ["-m", "pdml_spdz", "svd", "0.npy", "1.npy", "--rank", "1", "--tol", "1e-3", "--out", "out", *options]
    found = [modules for arguments, modules in processes(command, directory) if "party" in arguments]
    assert len(found) == 2
    return found


ENGINES: list[Any] = [
    pytest.param(
        "secsum",
        "engines.secsum",
        {"numpy", "cryptography"},
        ("offline", "ot.vole", "ot.lpn", "programs.render"),
        id="secsum",
    ),
    pytest.param("embedded", "engines.embedded", {"numpy", "cryptography", "jinja2"}, (), id="embedded"),
]


@pytest.mark.parametrize(("engine", "own", "needed", "idle"), ENGINES)
def test_party_loads_its_own_engine_and_fit(
    engine: str, own: str, needed: set[str], idle: tuple[str, ...], tmp_path: Path
) -> None:
    engines = {"engines.plain", "engines.secsum", "engines.embedded", "engines.mp_spdz"}
    fits = ("fits.nmf", "fits.pca", "fits.normed_sum", "fits.accuracy", "algorithms.nmf")
    for found in parties(tmp_path, "--engine", engine):
        assert libraries(found) == needed
        assert ours(found, own)
        assert ours(found, "fits.svd")
        assert ours(found, *NOT_FOR_PARTIES, *fits, *idle, *(engines - {own})) == set()


def test_digest_of_the_build_covers_all_that_a_party_loads(tmp_path: Path) -> None:
    covered = {
        path.relative_to(handshake.PACKAGE.parent).with_suffix("") for path in handshake.sources(handshake.PACKAGE)
    }
    names = {".".join(path.parts).removesuffix(".__init__") for path in covered}
    for found in parties(tmp_path):
        assert ours(found) - ours(found, "cli") - {"pdml_spdz.__main__"} <= names
