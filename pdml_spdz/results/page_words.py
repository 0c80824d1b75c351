"""Words on pages: what every party has seen of a run, for people who do not know the protocol's letters; and code."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING

from pdml_spdz.programs.render import template_directory

if TYPE_CHECKING:
    from markupsafe import Markup


def in_words(observable: str) -> str:
    """The protocol's own words where they need no others."""
    says = next((says for begins, says in _words() if observable.startswith(begins)), observable)
    return says.removesuffix(", to every party")


@cache
def _words() -> list[tuple[str, str]]:
    content = tomllib.loads((template_directory() / "seen.toml").read_text(encoding="utf-8"))
    return [(entry["begins"], entry["says"]) for entry in content["seen"]]


def with_code(text: str) -> Markup:
    """Words between backticks as code, everything else as text."""
    from markupsafe import Markup, escape  # with Jinja, which is loaded for a page only

    parts = [escape(part) for part in text.split("`")]
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
