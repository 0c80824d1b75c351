"""Links between pages lead to files and headings that are there; pictures have a text. Without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, links, tokens

EVERY = [*PAGES, ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", EVERY, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in links(page):
        file, _, anchor = target.partition("#")
        if target.startswith(("https://", "mailto:")):
            continue
        where = page.parent / file if file else page
        assert where.exists(), target
        # Anchors of the reference are made from docstrings; tests/docs/test_site.py has them.
        assert not anchor or anchor in anchors(where) or where.name == "api.md", target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pictures_say_in_words_what_they_show(page: Path) -> None:
    for token in tokens(page):
        if token.type == "image":
            assert len(token.content.split()) >= 3, token.attrs["src"]


def test_every_page_is_in_the_sites_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f" {page.name}\n" in menu, page.name
