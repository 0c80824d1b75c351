"""pdml-spdz nmf: PD-NMF with one local process for each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from pdml_spdz.cli.options import COMMON, LOCAL, NMF, SCALING, options
from pdml_spdz.cli.run import run_and_show
from pdml_spdz.fits.accuracy import nmf_accuracy
from pdml_spdz.local.joint import LocalResult
from pdml_spdz.study.model import NmfSettings

_NMF = tuple(NmfSettings.__dataclass_fields__)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options(NMF, SCALING[1:], COMMON)  # rows less an offset have negative entries
@click.option("--out", type=click.Path(path_type=Path), help="Directory for results [default: runs/nmf-<time>].")
@click.option("--resume", is_flag=True, help="Go on from the last finished sweep in --out.")
@click.option(
    "--accuracy/--no-accuracy", "compare", default=True, show_default=True, help="Compare with NMF of the pooled files."
)
@options(LOCAL)
def nmf(files: tuple[Path, ...], compare: bool, **given: Any) -> None:
    """Topics: a non-negative factorisation of the rows of all FILES, one party for each file.

    Every party keeps its own coefficients W (party-<i>/W.npy); the topics T are common. Parties see, for every topic
    and sweep, sums over all rows (docs/security.md).

    \b
    Examples:
      pdml-spdz nmf a.npz b.npz c.npz --rank 20
      pdml-spdz nmf a.npz b.npz --rank 7 --weighted --beta 1 --delta 1     ratings: what is not stored is missing
      pdml-spdz nmf a.csv b.csv --rank 5 --init random --objective --json
    """
    given["nmf"] = NmfSettings(**{name: given.pop(name) for name in _NMF})

    def reference(result: LocalResult) -> dict[str, Any]:
        start = np.load(result.out / "party-0" / "T0.npy")
        return nmf_accuracy(result.V, start, result.report["iterations"], result.study, files, result.prepared)

    run_and_show(files, {"algorithm": "nmf"} | given, reference if compare else None, Console(stderr=given["as_json"]))
