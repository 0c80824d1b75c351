"""A study as a TOML file: written with comments, from its template; read and checked."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml_spdz.errors import StudyError, did_you_mean
from pdml_spdz.rows.reading import RowSettings
from pdml_spdz.study.algorithm import SUMS
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.fields import typed
from pdml_spdz.study.model import NmfSettings, PartyEntry, PrecisionSettings, Study, Timeouts
from pdml_spdz.study.solvers import SOLVERS
from pdml_spdz.system.files import replaced

if TYPE_CHECKING:
    import jinja2

WAIT = 4 * 3600.0  # seconds that a party of a study waits for people, unless the study says otherwise
TABLES: dict[str, type[Any]] = {
    "timeouts": Timeouts,
    "precision": PrecisionSettings,
    "nmf": NmfSettings,
    "rows": RowSettings,
}


def render(study: Study) -> str:
    """The study as a commented file, with what its algorithm makes use of."""
    spec = study.spec
    names = dict.fromkeys([*ENGINES.lines, study.engine])  # to look for those of other packages takes long
    engines = [engine for engine in map(ENGINES.__getitem__, names) if spec.needs != SUMS or not engine.shares]
    solvers = " ".join(f"{name}: {SOLVERS[name].help}" for name in dict.fromkeys([*SOLVERS.lines, study.solver]))
    own = {"study": study, "spec": spec, "engines": engines, "solvers": solvers, "size": spec.measure}
    return _template().render(**own, written=functools.partial(_written, study))


@functools.cache
def _template() -> jinja2.Template:
    """Compiled once: that takes some hundred times as long as to render it."""
    from pdml_spdz.programs.render import environment  # not by those who only read a study

    env = environment()
    env.filters["toml"] = _toml
    return env.get_template("study.toml.j2")


def _written(study: Study, name: str) -> bool:
    return name not in study.spec.idle or getattr(study, name) != study.usual(name)


def _toml(value: object) -> str:
    """A string or a list: JSON's form is TOML's, but for the DEL sign and characters beyond 16 bits."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def write(path: Path, study: Study) -> None:
    with replaced(path) as temporary:
        temporary.write_text(render(study), encoding="utf-8")


def write_fingerprints(path: Path, fingerprints: Sequence[str]) -> Study:
    """Put the parties' fingerprints into a study file; what else is in it, comments too, stays if that can be."""
    old = load(path)
    entries = zip(old.parties, fingerprints, strict=True)
    study = replace(old, parties=tuple(replace(party, fingerprint=f) for party, f in entries))
    left = iter(fingerprints)
    line = re.compile(r'^(\s*fingerprint\s*=\s*)"[^"\n]*"', re.MULTILINE)
    text = line.sub(lambda found: f'{found[1]}"{next(left, "")}"', path.read_text(encoding="utf-8"))
    if parse(tomllib.loads(text)) == study:
        with replaced(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    else:
        write(path, study)
    return study


def load(path: Path) -> Study:
    """Read and check a study file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"{path} cannot be read ({error.strerror}).", do="`pdml-spdz init` writes one") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, thousands of digits, thousands of brackets
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
    usual = {"timeouts": {"connect": WAIT}}
    tables = {
        name: _build(cls, usual.get(name, {}) | content.get(name, {}), f"[{name}]") for name, cls in TABLES.items()
    }
    rest = {k: v for k, v in content.items() if k not in ("parties", *tables)}
    if "rank" not in rest:
        raise StudyError("the study has no `rank`.", "rank = k, the number of vectors wanted")
    study: Study = _build(Study, rest | tables | {"parties": parties}, "the study")
    return study


def _build(cls: type[Any], content: Mapping[str, Any], where: str) -> Any:
    known = {f.name: f for f in fields(cls)}
    for name in content:
        if name not in known:
            hint = did_you_mean(name, known)
            raise StudyError(f"{where} has an unknown key `{name}`.", f"keys among {', '.join(known)}", hint)
    return cls(**{name: typed(name, str(known[name].type), value, where) for name, value in content.items()})
