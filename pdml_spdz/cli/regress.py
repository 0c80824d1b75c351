"""pdml-spdz regress: principal component regression, each party's own or all parties' together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from pdml_spdz.applications import regression
from pdml_spdz.applications.finished import FinishedRun
from pdml_spdz.applications.joint_regression import SEEN, regress_jointly
from pdml_spdz.applications.regression import Regression, Scales
from pdml_spdz.cli import sections
from pdml_spdz.cli.options import ROWS_ARGUMENT, RUN_ARGUMENT, address, options
from pdml_spdz.cli.row_options import READING, reading_of
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import InputError, did_you_mean
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.results.sheets import write_table
from pdml_spdz.rows.base import Rows
from pdml_spdz.rows.reading import Reading
from pdml_spdz.run.context import PartyRun
from pdml_spdz.study.file import load

_path = click.Path(path_type=Path)


@sections.command()
@RUN_ARGUMENT
@ROWS_ARGUMENT
@click.option("--target", required=True, metavar="COLUMN", help="The column of ROWS to be predicted; not one of RUN's.")
@click.option("--test", type=_path, metavar="ROWS", help="Rows with the same columns, to measure the error on.")
@click.option("--out", type=_path, help="Write the coefficient of each feature, and the intercept, as CSV.")
@click.option("--joint", "study_file", type=_path, metavar="STUDY", help="All parties of STUDY together: shows sums.")
@click.option("--id", "me", type=click.IntRange(0), help="Which party of STUDY this is.")
@click.option("--longest-row", type=float, metavar="R", help="Joint, agreed: no row of coordinates is longer.")
@click.option("--largest-target", type=float, metavar="Y", help="Joint, agreed: no target is larger in size.")
@click.option("--most-rows", type=click.IntRange(1), metavar="N", help="Joint, agreed: no party has more rows.")
@click.option("--certs", type=_path, help="Joint: key and certificates [default: certs/ beside STUDY].")
@click.option("--listen", callback=address, metavar="HOST:PORT", help="Joint: listen here, not at STUDY's address.")
@options(READING)
def regress(
    run: Path,
    rows: Path,
    target: str,
    test: Path | None,
    out: Path | None,
    study_file: Path | None,
    me: int | None,
    longest_row: float | None,
    largest_target: float | None,
    most_rows: int | None,
    certs: Path | None,
    listen: tuple[str, int] | None,
    **given: Any,
) -> None:
    """Predict a column from the components of a finished RUN (pca, svd).

    Principal component regression. By itself it is each party's own, on its own ROWS in the common components: nothing
    is sent. With --joint all parties of STUDY fit one regression, and every party sees the second moments of all rows'
    coordinates, their products with the target, the target's sum and the number of all rows. What --longest-row,
    --largest-target and --most-rows say is public, the same at every party, and no party may exceed it.

    \b
    Examples:
      pdml-spdz pca a.csv b.csv --rank 2 --out runs/mine
      pdml-spdz regress runs/mine with-target.csv --target y --out coefficients.csv
    """
    finished = FinishedRun.load(run)
    if finished.spec.by_row or finished.spec.vector:
        raise InputError(f"{run} is a run of {finished.spec.name}.", "a run of pca or svd")
    reading = reading_of(given)
    own, targets = _split(finished, rows, reading, target)
    if study_file is None:
        fitted = regression.fit(own, targets, finished.result / finished.unit[:, None], finished.shift)
    else:
        scales = _scales(longest_row, largest_target, most_rows)
        if me is None:
            raise click.UsageError("--joint needs --id: which party of STUDY this is.")
        where = certs or study_file.parent / "certs"
        echo(f"every party will see: {'; '.join(SEEN)}")
        study = load(study_file)
        if study.M == 2:
            echo("note: with two parties each of them learns the other's part of these sums")
        party = PartyRun(study, me, Path(), where, run, listen=listen, notify=_say)
        fitted = regress_jointly(party, finished, own, targets, scales)
        echo(f"the coefficients are known to {fitted.digits} digits, of their length, by what was opened")
    _show(finished, fitted, own, targets)
    if test is not None:
        echo(f"on {test.name}: RMSE {fitted.rmse(*_split(finished, test, reading, target)):.6g}")
    if out is not None:
        shift = 0.0 if finished.shift is None else finished.shift
        weights = fitted.V @ fitted.beta
        intercept = fitted.offset - float(np.sum(shift * weights))
        names = ["(intercept)", *finished.loadings.names]
        write_table(out, ["feature", "coefficient"], names, np.append(intercept, weights)[:, None], private=True)
        echo(f"wrote {out}")


def _say(event: dict[str, str]) -> None:
    if event["event"] == "note":
        echo(event["text"])


def _scales(row: float | None, target: float | None, most: int | None) -> Scales:
    if row is None or target is None or most is None:
        raise click.UsageError("--joint needs --longest-row, --largest-target and --most-rows, as all parties agreed.")
    return Scales(row, target, most)


def _split(finished: FinishedRun, path: Path, reading: Reading, target: str) -> tuple[Rows, Reals]:
    """(rows with the run's columns, targets)."""
    if target in (finished.report.get("features") or ()):
        raise InputError(f"{target!r} is a feature of the run.", "a column that the components were not made of")
    data = finished.read(path, reading, (target,))
    names = data.features or ()
    if target not in names:
        raise InputError(f"{path} has no column {target!r}.", "one of its columns", did_you_mean(target, names))
    j = names.index(target)
    y = data.rows.columns([j]).dense()[:, 0]
    return finished.rows(data.permuted(np.delete(np.arange(data.d), j))), y


def _show(finished: FinishedRun, fitted: Regression, rows: Rows, y: Reals) -> None:
    residual = fitted.score(rows, y).total
    spread = float(np.sum((y - y.mean()) ** 2))
    r2 = 1.0 - residual / spread if spread > 0 else 0.0
    echo(f"{len(y):,} own rows: RMSE {fitted.rmse(rows, y):.6g}, R² {r2:.4f}")
    for label, beta in zip(finished.loadings.labels, fitted.beta, strict=True):
        echo(f"  {label}: {beta:.6g}")
