"""What the documents say is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdml_spdz import __version__, errors, study

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


@pytest.mark.parametrize("path", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_version_is_the_same_everywhere() -> None:
    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_every_study_setting_is_in_the_template() -> None:
    text = (ROOT / "templates" / "study.toml.j2").read_text()
    for name in study.Study.__dataclass_fields__:
        assert f"study.{name}" in text, name
