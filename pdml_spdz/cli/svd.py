"""pdml-spdz svd: PD-SVD with one local process for each file."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pdml_spdz.accuracy import accuracy
from pdml_spdz.cli.options import study_options
from pdml_spdz.cli.show import Watcher, show_result
from pdml_spdz.local import LocalRun, local_study, run_local
from pdml_spdz.storage import save_json
from pdml_spdz.study import Timeouts


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@study_options
@click.option("--out", type=click.Path(path_type=Path), help="Directory for results [default: runs/svd-<time>].")
@click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out.")
@click.option("--force", is_flag=True, help="Replace a finished run in --out.")
@click.option("--accuracy/--no-accuracy", "compare", default=True, help="Compare with the SVD of the pooled files.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json, and nothing else, on standard output.")
def svd(
    files: tuple[Path, ...], out: Path | None, resume: bool, force: bool, compare: bool, as_json: bool, **given: Any
) -> None:
    """The top singular vectors of the rows of all FILES, one party for each file.

    Every party is a process of its own that talks to the others over mutual TLS, as it would on a machine of its own.

    \b
    FILES: .npy, .npz (dense or scipy.sparse), .csv or .csv.gz with a header, .mtx, .parquet
    Examples:
      pdml-spdz svd a.csv b.csv c.csv --rank 5
      pdml-spdz svd a.npz b.npz --rank 20 --bound rows:1.0,50000 --out runs/mine
      pdml-spdz svd a.csv b.csv --rank 5 --json | jq .bytes_sent
    """
    timeouts = Timeouts(given.pop("connect_timeout"), given.pop("timeout"))
    start = "secsum" if given["seed"] is None else "seed"
    study = local_study(len(files), timeouts=timeouts, start=start, **given)
    out = out or Path("runs") / f"svd-{dt.datetime.now():%Y%m%d-%H%M%S}"
    console = Console(stderr=as_json)
    with Watcher(console) as watcher:
        result = run_local(LocalRun(files, study, out, resume, force, watcher))
    report = result.report
    if compare:
        report["accuracy"] = accuracy(result.V, files)
        save_json(out / "report.json", report)
    if as_json:
        click.echo(json.dumps(report))
    else:
        show_result(console, report, result.party_reports, out)
