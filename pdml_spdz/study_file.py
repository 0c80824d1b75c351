"""Writes a study as a commented TOML file, from its template."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2

from pdml_spdz.storage import replaced
from pdml_spdz.study import Study


def template_directory() -> Path:
    """templates/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


def environment() -> jinja2.Environment:
    """A missing value is an error, never an empty string."""
    return jinja2.Environment(  # noqa: S701 - the output is TOML and MPC programs, not HTML
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(study: Study) -> str:
    env = environment()
    env.filters["toml"] = _toml
    return env.get_template("study.toml.j2").render(study=study)


def _toml(value: object) -> str:
    """A string or list of strings: JSON's form is TOML's, but for the DEL sign and characters beyond 16 bits."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def write(path: Path, study: Study) -> None:
    with replaced(path) as temporary:
        temporary.write_text(render(study), encoding="utf-8")
