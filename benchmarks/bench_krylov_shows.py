"""What does a transcript of krylov show beside one of 300 iterations of power?

    PDML_DATA=DIR python -m benchmarks.bench_krylov_shows [honest rows ...]

Songs, standardised (d = 90), k = 7, embedded, three parties; two of them collude, the third has a third of all rows, or
so many as are given. How many dimensions of c S the transcript determines, how exactly, and how far off the factor c is
that the two find from 0 <= S_3 = S - S_1 - S_2.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pdml_spdz
from benchmarks.bench_krylov import K, standardised
from benchmarks.experiments import datasets
from benchmarks.parties import save
from pdml_spdz.engines.transcript import RecordingWarning
from pdml_spdz.privacy.attack_run import WELL
from pdml_spdz.privacy.attacks import scale_from_semidefiniteness, scaled_covariance

WAYS: dict[str, dict[str, Any]] = {"krylov": {}, "power": {"iterations": 300, "tol": 0.0}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("honest_rows", metavar="honest rows", type=int, nargs="*")
    honest_rows = parser.parse_args().honest_rows
    X = standardised(datasets.regression_table(Path(os.environ.get("PDML_DATA", "data")), "Songs")[0])
    X = X[np.random.default_rng(5).permutation(len(X))]
    S, found = X.T @ X, {}
    for honest in honest_rows or [len(X) // 3, 100, 40, 20]:
        tables = [X[:honest], *np.array_split(X[honest:], 2)]
        own = np.sum([T.T @ T for T in tables[1:]], axis=0)
        for solver, settings in WAYS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RecordingWarning)
                result = pdml_spdz.svd(
                    tables, rank=K, solver=solver, seed=1, transport="threads", record_transcript=True, **settings
                )
            assert result.transcript is not None
            shown = scaled_covariance(result.transcript, WELL)
            truth = S @ shown.B
            c = float(np.vdot(shown.Y, truth) / np.vdot(truth, truth))
            error = float(np.linalg.norm(shown.Y - c * truth) / np.linalg.norm(c * truth))
            whole = float(np.linalg.norm(shown.matrix() - c * S) / np.linalg.norm(c * S))
            by_sign = scale_from_semidefiniteness(shown, own)
            factor = float("nan") if by_sign is None else abs(by_sign[0] / c - 1)
            found[f"{honest} honest rows, {solver}"] = row = {
                "iterations": result.report["iterations"],
                "dimensions": shown.B.shape[1],
                "error": error,
                "error of all S": whole,
                "error of c": factor,
            }
            print(f"{honest:5} honest rows, {solver:6}: {row}", flush=True)
    save("krylov-shows", found)


if __name__ == "__main__":
    main()
