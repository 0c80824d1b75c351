"""pdml-spdz pca: PD-PCA with one local process for each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pdml_spdz.cli.options import CENTRE, FACTORISATION, LOCAL, SCALING, options
from pdml_spdz.cli.run import run_and_show
from pdml_spdz.fits.accuracy import accuracy


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options(CENTRE)
@click.option("--variance", is_flag=True, help="Reveal the explained variance of each component (--centre open, none).")
@options(SCALING, FACTORISATION)
@click.option("--out", type=click.Path(path_type=Path), help="Directory for results [default: runs/pca-<time>].")
@click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out.")
@click.option(
    "--accuracy/--no-accuracy", "compare", default=True, show_default=True, help="Compare with PCA of the pooled files."
)
@options(LOCAL)
def pca(files: tuple[Path, ...], compare: bool, **given: Any) -> None:
    """The principal components of the rows of all FILES, one party for each file.

    --centre open: the number of all rows and their mean are computed by SecSum and seen by every party (mean.npy); then
    as `svd` on the centred rows. --centre hidden: the number of rows is seen, the mean is not; it is taken off the
    secret-shared sums (engines embedded and mp-spdz). Where means are a thousand times the deviations or more, give an
    --offset near them: rounding would show. --centre none: as `svd`.

    \b
    Examples:
      pdml-spdz pca a.csv b.csv c.csv --rank 5
      pdml-spdz pca a.csv b.csv c.csv --rank 5 --centre hidden
      pdml-spdz pca a.csv b.csv --rank 5 --centre hidden --offset near-the-means.csv --scale units.csv
      pdml-spdz pca a.csv b.csv --rank 5 --scale secsum --variance       of the correlation matrix
      pdml-spdz pca a.npz b.npz --rank 20 --reveal sum --json | jq .explained_variance
    """
    centre = given["centre"] != "none"
    reference = (lambda result: accuracy(result.V, files, centre=centre, rows=result.prepared)) if compare else None
    run_and_show(files, {"algorithm": "pca"} | given, reference, Console(stderr=given["as_json"]))
