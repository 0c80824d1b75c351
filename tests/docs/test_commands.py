"""Every command in the pages is run: by a test here, by one that is named here, or not at all, with its reason.

Commands of `pdml-spdz` run in this process, in one directory and in the order of the pages, with threads for parties
(`tests/kitchen.py`); what `make` would run is read from `make -n`. Blocks must be complete commands. In a sentence a
command may be named without its arguments: then it and its options have to be there.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import pdml_spdz
from pdml_spdz.cli import fit
from pdml_spdz.estimators import PDPCA
from pdml_spdz.local.joint import LocalRun
from pdml_spdz.study import file as study_file
from pdml_spdz.transport import certs
from tests.docs.pages import PAGES, ROOT, blocks, command_word, commands, typed
from tests.kitchen import COMMANDS, ELSEWHERE, furnish, names_what_is_there, run, understood
from tests.plain_install import declared, hidden
from tests.unit.test_examples import EXAMPLES

# What no test runs, by how it begins, and why. At most fifteen.
NOT_RUN = {
    "pip install": "network",
    "python3 -m venv": "network",
    "useradd": "root",
    "docker": "another program",
    "ssh -L": "another program",
    "make chaos": "ten minutes",
    "make bench": "a quarter of an hour; tests/parties/test_benchmarks.py runs all of it with small numbers",
    "make experiments": "hours, and data sets; tests/experiments runs it on tiny data",
    "make privacy": "minutes, and data sets; tests/privacy has its parts",
    "PDML_PEERS_PYTHON=": "a quarter of an hour, and programs of others",
    "make svd ENGINE=mp-spdz": "an installed MP-SPDZ: `make test-spdz`",
    "make test": "this is it",
    "make check": "the same, in part",
    "python -m benchmarks.": "minutes; each says so, and is there",
    "python -m tests.experiments.terms": "data sets",
}
# What other tests run.
BY = {
    "make house": "tests/unit/test_house.py",
    "make paper": "tests/experiments/test_paper.py",
    "make docs": "tests/docs/test_site.py",
    "python pdml-spdz/examples/hospitals/make.py": "tests/docs/test_tutorial.py",
    "python -m benchmarks.lpn_security": "tests/ot/test_lpn_security.py",
    "python -m benchmarks.paper": "tests/experiments/test_paper.py",
    "python -m benchmarks.tutorial": "tests/docs/test_tutorial.py",
    "python -m pytest -rs tests/experiments/test_stored_cells.py": "tests/experiments/test_stored_cells.py",
    "python -m tests.experiments.small_cells": "tests/experiments/test_small_cells.py",
}
# What is to be filled in by a reader.
FILLED = {
    "--id I": "--id 0",
    "P<J>.pem": "P1.pem",
    "HOST:PORT": "127.0.0.1:7000",
    '"THE TWELVE WORDS"': '"..."',
    " DIR": " .",
    "render NAME": "render normed_sum",
    "study code FILE": "study code study.toml",
}
# Pages that are run as a whole.
AS_A_WHOLE = {"docs/tutorial.md": "tests/docs/test_tutorial.py", "mpc_programs/README.md": "tests/spdz/test_by_hand.py"}
EVERY = {page: commands(page) for page in PAGES}
OTHERS = {page: lines for page, lines in EVERY.items() if str(page.relative_to(ROOT)) not in AS_A_WHOLE}
DONE_THERE = {line for lines in EXAMPLES.values() for line in lines}


def begins(line: str, known: dict[str, str]) -> str:
    return next((prefix for prefix in known if line.startswith(prefix)), "")


def ours(line: str) -> list[str]:
    """A line of a page as command lines of pdml-spdz, without the program's name and with blanks filled in."""
    for blank, filled in FILLED.items():
        line = line.replace(blank, filled)
    words = line.removeprefix("pdml-spdz ").removesuffix(" ...")
    if (choice := re.search(r"\b[a-z]+(\|[a-z]+)+\b", words)) and "--" not in words:
        return [words.replace(choice[0], one) for one in choice[0].split("|")]
    return [words]


def whole(line: str) -> bool:
    """Whether nothing is missing that the command needs; its own error where something is wrong."""
    try:
        understood(line)
    except click.MissingParameter:
        return False
    except click.exceptions.Exit:  # --help
        return True
    return True


def named(line: str) -> bool:
    """Whether a sentence speaks of a command, by its name alone or with three dots for the rest."""
    alone = line.removeprefix("pdml-spdz ") in COMMANDS
    return line.endswith("...") or (alone and not any(line in typed(page) for page in OTHERS))


def left(line: str) -> bool:
    """Whether a command leaves a run that later ones speak of."""
    return "--out runs/" in line or line.startswith("privacy assess")


def listed() -> dict[str, list[str]]:
    """All distinct lines that are to be run here, by their first word."""
    found: dict[str, list[str]] = {}
    for lines in OTHERS.values():
        for line in lines:
            if not begins(line, NOT_RUN) and line not in found.setdefault(command_word(line), []):
                found[command_word(line)].append(line)
    return found


def test_the_list_of_what_is_not_run_is_short_and_used() -> None:
    assert len(NOT_RUN) <= 15
    every = [line for lines in EVERY.values() for line in lines]
    for prefix in [*NOT_RUN, *BY]:
        assert any(line.startswith(prefix) for line in every), prefix
    for test in [*BY.values(), *AS_A_WHOLE.values()]:
        assert (ROOT / test).is_file()


def recipe(line: str) -> str:
    """What `make ...` would do, variables before it included."""
    done = subprocess.run(
        ["make", "-n", *shlex.split(line.partition("make ")[2])], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ")


def test_what_make_is_told_is_there() -> None:
    lines = [line for found in EVERY.values() for line in found if command_word(line) == "make" and "<" not in line]
    assert len(lines) > 15
    for line in sorted(set(lines) - {"make clean"}):  # which is MP-SPDZ's
        assert recipe(line), line


def test_benchmarks_that_pages_name_are_there() -> None:
    lines = [line for found in EVERY.values() for line in found if line.startswith("python -m ")]
    for line in lines:
        assert importlib.util.find_spec(line.split()[2].rstrip(",")), line


@pytest.mark.parametrize("page", [p for p in EVERY if EVERY[p]], ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_are_complete_and_sentences_name_what_is_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("A.json", "B.json"):
        Path(name).write_text("{}")
    in_blocks = typed(page)
    for line in EVERY[page]:
        if command_word(line) == "pdml-spdz":
            for command in ours(line):
                names_what_is_there(re.sub(r"[|;].*", "", command))
                assert whole(command) or line not in in_blocks, line


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what the pages' commands need beyond the examples of --help."""
    home = furnish(tmp_path_factory.mktemp("pages"))
    for m in (3, 4):
        made = certs.make(home / f"P{m}", m, address=("127.0.0.1", 7000 + m))
        shutil.copy(made.path, home / f"P{m}.pem")
    (home / "examples").symlink_to(ROOT / "examples")
    (home / "films.txt").write_text("\n".join(f"film {i}" for i in range(12)))
    return home


def prepared(line: str, home: Path) -> None:
    """What a reader would have done before, or what an earlier line of another page has left in the way."""
    if "--force" not in line and (found := re.search(r"--out (runs/\S+)", line)):
        shutil.rmtree(found[1], ignore_errors=True)
    if line.startswith("privacy assess"):  # a page begins anew: samples of another plan are not gone on with
        shutil.rmtree("runs/assess", ignore_errors=True)
    if line.startswith(("init", "study pack")):
        for name in ("study.toml", "study.bundle"):
            Path(name).unlink(missing_ok=True)
        if "study.toml" in line:
            shutil.copy(home / "study.toml", "study.toml")
    if line.startswith("certs make") and "--force" not in line:
        shutil.rmtree("certs")
    if line.startswith("study pack"):
        shutil.rmtree("certs")
        shutil.copytree(home / "certs", "certs")
        for m in (1, 2) if "study.toml" not in line else ():
            Path("certs", f"P{m}.pem").unlink()
    if line.startswith(("certs add", "certs fingerprints", "doctor study", "check rows.csv --study", "study code")):
        shutil.rmtree("certs")
        shutil.copytree(home / "certs", "certs")
        shutil.copy(home / "study.toml", "study.toml")
    if line.startswith("offline plan study"):
        study_file.write(Path("study.toml"), replace(study_file.load(home / "study.toml"), d=8))
    if "--id 1" in line and not line.startswith("certs make"):
        for name in ("P1.key", "P1.pem"):
            shutil.copy(home / "P1" / name, Path("certs", name))
    if "--drop name,born" in line:
        table = pd.read_csv(home / "rows.csv")
        colours = np.where(table.index % 2 == 0, "red", "blue")
        table.assign(name="N", born="1950-01-01", colour=colours).to_csv("rows.csv", index=False)
    elif "rows.csv" in line:
        shutil.copy(home / "rows.csv", "rows.csv")
    if "--repeat runs/y" in line:
        run("svd a.csv b.csv c.csv --rank 5 --record-transcript --out runs/y --force")


@pytest.mark.filterwarnings("ignore")  # about few rows and few samples
def test_commands_of_the_pages_run(kitchen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = tmp_path / "kitchen"
    shutil.copytree(kitchen, where, symlinks=True)
    monkeypatch.chdir(where)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # where stocks go
    monkeypatch.setattr(fit, "LocalRun", functools.partial(LocalRun, transport="threads"))
    lines = [expanded(command) for line in listed()["pdml-spdz"] for command in ours(line) if not named(line)]
    lines += [line for made in made_by_make() for line in made]
    done, failed = set(), []
    for line in lines:
        if begins(line, ELSEWHERE) or (line in DONE_THERE and not left(line)) or not whole(line):
            continue
        prepared(line, kitchen)
        try:
            run(line)
        except AssertionError as error:
            failed.append(str(error).partition("\nassert ")[0])
        done.add(line)
        if line.startswith("documents"):
            for other in "bc":
                shutil.copy("a.npz", f"{other}.npz")
    assert not failed, "\n".join(failed)
    assert len(done) > 25


def expanded(line: str) -> str:
    """With the names of files that a shell would put for a pattern."""
    return re.sub(r"\S+\*\S+", lambda m: " ".join(sorted(map(str, Path().glob(m[0])))) or m[0], line)


def made_by_make() -> list[list[str]]:
    """The command lines of pdml-spdz that the pages' targets of make stand for."""
    found = []
    for line in listed()["make"]:
        if begins(line, BY) or "<" in line or line == "make clean":
            continue
        found.append([" ".join(m.split()) for m in re.findall(r"\S+/pdml-spdz (.*)", recipe(line))])
        assert found[-1], line
    return found


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the Python of the pages speaks of; parties are threads, fits are short."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    for function in (pdml_spdz.svd, pdml_spdz.pca, pdml_spdz.nmf, pdml_spdz.normed_sum):
        monkeypatch.setitem(function.__wrapped__.__kwdefaults__, "transport", "threads")  # type: ignore[attr-defined]
    monkeypatch.setitem(pdml_spdz.svd.__wrapped__.__kwdefaults__, "engine", "secsum")  # type: ignore[attr-defined]
    monkeypatch.setitem(pdml_spdz.nmf.__wrapped__.__kwdefaults__, "iterations", 10)  # type: ignore[attr-defined]
    for name, value in (("transport", "threads"), ("engine", "secsum")):
        monkeypatch.setitem(PDPCA.__init__.__kwdefaults__, name, value)
    T = rng.gamma(0.3, 1.0, (6, 30))
    tables = {f"X_{m}": rng.gamma(0.5, 1.0, (40 + m, 6)) @ T + 0.1 for m in range(3)}
    X = np.concatenate(list(tables.values()))
    pdml_spdz.pca(list(tables.values()), rank=5, engine="secsum", out="runs/mine")
    return tables | {
        "X": X,
        "x_0": X[0],
        "x_1": X[1],
        "x_2": X[2],
        "near_the_means": X.mean(axis=0).round(1),
        "X_own": X[:40],
        "X_new": X[40:50],
        "y_own": X[:40].sum(axis=1),
        "ratings_0": sp.random_array(
            (30, 12), density=0.5, rng=rng, data_sampler=lambda size: rng.integers(1, 6, size)
        ),
        "ratings_1": sp.random_array(
            (20, 12), density=0.5, rng=rng, data_sampler=lambda size: rng.integers(1, 6, size)
        ),
        "result": pdml_spdz.pca(list(tables.values()), rank=5, engine="secsum"),
    }


@pytest.mark.filterwarnings("ignore")  # about what is recorded, and fits that are cut short
@pytest.mark.parametrize(
    "page", [p for p in OTHERS if any(b.kind == "python" for b in blocks(p))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_python_of_the_pages_runs(page: Path, variables: dict[str, Any]) -> None:
    for block in blocks(page):
        if block.kind == "python":
            exec(compile(block.text, str(page), "exec"), variables)  # what we wrote ourselves


# What README's Python speaks of, of parties that are threads.
PRELUDE = """
import numpy as np
import pdml_spdz

for function in (pdml_spdz.svd, pdml_spdz.pca, pdml_spdz.nmf):
    function.__wrapped__.__kwdefaults__ |= {"transport": "threads", "engine": "secsum"}
X_0, X_1, X_2 = np.abs(np.random.default_rng(0).normal(size=(3, 40, 30)))
X = np.concatenate([X_0, X_1, X_2])
pdml_spdz.pca([X_0, X_1, X_2], rank=5, out="runs/mine")
"""


def test_python_of_the_readme_needs_the_packages_that_it_names(tmp_path: Path) -> None:
    (block,) = [b.text for b in blocks(ROOT / "README.md") if b.kind == "python"]
    named = re.findall(r"pip install '?([\w.\[\]]+)", block)
    more = [text for name in named for text in (declared(name[2:-1]) if name.startswith(".[") else [name])]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + block],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(hidden(tmp_path / "plain", *more))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
