"""A study as a TOML file: written with comments, from its template; read and checked."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pdml_spdz.errors import StudyError
from pdml_spdz.storage import replaced
from pdml_spdz.study import NmfSettings, PartyEntry, PrecisionSettings, Study, Timeouts
from pdml_spdz.template_files import environment

TABLES: dict[str, type[Any]] = {"timeouts": Timeouts, "precision": PrecisionSettings, "nmf": NmfSettings}


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


def load(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"{path} cannot be read ({error.strerror}).", do="`pdml-spdz init` writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} is not valid TOML: {error}.", do="`pdml-spdz init` writes a commented one") from None
    return parse(content)


def parse(content: Mapping[str, Any]) -> Study:
    """A Study from the tables of a TOML file."""
    entries = content.get("parties", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise StudyError("`parties` is not a list of tables.", "one [[parties]] table for each party")
    for name in TABLES:
        if not isinstance(content.get(name, {}), dict):
            raise StudyError(f"`{name}` is not a table.", f"a [{name}] table")
    parties = tuple(_build(PartyEntry, entry, f"[[parties]] number {i}") for i, entry in enumerate(entries))
    tables = {name: _build(cls, content.get(name, {}), f"[{name}]") for name, cls in TABLES.items()}
    rest = {k: v for k, v in content.items() if k not in ("parties", *tables)}
    if "rank" not in rest:
        raise StudyError("the study has no `rank`.", "rank = k, the number of vectors wanted")
    study: Study = _build(Study, rest | tables | {"parties": parties}, "the study")
    return study


def _build(cls: type[Any], content: Mapping[str, Any], where: str) -> Any:
    known = {f.name: f for f in fields(cls)}
    for name in content:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean `{near[0]}`?" if near else ""
            raise StudyError(f"{where} has an unknown key `{name}`.", f"keys among {', '.join(known)}", hint)
    return cls(**{name: _cast(name, str(known[name].type), value, where) for name, value in content.items()})


def _cast(name: str, kind: str, value: Any, where: str) -> Any:
    """TOML's value as the field's type: whole numbers do for floats, numbers do for `bound` and `aggregator`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "float" and number:
        return float(value)
    if kind == "str" and (isinstance(value, str) or (number and name in ("bound", "aggregator"))):
        return str(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind in ("int", "int | None") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind == "tuple[str, ...]" and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if kind == "tuple[float, ...]" and isinstance(value, list | tuple) and all(type(v) in (int, float) for v in value):
        return tuple(float(v) for v in value)
    if name == "parties" or name in TABLES:
        return value
    raise StudyError(f"`{name}` in {where} is {value!r}.", f"a value of type {kind}")
