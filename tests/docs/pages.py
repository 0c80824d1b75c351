"""What stands in the pages: blocks, commands, links and headings, as a reader of Markdown sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(ROOT.glob("*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
FIRST_WORDS = ("pdml-spdz", "make", "python", "python3", "pip", "useradd", "docker", "ssh")


@dataclass(frozen=True)
class Block:
    """Fenced or indented lines; kind : what stands behind the fence"""

    page: Path
    kind: str
    text: str


@cache
def tokens(page: Path) -> list[Token]:
    """All of them, those inside of lines too, in their order."""

    def walk(some: Iterable[Token]) -> Iterator[Token]:
        for token in some:
            yield token
            yield from walk(token.children or ())

    return list(walk(MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))))


def blocks(page: Path) -> list[Block]:
    return [Block(page, t.info.strip(), t.content) for t in tokens(page) if t.type in ("fence", "code_block")]


def commands(page: Path) -> list[str]:
    """Every command line that a reader could type: `typed`, and whatever stands in `backquotes` in a sentence."""
    return [*typed(page), *filter(command_word, [t.content for t in tokens(page) if t.type == "code_inline"])]


def typed(page: Path) -> list[str]:
    """Those of blocks, without comments, and with lines joined that end in a backslash."""
    lines = [line for b in blocks(page) if b.kind in ("", "sh") for line in b.text.replace("\\\n", " ").splitlines()]
    return [line for line in (re.split(r"\s+# ", line)[0].strip() for line in lines) if command_word(line)]


def command_word(line: str) -> str:
    """The command that a line begins with, after variables that are set for it; "" if it is none of ours."""
    found = re.match(r"(?:[A-Z_]+=\S+ )*(\S+) \S", line)
    return found[1] if found and found[1] in FIRST_WORDS else ""


def links(page: Path) -> list[str]:
    """Targets of links and pictures."""
    found = [t.attrs.get("href") or t.attrs.get("src") for t in tokens(page) if t.type in ("link_open", "image")]
    return [str(target) for target in found if target]


def anchors(page: Path) -> set[str]:
    """What a link can point to in a page: its headings, as both GitHub and the site name them."""
    all_tokens = tokens(page)
    heads = [all_tokens[i + 1].content for i, t in enumerate(all_tokens) if t.type == "heading_open"]
    return {slug(head) for head in heads} | set(re.findall(r'(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8")))


def slug(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[-\s]+", "-", words)
