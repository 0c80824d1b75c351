"""pdml-spdz normed-sum: the direction of the sum of the parties' vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from pdml_spdz.cli.options import ENGINE, LOCAL, options
from pdml_spdz.cli.run import run_and_show
from pdml_spdz.local.joint import LocalResult
from pdml_spdz.numerics.linalg import dense, sine
from pdml_spdz.rows import data


@click.command("normed-sum")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options(ENGINE)
@click.option("--out", type=click.Path(path_type=Path), help="Directory for results [default: runs/normed-sum-<time>].")
@options(LOCAL)
def normed_sum(files: tuple[Path, ...], **given: Any) -> None:
    """The direction s/||s|| of the sum s of one vector from each party, one party for each of FILES.

    A file holds one vector: a .npy array of one dimension, or a table with a single row. Sums of small integers
    (counts) can be told from their direction: see docs/security.md before using this on such vectors.

    \b
    Examples:
      pdml-spdz normed-sum a.npy b.npy c.npy --bound 1.0
      pdml-spdz normed-sum a.csv b.csv --bits 20 --json
    """

    def compare(result: LocalResult) -> dict[str, Any]:
        u = result.V
        s = np.sum([dense(data.load(path, vector=True).as_in(result.report).X)[0] for path in files], axis=0)
        exact = s / np.linalg.norm(s)
        return {"reference": "the sum of the pooled vectors", "largest_angle_sine": sine(exact[:, None], u[:, None])}

    run_and_show(files, {"algorithm": "normed-sum", "rank": 1} | given, compare, Console(stderr=given["as_json"]))
