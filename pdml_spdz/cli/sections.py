"""Help that can be read: the options of a command in groups, the same groups for all commands.

Libraries for this exist; importing the smaller one takes longer than all of `pdml-spdz --help` may.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pdml_spdz.errors import InputError

SECTIONS = {
    "Privacy": (
        "reveal ratios accuracy_goal decay block engine protocol centre variance bound objective record_transcript "
        "insecure_benchmark exclude"
    ),
    "Rows": (
        "columns offset scale chosen dropped encoded missing features_from id_column sep decimal encoding triplets "
        "dask dask_certs dask_plaintext d dim"
    ),
    "Precision": "iterations tol bits range_ memory",
    "Network": "connect_timeout timeout aggregator listen certs certificates directory at seconds port",
    "Expert": (
        "solver normalise online offline vole program seed stock mp_spdz home init init_iterations w_start weighted "
        "paper_order alpha beta gamma delta"
    ),
}
COMMON = "Options"
WRITTEN = "out", "words", "json_file"
ROWS = "rows", "test"  # which may be directories
FEW = 8  # options that need no groups
OF = {name: section for section, names in SECTIONS.items() for name in names.split()}


class SectionedCommand(click.Command):
    """A command whose options are shown in groups: the common ones first, then by what they are about; and which does
    not write over what it reads.
    """

    def invoke(self, ctx: click.Context) -> Any:
        written = [Path(os.path.realpath(path)) for name in WRITTEN if (path := ctx.params.get(name))]
        for name, value in ctx.params.items():
            for given in value if isinstance(value, tuple) else (value,):
                if name in WRITTEN or not isinstance(given, Path | str):
                    continue
                path = Path(given.rpartition("=")[2] if isinstance(given, str) else given)  # of a party: I=FILE
                if isinstance(given, str) and not _is_file(path):
                    continue  # no path, but a word
                place = Path(os.path.realpath(path))
                inside = [out for out in written if given and place in out.parents]
                if place in written or (name in ROWS and inside) or (path.is_dir() and any(map(_of_a_run, inside))):
                    raise InputError(f"what is to be written is {path} or in it, which is read.", "another file")
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        records = [(p.name or "", record) for p in shown if (record := p.get_help_record(ctx))]
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in (COMMON, *SECTIONS)}
        for name, record in records:
            sections[OF.get(name, COMMON) if len(records) > FEW else COMMON].append(record)
        for section, lines in sections.items():
            if lines:
                with formatter.section(section):
                    formatter.write_dl(lines)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a name
        return False


def _of_a_run(path: Path) -> bool:
    """Whether it is there, and a file that runs have; a page may be made again."""
    from pdml_spdz.study.algorithm import ALGORITHMS, PAGE

    names = {"report.json", *(name for algorithm in ALGORITHMS.names() for name in ALGORITHMS[algorithm].files)}
    return path.name in names - {PAGE} and path.is_file()


class SectionedGroup(click.Group):
    """A group of such commands."""

    command_class = SectionedCommand


def command(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    return click.command(name, cls=SectionedCommand, **settings)


def group(name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], click.Group]:
    return click.group(name, cls=SectionedGroup, **settings)
