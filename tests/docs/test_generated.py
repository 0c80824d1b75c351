"""What is generated is what its generator makes now: summaries of long pages, the picture of levels, the notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks import levels_picture, notebooks, summaries
from benchmarks.performance import kept_rows, mp_spdz, mp_spdz_page
from pdml_spdz.bench.results import load
from tests.docs.pages import ROOT

NUMBER = re.compile(r"#[0-9a-f]{6}|-?\d+\.?\d*(?:e-?\d+)?")


def assert_same_picture(kept: str, drawn: str, pixels: float = 0.101) -> None:
    """Up to some tenths of a pixel and one shade, which is what noise in the last bits may change."""
    assert NUMBER.sub("", kept) == NUMBER.sub("", drawn)
    for a, b in zip(NUMBER.findall(kept), NUMBER.findall(drawn), strict=True):
        if a.startswith("#"):
            assert all(abs(int(a[i : i + 2], 16) - int(b[i : i + 2], 16)) <= 1 for i in (1, 3, 5))
        else:
            assert abs(float(a) - float(b)) <= pixels


@pytest.mark.parametrize("name", summaries.PAGES)
def test_summary_says_what_its_page_says_and_fits_a_screen(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert summaries.summarised(text, summaries.PAGES[name]) == text
    short = text.partition(summaries.BEGIN)[2].partition(summaries.END)[0]
    assert 8 < len(short.splitlines()) < 40


def test_summary_names_aims_that_were_missed() -> None:
    head = "| | wanted | found | met | part |\n| --- | --- | --- | --- | --- |\n"
    page = f"# Performance\n\nWords.\n\n{head}| a | at least 2 | 3 | yes | x |\n| b | at most 5 | 7 | no | x |\n"
    page += "| make svd (digits) | 2 s | 1 s | yes | y (earlier) |\n"
    text = summaries.summarised(page, summaries.performance)
    assert "7 vectors (earlier) | 1 s | 2 s |" in text
    assert "Of 2 aims 1 were met. **Missed**:\n\n- b: wanted at most 5, found **7**\n\n" in text  # a list of its own
    assert "Of 1 aims of earlier commits 1 were met.\n" in text
    assert summaries.summarised(text, summaries.performance) == text


def test_timings_of_mp_spdz_are_those_that_are_kept() -> None:
    page = mp_spdz_page.PAGE.read_text(encoding="utf-8")
    assert mp_spdz_page.placed(page, load(mp_spdz.KEPT)) == page  # python -m benchmarks.performance.mp_spdz_page


def test_performance_has_nothing_scaled_that_is_kept_as_measured() -> None:
    page, kept = kept_rows.PAGE.read_text(encoding="utf-8"), load(mp_spdz.KEPT)
    assert kept_rows.placed(page, kept) == page  # python -m benchmarks.performance.kept_rows
    known = {cell.identity for cell in kept.cells if cell.values and not cell.scaled_from}
    assert [cell.name for cell in kept_rows.measured(page) if cell.scaled_from and cell.identity in known] == []


def test_applications_say_what_the_experiments_found() -> None:
    texts = [(ROOT / "docs" / f"{name}.md").read_text() for name in ("applications", "experiments", "privacy-results")]
    assert summaries.gains(*texts) == texts[0]  # python -m benchmarks.summaries


def test_picture_of_levels_is_that_of_its_figures() -> None:
    assert_same_picture((ROOT / "docs" / "levels.svg").read_text(), levels_picture.picture())


@pytest.mark.filterwarnings("ignore")  # about fits that are cut short
@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_and_shows_what_it_computes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = notebooks.load(path)
    monkeypatch.chdir(path.parent)
    kept = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, found in zip(kept, notebooks.executed(notebook), strict=True):
        shown, pixels = cell["outputs"], cell["metadata"].get("differs_by_pixels", 1.0)
        assert [o["output_type"] for o in shown] == [o["output_type"] for o in found]
        for a, b in zip(shown, found, strict=True):
            if "image/svg+xml" in a.get("data", {}):
                assert_same_picture(*("".join(o["data"]["image/svg+xml"]) for o in (a, b)), pixels=pixels)
            else:
                assert a == b
    assert path.stat().st_size < 120_000
    assert json.dumps(notebook, indent=1, ensure_ascii=False) + "\n" == path.read_text(encoding="utf-8")
