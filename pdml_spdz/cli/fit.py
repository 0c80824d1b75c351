"""pdml-spdz ALGORITHM FILES...: a fit with one local process for each file. A command for each algorithm."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from pathlib import Path
from typing import Any

import click

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import (
    CENTRE,
    COMMON,
    ENGINE,
    FACTORISATION,
    HOME,
    LOCAL,
    NMF,
    SCALING,
    STOCK,
    VARIANCE,
    Option,
    options,
    rank,
    stopping,
    study_settings,
)
from pdml_spdz.cli.row_options import DASK, READING, ROWS, reading_of, row_settings
from pdml_spdz.cli.show import Screen, Watcher, show_result
from pdml_spdz.cli.words import echo, resumable, say_what_is_revealed
from pdml_spdz.local.joint import LocalRun, local_study, run_local
from pdml_spdz.study.algorithm import ALGORITHMS, SUMS, Algorithm
from pdml_spdz.study.model import NmfSettings

_NMF = tuple(NmfSettings.__dataclass_fields__)
RUN = ("resume", "force", "stock", "mp_spdz", "record_transcript")


def command(name: str) -> click.Command:
    """The command of an algorithm, with the options that it makes use of."""
    spec = ALGORITHMS[name]

    def fit(files: tuple[Path, ...], out: Path | None, as_json: bool, compare: bool = True, **given: Any) -> None:
        if "nmf" in spec.own:
            given["nmf"] = NmfSettings(**{setting: given.pop(setting) for setting in _NMF})
        of_all = spec.reference
        reference = (lambda result: of_all(result, list(files))) if compare and of_all is not None else None
        local = {name: given.pop(name) for name in RUN if name in given}
        local["reading"] = reading = reading_of(given)
        if not reading.id_column and len(files) > 1 and any("=" not in text for text in reading.exclude):
            raise click.UsageError("--exclude names rows by number: say whose they are, --exclude I=FILE for party I.")
        given |= row_settings(given, local["reading"])
        settings = {"algorithm": spec.name} | dict(spec.defaults) | given
        study, console = local_study(len(files), **study_settings(settings)), Screen(stderr=as_json)
        out = out or _new_directory(study.algorithm)
        say_what_is_revealed(study, err=as_json)
        with resumable(out), Watcher(console) as watcher:
            result = run_local(LocalRun(files, study, out, notify=watcher, **local), reference)
        if as_json:
            echo(json.dumps(result.report))
        else:
            show_result(console, result.report, result.party_reports, out)

    fit.__doc__ = spec.help
    argument = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
    text = f"Directory for results [default: runs/{name}-<time>]."
    directory = click.option("--out", type=click.Path(path_type=Path), help=text)
    material = [] if spec.needs == SUMS else [STOCK, HOME]
    last = [[] if spec.vector else _going_on(spec), material, LOCAL]
    decorate = options([argument], _own(spec), ROWS, READING, DASK, [directory], *last)
    return sections.command(name)(decorate(fit))


def _new_directory(name: str) -> Path:
    """By the time; runs that begin in the same second have a number, too."""
    usual = Path("runs") / f"{name}-{dt.datetime.now():%Y%m%d-%H%M%S}"
    others = (usual.with_name(f"{usual.name}-{i}") for i in itertools.count(2))
    return next(path for path in (usual, *itertools.islice(others, 1000)) if not path.exists())


def _own(spec: Algorithm) -> list[Option]:
    if spec.vector:
        return ENGINE
    first = [rank(spec.unit), *stopping(spec)]
    if "nmf" in spec.own:
        return [*first, *NMF, *SCALING[1:], *COMMON]  # rows less an offset have negative entries
    return [*first, *([*CENTRE, VARIANCE] if "centre" in spec.own else []), *FACTORISATION, *SCALING]


def _going_on(spec: Algorithm) -> list[Option]:
    resume = click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out.")
    if spec.reference is None:
        return [resume]
    text = "Compare with the same of the pooled files."
    return [resume, click.option("--accuracy/--no-accuracy", "compare", default=True, show_default=True, help=text)]
