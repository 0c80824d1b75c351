"""docs/tutorial.md, run as it is printed: every block of commands in turn, in one shell, with three real parties.

By a Python that has what a plain `pip install` brings. What is changed: ports, for those that are free. What is shown
as output is compared, "..." standing for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.tutorial import pictures
from pdml_spdz.numerics.linalg import sine
from tests.docs.pages import ROOT, blocks
from tests.docs.test_commands import NOT_RUN
from tests.docs.test_generated import assert_same_picture
from tests.parties.helpers import free_ports
from tests.plain_install import hidden

PAGE = ROOT / "docs" / "tutorial.md"
MARK = "@@ end of block"


def printed() -> list[tuple[str, str]]:
    """Each block of commands, with the output that the page shows for it, or ""."""
    found = blocks(PAGE)
    assert {block.kind for block in found} == {"sh", "text"}
    after = [block.text if block.kind == "text" else "" for block in found[1:]] + [""]
    return [(block.text, out) for block, out in zip(found, after, strict=True) if block.kind == "sh"]


STEPS = [(text, out) for text, out in printed() if not any(text.startswith(line) for line in NOT_RUN)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The directory in which all of it was run, and what each block printed."""
    home = tmp_path_factory.mktemp("tutorial")
    (home / "pdml-spdz").symlink_to(ROOT)
    script = "".join(f"{text}\necho '{MARK}'\n" for text, _ in STEPS)
    for printed_port, port in zip(("7100", "7101", "7102"), free_ports(3), strict=True):
        script = script.replace(f":{printed_port}", f":{port}")
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    environment |= {"PATH": commands, "XDG_DATA_HOME": str(home / "data"), "PYTHONPATH": str(hidden(home / "plain"))}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    logs = "".join(path.read_text() for path in home.glob("*/run.log"))
    assert done.returncode == 0, done.stdout + logs
    return home, done.stdout.split(f"{MARK}\n")[:-1]


def test_everything_shown_is_what_it_prints(played: tuple[Path, list[str]]) -> None:
    assert len(played[1]) == len(STEPS)
    for (text, shown), found in zip(STEPS, played[1], strict=True):
        lines = [re.escape(line.rstrip()).replace(r"\.\.\.", ".*") for line in shown.splitlines()]
        # A line of dots stands for any number of lines.
        wanted = "\n".join(lines).replace("\n.*\n", "\n(?s:.*)\n").removeprefix(".*\n").removesuffix("\n.*")
        said = "\n".join(line.rstrip() for line in found.splitlines())
        assert not shown or re.search(rf"(?m)^{wanted}$", said), f"{text}\nshould print\n{shown}\nand prints\n{said}"


def test_the_components_are_those_of_the_pooled_tables(played: tuple[Path, list[str]]) -> None:
    """By pandas and LAPACK, without anything of ours."""
    home, _ = played
    tables = [pd.read_csv(home / name / "rows.csv", na_values=["NA"]) for name in ("north", "valley")]
    tables.insert(1, pd.read_csv(home / "lake" / "rows.csv", sep=";", decimal=","))
    rows = pd.concat(tables).drop(columns=["patient", "admitted", "ward"])
    rows = pd.get_dummies(rows, columns=["admission"], prefix_sep="=").astype(float)
    names = pd.read_csv(home / "north" / "runs" / "march" / "party-0" / "loadings.csv")["feature"]
    assert set(names) == set(rows.columns)
    X = rows[list(names)].fillna(rows.mean())
    _, _, Vt = np.linalg.svd((X - X.mean()) / X.std(), full_matrices=False)
    V = np.load(home / "north" / "runs" / "march" / "party-0" / "V.npy")
    assert sine(Vt[:3].T, V) < 1e-6  # tol is 1e-7; a gap of a tenth


def test_the_pictures_are_those_of_the_page(played: tuple[Path, list[str]]) -> None:
    drawn = pictures(played[0] / "north" / "runs" / "march" / "party-0" / "result.html")
    assert len(drawn) == 2
    for name, picture in drawn.items():
        assert_same_picture((ROOT / "docs" / name).read_text(), picture)
