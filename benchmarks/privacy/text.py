"""Tables of a page, and the words that stand in files beside this one."""

from __future__ import annotations

from pathlib import Path


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def words(name: str) -> str:
    """What there is to be said, from the file beside this one."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")


def percent(share: str) -> str:
    return f"{100 * float(share):g} %"
