"""pdml-spdz ALGORITHM FILES...: a fit with one local process for each file. A command for each algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

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
)
from pdml_spdz.cli.run import run_and_show
from pdml_spdz.cli.show import Screen
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
        run_and_show(files, settings, reference, Screen(stderr=given["as_json"]))

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
