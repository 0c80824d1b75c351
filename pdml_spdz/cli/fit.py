"""pdml-spdz ALGORITHM FILES...: a fit with one local process for each file. A command for each algorithm."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pdml_spdz.cli.options import (
    CENTRE,
    COMMON,
    ENGINE,
    FACTORISATION,
    LOCAL,
    NMF,
    SCALING,
    VARIANCE,
    Option,
    options,
    rank,
    stopping,
    study_settings,
)
from pdml_spdz.cli.show import Watcher, show_result
from pdml_spdz.local.joint import Compare, LocalRun, local_study, run_local
from pdml_spdz.study.algorithm import ALGORITHMS, Algorithm
from pdml_spdz.study.model import NmfSettings

_NMF = tuple(NmfSettings.__dataclass_fields__)


def command(name: str) -> click.Command:
    """The command of an algorithm, with the options that it makes use of."""
    spec = ALGORITHMS[name]

    def fit(files: tuple[Path, ...], compare: bool = True, **given: Any) -> None:
        if "nmf" in spec.own:
            given["nmf"] = NmfSettings(**{setting: given.pop(setting) for setting in _NMF})
        of_all = spec.reference
        reference = (lambda result: of_all(result, list(files))) if compare and of_all is not None else None
        settings = {"algorithm": spec.name} | dict(spec.defaults) | given
        run_and_show(files, settings, reference, Console(stderr=given["as_json"]))

    fit.__doc__ = spec.help
    argument = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
    out = click.option(
        "--out", type=click.Path(path_type=Path), help=f"Directory for results [default: runs/{name}-<time>]."
    )
    decorate = options([argument], _own(spec), [out], [] if spec.vector else _going_on(spec), LOCAL)
    return click.command(name)(decorate(fit))


def _own(spec: Algorithm) -> list[Option]:
    if spec.vector:
        return ENGINE
    if "nmf" in spec.own:
        stop = stopping(spec.defaults, "Stop when no topic changes by more in a sweep (l1).")
        return [rank(spec.unit), *stop, *NMF, *SCALING[1:], *COMMON]  # rows less an offset have negative entries
    centring = [*CENTRE, VARIANCE] if "centre" in spec.own else []
    return [rank(spec.unit), *centring, *stopping(spec.defaults), *FACTORISATION, *SCALING]


def _going_on(spec: Algorithm) -> list[Option]:
    resume = click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out.")
    if spec.reference is None:
        return [resume]
    text = "Compare with the same of the pooled files."
    return [resume, click.option("--accuracy/--no-accuracy", "compare", default=True, show_default=True, help=text)]


def run_and_show(
    files: Sequence[Path],
    given: dict[str, Any],
    compare: Compare | None,
    console: Console,
) -> None:
    """Run one local party for each file, compare the result with the pooled one, show or print the report."""
    given = dict(given)
    names = ("out", "resume", "force", "stock", "mp_spdz", "record_transcript", "as_json")
    local = {name: given.pop(name, None) for name in names}
    study = local_study(len(files), **study_settings(given))
    out = local["out"] or Path("runs") / f"{study.algorithm}-{dt.datetime.now():%Y%m%d-%H%M%S}"
    with Watcher(console) as watcher:
        result = run_local(
            LocalRun(
                files,
                study,
                out,
                bool(local["resume"]),
                bool(local["force"]),
                local["stock"],
                watcher,
                mp_spdz=local["mp_spdz"],
                record_transcript=bool(local["record_transcript"]),
            ),
            compare,
        )
    report = result.report
    if local["as_json"]:
        click.echo(json.dumps(report))
    else:
        show_result(console, report, result.party_reports, out)
