"""pdml-spdz svd: PD-SVD with one local process for each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pdml_spdz.cli.options import FACTORISATION, LOCAL, SCALING, options
from pdml_spdz.cli.run import run_and_show
from pdml_spdz.fits.accuracy import accuracy


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options(FACTORISATION, SCALING)
@click.option("--out", type=click.Path(path_type=Path), help="Directory for results [default: runs/svd-<time>].")
@click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out.")
@click.option(
    "--accuracy/--no-accuracy",
    "compare",
    default=True,
    show_default=True,
    help="Compare with the SVD of the pooled files.",
)
@options(LOCAL)
def svd(files: tuple[Path, ...], compare: bool, **given: Any) -> None:
    """The top singular vectors of the rows of all FILES, one party for each file.

    Every party is a process of its own that talks to the others over mutual TLS, as it would on a machine of its own.

    \b
    FILES: .npy, .npz (dense or scipy.sparse), .csv or .csv.gz with a header, .mtx, .parquet
    Examples:
      pdml-spdz svd a.csv b.csv c.csv --rank 5
      pdml-spdz svd a.npz b.npz --rank 20 --bound rows:1.0,50000 --out runs/mine
      pdml-spdz svd a.csv b.csv --rank 5 --reveal sum --json | jq .singular_values
      pdml-spdz svd a.csv b.csv --rank 5 --scale secsum
    """
    reference = (lambda result: accuracy(result.V, files, rows=result.prepared)) if compare else None
    run_and_show(files, given, reference, Console(stderr=given["as_json"]))
