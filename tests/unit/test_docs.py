"""What the documents say is what the code does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest

from benchmarks import result_picture
from benchmarks.levels_picture import told
from pdml_spdz import __version__, errors
from pdml_spdz.cli.app import Listed, cli
from pdml_spdz.numerics.linalg import fix_signs
from pdml_spdz.ot.prg import BLOCK
from pdml_spdz.programs.precision import FULL_G, Precision
from pdml_spdz.run import repeats
from pdml_spdz.study import model as study
from pdml_spdz.study.checks import USUAL_RANGE, WIDE_RANGE

ROOT = Path(__file__).parents[2]


def test_exit_codes_are_distinct_and_documented() -> None:
    codes = [c.code for c in errors.CLASSES]
    assert len(set(codes)) == len(codes)
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    documented = {(int(code), name) for code, name in re.findall(r"^\| (\d+) \| ([\w-]+) \|", text, re.M)}
    assert documented == {(code, name) for code, name, _ in errors.exit_codes()}


def test_troubleshooting_headings_are_literal_messages() -> None:
    files = [*(ROOT / "pdml_spdz").rglob("*.py"), *(ROOT / "templates").glob("*.j2")]
    sources = "\n".join(p.read_text() for p in files)
    sources = re.sub(r'"\s*\n\s*f?"', "", sources)  # a message may be written in several pieces
    for heading in re.findall(r"^## (.+)$", (ROOT / "docs" / "troubleshooting.md").read_text(), re.M):
        # What stands between the names, numbers and other parts that vary.
        fragments = re.split(r"P\d|\d+|\.\.\.|: |; |\br\b|\bk\b", heading)
        for fragment in fragments if heading != "Exit codes" else []:
            assert fragment.strip() in sources, heading


def test_version_is_the_same_everywhere() -> None:
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_every_study_setting_is_in_the_template() -> None:
    text = (ROOT / "templates" / "study.toml.j2").read_text()
    for name in study.Study.__dataclass_fields__:
        assert f"study.{name}" in text, name


def test_figures_of_security_and_readme_are_those_of_the_results() -> None:
    text, readme = " ".join((ROOT / "docs/security.md").read_text().split()), (ROOT / "README.md").read_text()
    found, _ = told()
    alone, everything = found["V_k alone"], found["all of c S"]
    power, krylov = found["`--reveal normed --solver power`"], found["`--reveal normed`"]
    assert "with 5,113 mails at each of two parties (d = 2,000, k = 7)" in text
    assert f"whoever has only V_k told {alone} of 200 mails" in text
    assert f"which is more than a run shows, told {everything} of 200" in text
    assert f"told {krylov} of 200 mails, whoever sees those of 300 iterations of power {power}" in text
    assert f"| sealed | the same, and the ratios of 2k Ritz values | {found['`--reveal sealed`']} |" in text
    lines = [line.split("|") for line in readme.splitlines() if re.match(r"\| (`|the result)", line)]
    assert [int(line[3].split()[0]) for line in lines] == [
        found["`--reveal sum`"],
        krylov,
        power,
        found["`--reveal sealed`"],
        alone,
    ]


def test_picture_of_the_readme_is_the_svd_of_all_rows() -> None:
    files = [ROOT / "examples" / "digits" / f"party-{m}.csv.gz" for m in range(3)]
    X = np.vstack([np.loadtxt(file, delimiter=",", skiprows=1) for file in files])
    V = fix_signs(np.linalg.svd(X, full_matrices=False)[2][:7].T)
    assert result_picture.PICTURE.read_text() == result_picture.drawn(V) + "\n"


def test_figures_of_levels_and_statement_are_those_of_the_results() -> None:
    levels, statement = (" ".join((ROOT / "docs" / name).read_text().split()) for name in ("levels.md", "statement.md"))
    found, _ = told()
    sum_, normed, power = (found[f"`--reveal {name}`"] for name in ("sum", "normed", "normed --solver power"))
    sealed, alone = found["`--reveal sealed`"], found["V_k alone"]
    assert f"| `sum`, solver krylov | {sum_} | | `normed`, solver krylov | {normed} |" in levels
    assert f"are used) | {power} | | `sealed` | {sealed} | | the result alone | {alone} |" in levels
    assert f"{sum_} of 200 mails are distinguishable. At normed, the default, every party sees it up to one" in levels
    assert f"factor: at least {normed} of 200. " in levels
    assert f"numbers: at least {sealed} of 200. From the result alone: at least {alone} of 200." in levels
    said = f"could find out for at least {sum_} of them whether they took part with the level `sum`, {normed} with "
    said += f"`normed` (the difference is chance), {sealed} with `sealed` (computed, not run: a sealed run refuses "
    assert f"{said}more than 1,024 columns), and {alone} from the model alone" in statement
    for text in (levels, statement):
        assert re.search("two (parties|participants)( with|,) 5,113 (e-)?mails each", text)


def test_limits_that_security_states_are_those_of_the_code() -> None:
    text = " ".join((ROOT / "docs" / "security.md").read_text().split())
    assert f"capped at {repeats.LIMIT} uses" in text
    wide, usual = (Precision(3, R=r, f_g=FULL_G, hidden_mean=False) for r in (WIDE_RANGE, USUAL_RANGE))
    many = next(p for M in range(3, 31) if (p := replace(wide, M=M)).scalar_bits > wide.scalar_bits)
    assert many.M == 8
    hidden = replace(wide, hidden_mean=True).scalar_bits
    more = f"from eight parties on Z_2^{many.scalar_bits}, with a hidden mean Z_2^{hidden}"
    scalars = f"Z_2^{wide.scalar_bits} (scalars; {more})"
    assert f"in the default window in Z_2^{wide.vector_bits} (vectors) and {scalars}" in text
    assert f"below an agreed bound in Z_2^{usual.vector_bits} and Z_2^{usual.scalar_bits}" in text
    assert f"log2 N of the {Precision(3).G} guard bits" in text
    assert f"AES-{8 * BLOCK} is an ideal cipher in the hashes of OT extension and trees, and pseudorandom in" in text


def commands(group: click.Group, name: str = "pdml-spdz") -> Iterator[tuple[str, click.Command]]:
    for part, listed in group.commands.items():
        command = listed.load() if isinstance(listed, Listed) else listed
        yield f"{name} {part}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {part}")


def test_every_help_text_is_a_sentence_by_itself() -> None:
    for name, command in commands(cli):
        for option in command.params:
            text = getattr(option, "help", None) or ""
            assert not re.match(r"Of |At most so", text), f"{name} {option.name}: {text}"
            assert " give in" not in text, f"{name} {option.name}: {text}"


def test_nothing_that_is_ignored_is_committed() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    assert listed.stdout == ""
