"""What every party has seen of a run, in words for people who do not know the protocol's letters."""

from __future__ import annotations

import tomllib
from functools import cache

from pdml_spdz.programs.render import template_directory


def in_words(observable: str) -> str:
    """The protocol's own words where they need no others."""
    says = next((says for begins, says in _words() if observable.startswith(begins)), observable)
    return says.removesuffix(", to every party")


@cache
def _words() -> list[tuple[str, str]]:
    content = tomllib.loads((template_directory() / "seen.toml").read_text(encoding="utf-8"))
    return [(entry["begins"], entry["says"]) for entry in content["seen"]]
