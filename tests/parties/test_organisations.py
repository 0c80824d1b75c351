"""Five organisations, from nothing to a result, by the commands that the README prints; each in a directory, and where
the system allows it on a network, of its own.
"""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from pdml_spdz.errors import CertificateError
from tests.parties.helpers import Ended, Process, free_ports, until
from tests.parties.namespaces import hosts, on_host

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
M, MOST_COMMANDS = 5, 3
FEATURES = ["age", "weight, kg", "height", "pressure", "pulse", "=glucose"]


def printed(before: str) -> list[str]:
    """The commands of the README that stand behind a text, as it prints them, without remarks."""
    (block,) = re.findall(rf"{re.escape(before)}.*?\n\n((?:    [^\n]+\n)+)", README, re.DOTALL)
    return [line.partition("    # ")[0].strip() for line in block.splitlines()]


def ordinary(m: int) -> pd.DataFrame:
    """Rows as people have them: large means, units that differ by thousands."""
    rng = np.random.default_rng(m)
    mixed = rng.standard_normal((30 + 5 * m, 2)) @ np.random.default_rng(9).standard_normal((2, 6))
    rows = (mixed + 0.3 * rng.standard_normal(mixed.shape)) * [12, 15, 9, 20, 8, 30] + [50, 75, 170, 120, 70, 100]
    return pd.DataFrame(rows.round(2), columns=FEATURES)


class Organisation(NamedTuple):
    home: Path
    host: str | None
    ran: list[str]

    def start(self, line: str) -> Process:
        """A printed command, in this organisation's directory."""
        self.ran.append(line)
        target = None if self.host is None else functools.partial(on_host, self.host)
        return Process(*shlex.split(line)[1:], cwd=self.home, target=target)

    def run(self, line: str) -> Ended:
        process = self.start(line)
        try:
            return process.end(60.0)
        finally:
            process.clear_away()

    def asked(self, line: str, answer: str) -> str:
        """A printed command at a terminal, whose question a person answers."""
        self.ran.append(line)
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "pdml_spdz", *shlex.split(line)[1:]]
        process = subprocess.Popen(command, cwd=self.home, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux: nobody has the other end any more
                break
            if not piece:
                break
            said += piece
        os.close(ours)
        assert process.wait(60) == 0, said.decode()
        return said.decode()


@pytest.fixture
def organisations(tmp_path: Path) -> Iterator[list[tuple[Organisation, str]]]:
    with hosts(M) as places:
        made = []
        for i, (host, address) in enumerate(places):
            (home := tmp_path / f"host-{i}").mkdir()
            ordinary(i).to_csv(home / "rows.csv", index=False)
            made.append((Organisation(home, host, []), f"{address}:{free_ports(1)[0]}"))
        yield made


def test_five_organisations_have_a_result_after_three_commands_each_and_one_code(
    organisations: list[tuple[Organisation, str]],
) -> None:
    make, pack, join, party = printed("**One party on each machine**")
    first, *others = [organisation for organisation, _ in organisations]
    for i, (organisation, address) in enumerate(organisations):
        filled = make.replace("--id I", f"--id {i}").replace("NAME", f"Clinic {i}").replace("HOST:PORT", address)
        organisation.run(filled).well()
        if i:
            shutil.copy(organisation.home / "certs" / f"P{i}.pem", first.home)  # by mail
    (packed := first.run(pack)).well()
    code = " ".join(packed.out.strip().splitlines()[-2:]).split()
    assert len(code) == 12
    for other in others:
        shutil.copy(first.home / "study.bundle", other.home)  # by mail
    said = others[0].asked(join, "y")
    assert code == " ".join(said.partition("twelve words:")[2].splitlines()[1:3]).split()
    for phrase in ("Clinic 4", "algorithm pca", "the mean of all rows", "this party is P1"):
        assert phrase in said
    wrong = others[1].run(f'{join} --code "{" ".join(reversed(code))}"')
    wrong.failed(CertificateError, "is not the one that was read out")
    assert not (others[1].home / "study.toml").exists()
    others[1].ran.pop()
    for other in others[1:]:
        other.run(f'{join} --code "{" ".join(code)}"').well()
    everybody = [first, *others]
    mistaken = everybody[2].run(party.replace("--id I", "--id 3"))
    mistaken.failed(CertificateError, "this directory has P2.key: did you mean --id 2?")
    everybody[2].ran.pop()
    running = [o.start(party.replace("--id I", f"--id {i}")) for i, o in enumerate(everybody[:-1])]
    try:
        until(lambda: "waiting for P4 (Clinic 4)" in running[0].out)  # on the screen, by name
        running.append(everybody[-1].start(party.replace("--id I", f"--id {M - 1}")))
        for process in running:
            process.end(120.0).well()
    finally:
        for process in running:
            process.clear_away()
    assert max(len(o.ran) for o in everybody) <= MOST_COMMANDS
    check_results(everybody)


def check_results(everybody: list[Organisation]) -> None:
    where = [o.home / "runs" / "party" / f"party-{i}" for i, o in enumerate(everybody)]
    results = [np.load(path / "V.npy") for path in where]
    assert all(np.array_equal(result, results[0]) for result in results)
    components = PCA(2).fit(pd.concat([ordinary(m) for m in range(M)]).to_numpy()).components_.T
    sines = np.linalg.norm(results[0] - components * np.sign(np.sum(components * results[0], axis=0)), axis=0)
    assert np.all(sines < 1e-6)  # tol 1e-7 a vector, and chords are no longer than sqrt(2) sines
    for i, path in enumerate(where):
        report = json.loads((path / "report.json").read_text())
        assert report["names"] == [f"Clinic {j}" for j in range(M)]
        assert report["converged"]
        page = (path / "result.html").read_text()
        assert f"P{i} Clinic {i}" in page
        assert (path / "loadings.csv").read_text().startswith("feature,PC1,PC2\nage,")


def test_three_files_become_a_page_by_the_printed_commands(tmp_path: Path) -> None:
    commands = printed("## Three hospitals, three files, one page\n\nThree hospitals")
    assert len(commands) <= MOST_COMMANDS
    here = Organisation(tmp_path, None, [])
    for m, name in enumerate("abc"):
        ordinary(m).iloc[:, np.random.default_rng(m).permutation(6)].to_csv(tmp_path / f"{name}.csv", index=False)
    for line in commands:
        here.run(line).well()
    scaler = StandardScaler().fit(pd.concat([ordinary(m) for m in range(3)]).to_numpy())
    fitted = PCA(2).fit(pooled := scaler.transform(pd.concat([ordinary(m) for m in range(3)]).to_numpy()))
    order = [FEATURES.index(name) for name in json.loads((tmp_path / "runs/mine/report.json").read_text())["features"]]
    loadings = pd.read_csv(tmp_path / "runs" / "mine" / "loadings.csv")
    signs = np.sign(np.sum(loadings[["PC1", "PC2"]].to_numpy() * fitted.components_.T[order], axis=0))
    np.testing.assert_allclose(loadings[["PC1", "PC2"]] * signs, fitted.components_.T[order], atol=1e-6)
    scores = pd.read_csv(tmp_path / "scores.csv")[["PC1", "PC2"]]
    longest = np.linalg.norm(pooled - pooled.mean(axis=0), axis=1).max()
    np.testing.assert_allclose(
        scores * signs, fitted.transform(scaler.transform(ordinary(0).to_numpy())), atol=1e-6 * longest
    )
    page = (tmp_path / "runs" / "mine" / "result.html").read_text()
    assert "weight, kg" in page
    assert "<svg" in page
    assert (tmp_path / "runs" / "mine" / "party-0" / "result.html").read_text().count("<circle") >= len(ordinary(0))
