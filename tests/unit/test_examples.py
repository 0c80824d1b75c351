"""Every example of every --help: understood by the commands that are there, and run.

They run in this process and with threads for parties, on small files; those that take long otherwise with the options
of `CHEAPER`. What cannot be run like this is in `ELSEWHERE`, with where it is run.
"""

from __future__ import annotations

import ast
import functools
import gzip
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from pdml_spdz.cli import app, fit
from pdml_spdz.cli.app import Listed, cli
from pdml_spdz.local.joint import LocalRun
from pdml_spdz.rows.formats import save_npz
from pdml_spdz.study import bundle as bundles
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import PartyEntry, Study
from pdml_spdz.transport import certs
from tests.parties.helpers import free_ports

PACKAGE = Path(app.__file__).parents[1]
NAMES = ["ham", "eggs", "tea", "rice", "salt", "milk", "figs", "mint"]
ELSEWHERE = {
    "bench ": "minutes: `make bench`, and tests/parties/test_benchmarks.py with small numbers",
    "mp-spdz install": "a release: tests/unit/test_mp_spdz_install.py",
    "mp-spdz list --mp-spdz": "an installed MP-SPDZ: tests/spdz",
    "party ": "all parties at once: tests/parties",
    "offline make study.toml": "all parties at once: tests/parties/test_offline.py",
    "join study.bundle": "a person at a terminal: tests/parties/test_organisations.py",
}
CHEAPER = {
    "privacy assess": "--samples 4 --documents 2 --jobs 1",
    "privacy ksdp": "--samples 4 --documents 2 --jobs 1",
    "svd": "--engine secsum",
    "pca": "--engine secsum",
    "nmf": "--iterations 5",
    "doctor study.toml --id 0 --reach --listen": "--seconds 0",
}


def every(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    command = command.load() if isinstance(command, Listed) else command
    yield " ".join(path), command
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from every(one, (*path, name))


COMMANDS = dict(every(cli, ()))


def examples(text: str | None) -> list[str]:
    """What stands after the command, up to the comment beside it."""
    return [re.split(r"\s{2,}|\s+#", line)[0] for line in re.findall(r"^\s*pdml-spdz (.*)$", text or "", re.MULTILINE)]


EXAMPLES = {name: found for name, command in COMMANDS.items() if (found := examples(command.help))}


def test_every_command_has_an_example() -> None:
    for name, command in COMMANDS.items():
        if not isinstance(command, click.Group):
            assert EXAMPLES.get(name), name
            assert any(line.startswith(name) for line in EXAMPLES[name]), name


def understood(line: str) -> click.Context:
    """The context of a command line, with all of its values converted; click's own error where it is wrong."""
    words = shlex.split(line.partition(" | ")[0])
    context, command = click.Context(cli, info_name="pdml-spdz"), cli
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        context, command = click.Context(found, parent=context), found
    return command.make_context(command.name, words, parent=context.parent)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_understood(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for archive in ("mp-spdz-0.4.2.tar.xz", "before.json", "after.json", "table.json"):
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
    known = sorted((name for name in COMMANDS if name), key=len, reverse=True)
    found = [hint for hint in hints() if not hint.startswith("-") and "..." not in hint]
    assert len(found) > 15
    for hint in found:
        words = shlex.split(hint)
        name = next((n for n in known if f"{hint} ".startswith(f"{n} ")), "")
        assert name, hint
        options = {option for p in COMMANDS[name].params for option in (*p.opts, *p.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= options | {"--help"}, hint
        assert not isinstance(COMMANDS[name], click.Group) or words == name.split(), hint


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
    """A directory with all files that examples speak of."""
    home = tmp_path_factory.mktemp("examples")
    rng = np.random.default_rng(0)

    def table(n: int = 24) -> pd.DataFrame:
        counts = rng.poisson(rng.gamma(1.0, 2.0, (n, 2)) @ rng.gamma(1.0, 1.0, (2, 8)))
        return pd.DataFrame(counts, columns=NAMES).astype(float)

    for name in "abc":
        table().to_csv(home / f"{name}.csv", index=False)
        rows = rng.random((24, 24)) * 1.2 ** -np.arange(24.0)
        save_npz(home / f"{name}.npz", sp.csr_array(rows / np.linalg.norm(rows, axis=1)[:, None]), None)
        np.save(home / f"{name}.npy", rng.standard_normal(8) / 10)
    table(30).to_csv(home / "rows.csv", index=False)
    for name in ("rows", "public"):
        save_npz(home / f"{name}.npz", sp.csr_array(rng.poisson(1.0, (30, 24)) + 0.1), None)
    table().assign(y=rng.standard_normal(24)).to_csv(home / "with-target.csv", index=False)
    table(1).to_csv(home / "near-the-means.csv", index=False)
    pd.DataFrame([[2.0] * 8], columns=NAMES).to_csv(home / "units.csv", index=False)
    (home / "mine.py").write_text("def largest(seen, x):\n    return float(abs(x).max())\n")
    (home / "mails").mkdir()
    for i in range(4):
        (home / "mails" / f"{i}.txt").write_text(f"some words about rice and {NAMES[i]}, and more words")
    (home / "agreed.txt").write_text("\n".join(NAMES))
    with gzip.open(home / "posts.jsonl.gz", "wt") as posts:
        posts.writelines(json.dumps({"text": f"{name} with rice"}) + "\n" for name in NAMES)
    own, ports = home / "certs", free_ports(3)
    for m in range(3):
        where = own if m == 0 else home / f"P{m}"
        made = certs.make(where, m, address=("127.0.0.1", ports[m]))
        shutil.copy(made.path, home / f"P{m}.pem") if m else None
    certs.add_all(own, [home / "P1.pem", home / "P2.pem"])
    packed = bundles.pack(Study(tuple([PartyEntry(host=f"h{m}") for m in range(3)]), 2, algorithm="pca"), own)
    packed.save(home / "study.bundle")
    study_file.write(home / "study.toml", packed.study)
    return home


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


def run(line: str) -> None:
    command, _, query = line.partition(" | jq ")
    more = next((options for prefix, options in CHEAPER.items() if command.startswith(prefix)), "")
    if "--reveal" in command or "--centre hidden" in command or "--bound" in command:
        more = ""
    found = CliRunner().invoke(cli, shlex.split(f"{command} {more}"), catch_exceptions=True, env={"COLUMNS": "200"})
    assert found.exit_code == 0, f"{line}: {found.output} {found.exception}"
    if query:
        answer = json.loads(found.stdout)
        for place, key in re.findall(r"\[(\d+)\]|\.(\w+)", query):
            answer = answer[int(place) if place else key]
        assert answer
