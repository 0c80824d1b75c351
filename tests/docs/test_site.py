"""`make docs`: the site builds, and a warning would end it; the reference has every public name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pdml_spdz
from pdml_spdz import estimators
from pdml_spdz.study.model import Study
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_site_has_a_page_for_each_of_ours_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        text = (site / page.with_suffix(".html").name).read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]+src="([^"]+)"|<link[^>]+href="([^"]+)"', text)
        assert not [a or b for a, b in loaded if re.match(r"https?:|//", a or b)], page


def test_lists_are_lists(site: Path) -> None:
    """A line that begins with a dash within a paragraph: the empty line before it is missing."""
    for page in site.glob("*.html"):
        for paragraph in re.findall(r"<p>.*?</p>", page.read_text(encoding="utf-8"), re.S):
            assert not re.search(r"\n(- |\d+\. )", paragraph), (page.name, paragraph[:200])


def test_reference_has_every_public_name_and_every_setting(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    known = set(re.findall(r'id="([\w.]+)"', text))
    assert (
        not {f"pdml_spdz.{name}" for name in pdml_spdz.__all__} - known - {"pdml_spdz.__version__", "pdml_spdz.errors"}
    )
    assert not {f"pdml_spdz.estimators.{name}" for name in estimators.__all__} - known
    assert not {f"pdml_spdz.Study.{name}" for name in Study.__dataclass_fields__} - known
    assert not {f"pdml_spdz.errors.{c.__name__}" for c in pdml_spdz.errors.CLASSES} - known
