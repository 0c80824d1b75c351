"""Writes a study as a commented TOML file, from its template."""

from __future__ import annotations

import json
from pathlib import Path

from pdml_spdz.storage import replaced
from pdml_spdz.study import Study
from pdml_spdz.template_files import environment


def render(study: Study) -> str:
    env = environment()
    env.filters["toml"] = _toml
    return env.get_template("study.toml.j2").render(study=study)


def _toml(value: object) -> str:
    """A string or a list: JSON's form is TOML's, but for the DEL sign and characters beyond 16 bits."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def write(path: Path, study: Study) -> None:
    with replaced(path) as temporary:
        temporary.write_text(render(study), encoding="utf-8")
