"""Every example of every --help: understood by the commands that are there, and run (`tests/kitchen.py`)."""

from __future__ import annotations

import ast
import functools
import re
import shutil
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

from pdml_spdz.cli import app, fit
from pdml_spdz.local.joint import LocalRun
from pdml_spdz.study import file as study_file
from tests.kitchen import COMMANDS, ELSEWHERE, furnish, names_what_is_there, run, understood

PACKAGE = Path(app.__file__).parents[1]


def examples(text: str | None) -> list[str]:
    """What stands after the command, up to the comment beside it."""
    return [re.split(r"\s{2,}|\s+#", line)[0] for line in re.findall(r"^\s*pdml-spdz (.*)$", text or "", re.MULTILINE)]


EXAMPLES = {name: found for name, command in COMMANDS.items() if (found := examples(command.help))}


def test_every_command_has_an_example() -> None:
    for name, command in COMMANDS.items():
        if not isinstance(command, click.Group):
            assert EXAMPLES.get(name), name
            assert any(line.startswith(name) for line in EXAMPLES[name]), name


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_understood(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for archive in ("before.json", "after.json", "table.json"):
        (tmp_path / archive).write_text("{}")
    for line in EXAMPLES[name]:
        understood(line)


def hints() -> list[str]:
    """Commands that messages tell people to run: in backquotes, in the package's texts, with what varies filled in."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if "`pdml-spdz " not in (text := path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.JoinedStr(values=values):
                    said = "".join(str(p.value) if isinstance(p, ast.Constant) else "0" for p in values)
                case ast.Constant(value=str(said)):
                    pass
                case _:
                    continue
            found.update(" ".join(line.split()) for line in re.findall(r"`pdml-spdz ([^`{]+)`", said))
    return sorted(found)


def test_hints_name_commands_and_options_that_are_there() -> None:
    found = [hint for hint in hints() if not hint.startswith("-") and "..." not in hint]
    assert len(found) > 15
    for hint in found:
        names_what_is_there(hint)


def test_packages_that_hints_name_are_those_of_the_extras() -> None:
    """A hint that names this package would look for it in an index that may have another of that name, or none."""
    extras, named = (PACKAGE.parent / "pyproject.toml").read_text(), set()
    for path in PACKAGE.rglob("*.py"):
        for words in re.findall(
            r"pip install ((?:'?[a-z][\w.\-]*(?:\[[\w,]+\])?(?:>=[\d.]+)?'?[ ,;`\")]*)+)", path.read_text()
        ):
            first = re.findall(r"[a-z][\w\-]*", re.sub(r"\[.*?\]", "", words))[0]
            named.add(first)
    assert len(named) > 5
    for package in named:
        assert re.search(rf'"{package}(\[[\w,]+\])?>=', extras), package


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnish(tmp_path_factory.mktemp("examples"))


# What a block of examples begins with, where that is not all of the kitchen.
WITHOUT = {
    "certs": ("certs",),
    "certs make": ("certs",),
    "study": ("study.toml", "study.bundle"),
    "study pack": ("study.toml", "study.bundle"),
    "init": ("study.toml",),
    "": ("certs",),
}
RECORDED = "svd a.csv b.csv c.csv --rank 2 --record-transcript --out"
BEFORE = {
    "privacy attack": (
        "svd a.csv b.csv c.csv --rank 2 --record-transcript --out runs/x",
        "svd a.csv b.csv c.csv --rank 2 --record-transcript --out runs/y",
    ),
    "privacy report": ("svd a.csv b.csv --rank 2 --record-transcript --out runs/x", "privacy attack runs/x"),
    "privacy exclude": ("privacy assess rows.csv --rank 5",),
}


@pytest.mark.filterwarnings("ignore")  # about few rows and few samples
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str, kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in EXAMPLES[name] if not any(line.startswith(prefix) for prefix in ELSEWHERE)]
    if name == "offline":  # these stand by themselves, and are examples of its commands, too
        lines = [line for line in lines if line not in EXAMPLES["offline make"]]
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # where stocks go
    monkeypatch.setattr(fit, "LocalRun", functools.partial(LocalRun, transport="threads"))
    where = fresh(kitchen, tmp_path / "0", name)
    for i, line in enumerate([*BEFORE.get(name, ()), *lines]):
        if name in ("init", "privacy assess") and i:
            where = fresh(kitchen, tmp_path / str(i), name)
        monkeypatch.chdir(where)
        if line.startswith("certs make"):
            shutil.rmtree("certs", ignore_errors=True)
        if line.startswith("normed-sum") and ".csv" in line:
            for table in where.glob("?.csv"):
                pd.read_csv(table).head(1).to_csv(table, index=False)
        if "--force" not in line and (found := re.search(r"--out (runs/\S+)", line)):
            shutil.rmtree(found[1], ignore_errors=True)
        run(line)
        if line.startswith("documents"):  # so do the other parties
            for other in "bc":
                shutil.copy("a.npz", f"{other}.npz")


def fresh(kitchen: Path, where: Path, name: str) -> Path:
    shutil.copytree(kitchen, where)
    for left_out in WITHOUT.get(name, ()):
        path = where / left_out
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if name in ("study", "study pack"):
        for m in (1, 2):
            (where / "certs" / f"P{m}.pem").unlink()
    if name in ("check", "init"):
        for path in [*where.glob("?.csv"), where / "rows.csv"]:
            table = pd.read_csv(path)
            table.assign(name=np.sqrt(table.index + 2.0), born=1950.0 + table.index**2 % 17).to_csv(path, index=False)
    if name == "certs":
        study = study_file.load(where / "study.toml")
        unsaid = tuple([replace(party, fingerprint="") for party in study.parties])
        study_file.write(where / "study.toml", replace(study, parties=unsaid))
    return where
