"""Every page that the project makes, in a real browser: no error, nothing fetched, readable on a telephone.

One headless Chromium for all of them, where the system has one.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from tests.browser.devtools import Chromium, browser

ROOT = Path(__file__).parents[2]
LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
NARROW, USUAL = 400, 1200

# What a person could not read: text whose colour is too near to what is behind it. Of SVG the fill is the colour, of
# everything else the background is that of the nearest element behind that has one; half transparent ones are mixed.
TEXT_OF_LOW_CONTRAST = """
(() => {
  const channel = c => (c /= 255, c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const seen = new Map();
  const rgba = colour => {
    if (!seen.has(colour)) {
      pen.clearRect(0, 0, 1, 1); pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      seen.set(colour, [r, g, b, a / 255]);
    }
    return seen.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const page = matchMedia('(prefers-color-scheme: dark)').matches
    && getComputedStyle(document.documentElement).colorScheme.includes('dark') ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const known = new Map();
  const behind = e => {
    if (!e || e.nodeType !== 1) return page;
    if (!known.has(e)) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      known.set(e, c[3] === 1 ? c : c[3] > 0 ? over(c, behind(e.parentElement)) : behind(e.parentElement));
    }
    return known.get(e);
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.textContent.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'title'].includes(e.tagName)) continue;
    if (!e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const back = behind(e);
    const front = over(rgba(e.namespaceURI.endsWith('svg') ? style.fill : style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < LEAST) bad.push(contrast.toFixed(2) + ' ' + e.tagName + '.' + e.getAttribute('class') + ': '
      + node.textContent.trim().slice(0, 40));
  }
  return [...new Set(bad)];
})()
""".replace("LEAST", str(LEAST_CONTRAST))

# Pictures that nothing is read out for. Decoration says so.
PICTURES_WITHOUT_TEXT = """
[...document.querySelectorAll('img, svg, canvas, [role=img]')]
  .filter(e => !e.closest('[aria-hidden=true], [role=img] svg, svg svg, button, label, a'))
  .filter(e => e.checkVisibility() && !(e.getAttribute('alt') || e.getAttribute('aria-label') || '').trim()
    && !(e.querySelector && e.querySelector(':scope > title')))
  .map(e => e.outerHTML.slice(0, 120))
"""

# What hangs out to the right, beyond the window; a box that scrolls by itself may be as wide as it likes.
SIDEWAYS = """
(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width && document.body.scrollWidth <= width) return [];
  return [document.documentElement.scrollWidth + ' > ' + width].concat([...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > width + 1).slice(0, 5).map(e => e.outerHTML.slice(0, 100)));
})()
"""


def found_by(chromium: Chromium, address: str, width: int, *, dark: bool = False) -> dict[str, Any]:
    """What is wrong with a page; nothing that is wrong is left out."""
    chromium.open(address, width, dark=dark)
    chromium.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wrong = {
        "contrast": chromium.evaluate(TEXT_OF_LOW_CONTRAST),
        "pictures": chromium.evaluate(PICTURES_WITHOUT_TEXT),
        "sideways": chromium.evaluate(SIDEWAYS) if width == NARROW else [],
        "errors": [],
        "outside": [],
    }
    for event in chromium.events:
        method, of = event["method"], event.get("params", {})
        is_error = (method == "Runtime.consoleAPICalled" and of["type"] in ("error", "assert")) or (
            method == "Log.entryAdded" and of["entry"]["level"] == "error"
        )
        if method == "Runtime.exceptionThrown" or is_error:
            wrong["errors"].append(str(of)[:300])
        if method == "Network.requestWillBeSent" and not of["request"]["url"].startswith(("file:", "data:", "blob:")):
            wrong["outside"].append(of["request"]["url"])
    return {what: list(found) for what, found in wrong.items() if found}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    program = browser()
    if program is None:
        pytest.skip("no Chromium is installed (on Debian: apt-get install chromium)")
    running = Chromium(program, tmp_path_factory.mktemp("profile"))
    try:
        yield running
    finally:
        running.close()


def call(*arguments: object) -> None:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output


RUNS: dict[str, dict[str, Any]] = {
    "svd": {"engine": "secsum", "tol": 1e-6},
    "pca": {"engine": "secsum", "tol": 1e-6, "variance": True},
    "nmf": {"iterations": 5},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """result.html of svd, of pca with a party's rows, and of nmf; privacy.html before a run, and of a recorded one."""
    out = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    names = ["age", "weight", "a name that is longer than most of the others are", "d", "e"]
    files = [out / f"{name}.csv" for name in "abc"]
    for file in files:
        X = rng.gamma(2.0, size=(40, len(names))) * [16.0, 8.0, 4.0, 2.0, 1.0]
        file.write_text("\n".join([",".join(names), *(",".join(f"{x:.3f}" for x in row) for row in X)]))
    for algorithm, settings in RUNS.items():
        study = local_study(3, algorithm=algorithm, rank=2, **settings)
        run = LocalRun(files, study, out / algorithm, transport="threads", record_transcript=algorithm == "pca")
        run_local(run)
    call("page", out / "pca" / "party-0", "--rows", files[0])
    measured = ["--documents", 3, "--samples", 8, "--jobs", 1, "--seed", 1]
    call("privacy", "assess", files[0], "--algorithm", "pca", "--rank", 2, *measured, "--out", out / "assess")
    call("privacy", "attack", out / "pca", "--own", files[1], "--own", files[2], "--honest", files[0])
    call("privacy", "report", out / "pca")
    return {
        "svd": out / "svd" / "result.html",
        "pca": out / "pca" / "result.html",
        "pca with rows": out / "pca" / "party-0" / "result.html",
        "nmf": out / "nmf" / "result.html",
        "privacy before a run": out / "assess" / "privacy.html",
        "privacy of a run": out / "pca" / "privacy.html",
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The pages of the documentation: those of `make docs` if nothing has changed since, otherwise built anew."""
    built = ROOT / "build" / "site"
    sources = [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*"), *(ROOT / "pdml_spdz").rglob("*.py")]
    if (built / "index.html").is_file():
        since = (built / "index.html").stat().st_mtime
        if all(path.stat().st_mtime < since for path in sources):
            return _for_readers(built)
    missing = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"the documentation is not built here: {', '.join(missing)} missing (pip install '.[docs]')")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(out)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return _for_readers(out)


def _for_readers(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")  # which only a server can show


def test_pages_of_runs_are_readable_and_fetch_nothing(chromium: Chromium, pages: dict[str, Path]) -> None:
    for name, path in pages.items():
        for width in (NARROW, USUAL):
            assert found_by(chromium, path.as_uri(), width) == {}, (name, width)
            assert chromium.evaluate("document.querySelector('h1').innerText.length > 5"), name


def test_pages_of_the_documentation_are_readable_and_fetch_nothing(chromium: Chromium, site: list[Path]) -> None:
    assert len(site) > 10
    wrong = {}
    for path in site:
        # Light and dark are the theme's: a few pages have all kinds of text.
        for width, dark in ((NARROW, False), *([(USUAL, True)] if path.stem in ("index", "security", "api") else [])):
            if found := found_by(chromium, path.as_uri(), width, dark=dark):
                wrong[f"{path.name} {width}"] = found
            scheme = chromium.evaluate("document.body.dataset.mdColorScheme")
            assert scheme == ("slate" if dark else "default")
    assert wrong == {}


# What a reader does, again until there is an answer: the page may still be starting.
FOUND_BY_SEARCH = """
new Promise(done => {
  document.querySelector('#__search').click();
  const field = document.querySelector('.md-search__input');
  field.focus();
  field.value = 'sealed';
  const look = () => {
    field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
    const found = [...document.querySelectorAll('.md-search-result__item a')].map(a => a.href);
    found.length ? done(found) : setTimeout(look, 50);
  };
  look();
})
"""


def test_search_works_in_pages_that_are_opened_as_files(chromium: Chromium, site: list[Path]) -> None:
    index = next(path for path in site if path.name == "index.html")
    chromium.open(index.as_uri(), USUAL)
    found = chromium.evaluate(FOUND_BY_SEARCH)
    assert any("security.html" in address for address in found)
    requested = [e["params"]["request"]["url"] for e in chromium.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


BROKEN = {
    "errors": "<script>console.error('no')</script>",
    "outside": '<link rel="stylesheet" href="http://192.0.2.1/x.css">',
    "sideways": '<p style="width: 500px">wide</p>',
    "contrast": '<div style="background: #777"><p style="color: #aaa">pale</p></div>',
    "pictures": '<svg width="10" height="10"></svg>',
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(chromium: Chromium, tmp_path: Path, what: str) -> None:
    page = "<!DOCTYPE html><html><head><meta name='viewport' content='width=device-width'></head><body>{}</body></html>"
    (tmp_path / "page.html").write_text(page.format("<h1>good</h1>"))
    assert found_by(chromium, (tmp_path / "page.html").as_uri(), NARROW) == {}
    (tmp_path / "page.html").write_text(page.format(BROKEN[what]))
    found = found_by(chromium, (tmp_path / "page.html").as_uri(), NARROW)
    assert what in found
    assert set(found) <= {what, "errors"}  # what cannot be fetched is an error, too
