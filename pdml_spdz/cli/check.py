"""pdml-spdz check: files read as a run would read them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import options
from pdml_spdz.cli.row_options import DASK, READING, ROWS, reading_of, row_settings
from pdml_spdz.cli.show import Screen
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import StudyError, by_name
from pdml_spdz.fits.examine import Examined, compare_names, examine
from pdml_spdz.study.file import load

COLOURS = {"ok": "green", "note": "yellow", "problem": "red"}


@sections.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--study", "study_file", type=click.Path(path_type=Path), help="Check against this study, too.")
@click.option("--id", "me", type=click.IntRange(0), help="Which party of the study FILE is of: its quota.")
@options(ROWS, READING, DASK)
@click.option("--columns-table", is_flag=True, help="A line for each column.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output on standard output.")
def check(
    files: tuple[Path, ...], study_file: Path | None, me: int | None, columns_table: bool, as_json: bool, **given: Any
) -> None:
    """Read FILES as a run would, without a network: what is in them, and what is wrong.

    Several files are several parties': their names are compared. The exit code is that of the first problem; 0 where
    there are only notes.

    \b
    Examples:
      pdml-spdz check rows.csv
      pdml-spdz check a.csv b.csv c.csv --drop name --missing drop-rows
      pdml-spdz check rows.csv --study study.toml --id 1 --json | jq '.[0].findings'
    """
    reading = reading_of(given)
    settings = row_settings(given, reading)
    study = None if study_file is None else load(study_file)
    if study is not None and me is not None and me >= study.M:
        raise StudyError(f"--id is {me} and the study has {study.M} parties.", f"a number from 0 to {study.M - 1}")
    found = [examine(path, reading, settings["rows"], study, me) for path in files]
    compare_names(found, by_position=study is not None and study.columns == "position")
    if as_json:
        echo(json.dumps([one.as_json() for one in found]))
    else:
        for one in found:
            _show(one, columns_table)
    problem = next((one.problem for one in found if one.problem), None)
    sys.exit(by_name(problem.error).code if problem else 0)


def _show(one: Examined, every: bool) -> None:
    screen, table = Screen(), Table(box=None, show_header=False, title=escape(one.file), title_justify="left")
    for f in one.findings:
        table.add_row(f"[{COLOURS[f.level]}]{f.level}[/]", escape(f.what), escape(f.found))
    screen.print(table)
    if every and one.columns:
        facts = Table("column", "kind", "missing", "least", "largest")
        for c in one.columns:
            ends = ("" if end is None else f"{end:.6g}" for end in (c.least, c.largest))
            facts.add_row(escape(c.name), c.kind, f"{c.missing:,}", *ends)
        screen.print(facts)
