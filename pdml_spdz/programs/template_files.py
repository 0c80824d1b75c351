"""Where templates are and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2


def template_directory() -> Path:
    """templates/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


def environment() -> jinja2.Environment:
    """A missing value is an error, never an empty string."""
    import jinja2  # not by those who only read a study

    return jinja2.Environment(  # noqa: S701 - the output is TOML and MPC programs, not HTML
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
