"""A directory with all files that examples in help texts and pages speak of; and how an example is understood and run.

Examples run in this process and with threads for parties, on small files; those that take long otherwise with the
options of `CHEAPER`. What cannot be run like this is in `ELSEWHERE`, with where it is run.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
import scipy.sparse as sp
from click.testing import CliRunner

from pdml_spdz.cli.app import Listed, cli
from pdml_spdz.rows.formats import save_npz
from pdml_spdz.study import bundle as bundles
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import PartyEntry, Study
from pdml_spdz.transport import certs
from tests.parties.helpers import free_ports

NAMES = ["ham", "eggs", "tea", "rice", "salt", "milk", "figs", "mint"]
ELSEWHERE = {
    "bench ": "minutes: `make bench`, and tests/parties/test_benchmarks.py with small numbers",
    "mp-spdz list --mp-spdz": "an installed MP-SPDZ: tests/spdz",
    "svd a.csv b.csv --rank 1 --engine mp-spdz": "an installed MP-SPDZ: tests/spdz/test_sealed_fit.py",
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


def understood(line: str) -> click.Context:
    """The context of a command line, with all of its values converted; click's own error where it is wrong."""
    words = shlex.split(line.partition(" | ")[0])
    context, command = click.Context(cli, info_name="pdml-spdz"), cli
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        context, command = click.Context(found, parent=context), found
    return command.make_context(command.name, words, parent=context.parent)


def names_what_is_there(line: str) -> str:
    """The command of a line that need not be whole: it and all options that the line names are there."""
    words = shlex.split(line)
    known = sorted((name for name in COMMANDS if name), key=len, reverse=True)
    name = next((n for n in known if f"{line} ".startswith(f"{n} ")), "")
    assert name, line
    options = {option for p in COMMANDS[name].params for option in (*p.opts, *p.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= options | {"--help"}, line
    assert not isinstance(COMMANDS[name], click.Group) or words[: len(name.split()) + 1] in (
        name.split(),
        [*name.split(), "--help"],
    ), line
    return name


def furnish(home: Path) -> Path:
    """A directory with all files that examples speak of."""
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
