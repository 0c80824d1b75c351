"""pdml-spdz project, reconstruct, page: one's own rows in the components of a finished run. Nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from pdml_spdz.applications.finished import FinishedRun, as_written
from pdml_spdz.cli import sections
from pdml_spdz.cli.options import ROWS_ARGUMENT, RUN_ARGUMENT, options
from pdml_spdz.cli.row_options import READING, reading_of
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import InputError
from pdml_spdz.results import result_page as pages
from pdml_spdz.results.pictures import biplot
from pdml_spdz.results.sheets import write_table
from pdml_spdz.rows.reading import Reading
from pdml_spdz.study.algorithm import PAGE

DOTS = 2000  # rows that a biplot shows
_path = click.Path(path_type=Path)


@sections.command()
@RUN_ARGUMENT
@ROWS_ARGUMENT
@click.option("--out", type=_path, default=Path("scores.csv"), show_default=True, help="The CSV file to write.")
@options(READING)
def project(run: Path, rows: Path, out: Path, **given: Any) -> None:
    """Write the coordinates of ROWS in the components of a finished RUN, one line for each row. Nothing is sent.

    Rows are shifted and scaled as those of the run were: by its offsets, scales and open mean. With a hidden mean all
    coordinates of a component are off by one constant. With nmf they are the weights of the topics.

    \b
    Examples:
      pdml-spdz pca a.csv b.csv --rank 2 --out runs/mine
      pdml-spdz project runs/mine a.csv --out scores.csv
    """
    finished = FinishedRun.load(run)
    data = finished.read(rows, reading_of(given))
    scores = finished.project(data)
    write_table(out, ["id", *finished.loadings.labels], data.names(), scores, private=True)
    echo(f"wrote {out}: {scores.shape[0]:,} rows, {scores.shape[1]} coordinates each")


@sections.command()
@RUN_ARGUMENT
@ROWS_ARGUMENT
@click.option("--out", type=_path, default=Path("reconstructed.csv"), show_default=True, help="The CSV file to write.")
@options(READING)
def reconstruct(run: Path, rows: Path, out: Path, **given: Any) -> None:
    """Write ROWS as the components of a finished RUN have them, in their own units, and how far that is off.

    \b
    Examples:
      pdml-spdz pca a.csv b.csv --rank 2 --out runs/mine
      pdml-spdz reconstruct runs/mine a.csv --out approximated.csv
    """
    finished = FinishedRun.load(run)
    data = finished.read(rows, reading_of(given))
    found = finished.reconstruct(finished.project(data))
    write_table(out, ["id", *finished.loadings.names], data.names(), found, private=True)
    shift = 0.0 if finished.shift is None else finished.shift
    exact = finished.rows(data).dense()
    whole = float(np.linalg.norm(exact - shift)) or 1.0
    missed = float(np.linalg.norm(exact - found))
    around = "" if finished.shift is None else " around what was taken off them"
    echo(f"wrote {out}: {len(found):,} rows; off by {missed / whole:.4f} of their size{around}")


@sections.command()
@RUN_ARGUMENT
@click.option("--rows", type=_path, metavar="FILE", help="Also draw these rows of one's own: a biplot.")
@options(READING)
def page(run: Path, rows: Path | None, **given: Any) -> None:
    """Write the page of a finished RUN, result.html, again; with --rows, with a biplot of one's own rows.

    Every run writes such a page. With --rows it is for its owner only: it shows single rows, though not their names.

    \b
    Examples:
      pdml-spdz pca a.csv b.csv --rank 2 --out runs/mine
      pdml-spdz page runs/mine/party-0 --rows a.csv
    """
    finished = FinishedRun.load(run)
    with as_written(finished.directory):
        _write_page(finished, rows, reading_of(given))
    echo(f"wrote {finished.directory / PAGE}")


def _write_page(finished: FinishedRun, rows: Path | None, reading: Reading) -> None:
    pictures = []
    if rows is not None:
        if finished.result.ndim < 2 or finished.loadings.values.shape[1] < 2:
            raise InputError(f"{finished.directory} has one component.", "two or more, for a biplot")
        scores = finished.project(finished.read(rows, reading))[:, :2]
        kept = np.linspace(0, len(scores) - 1, min(len(scores), DOTS)).astype(int)
        chosen = scores[kept] - (scores.mean(axis=0) if finished.shift is None else 0.0)
        loadings = finished.loadings
        title = f"{len(kept):,} of {len(scores):,} rows of {rows.name}"
        pictures = [biplot(title, chosen, loadings.names, loadings.values[:, :2], loadings.labels[:2])]
    own = finished.report["party_id"] is not None or rows is not None
    pages.write(finished.directory, finished.report, finished.result, private=own, pictures=pictures)
