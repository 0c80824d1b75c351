"""What a transcript shows of S, by solver: on how many dimensions, how much of S that is, and how far the factor falls.

The solvers themselves, on openings with the noise of 31 bits, without shares: what is opened has the same distribution.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.experiments.cells import Cell, Row
from benchmarks.privacy import data
from benchmarks.privacy.measure import population
from pdml_spdz.algorithms.solver import Fitting, SvdSettings, start_by_seed
from pdml_spdz.primitives.normed_sum import Alone
from pdml_spdz.privacy.attack_run import WELL
from pdml_spdz.privacy.attacks import reconstruct, scale_from_semidefiniteness, scale_from_zero_columns
from pdml_spdz.privacy.run_shows import POWER_ITERATIONS, Matrix, Openings
from pdml_spdz.rows.base import as_rows
from pdml_spdz.study.solvers import SOLVERS
from pdml_spdz.transport.base import Clock

ROWS, K, M, TERMS = 3000, 7, 3, 2000
HONEST = (1000, 200, 100, 40, 20)
LEFT_TO_ITSELF = "krylov"  # ends by its own rule


def run(directory: Path, name: str, solver: str) -> list[Row]:
    """Three parties, so many rows in all; two collude, the honest one has one of `HONEST`: the same run for all."""
    X = population(directory, name, TERMS)
    X = X[np.sort(np.random.default_rng(5).permutation(X.shape[0])[:ROWS])]
    order = np.random.default_rng(6).permutation(ROWS)
    S = as_rows(X).gram()
    chosen, d = SOLVERS[solver], len(S)
    own = SvdSettings(K, chosen.iterations, chosen.tol)
    settings = own if solver == LEFT_TO_ITSELF else SvdSettings(K, POWER_ITERATIONS, 0.0)
    openings = Openings(np.random.default_rng(7), d, M)
    fitting = Fitting(Matrix(S), openings, Alone(), Clock())
    found = chosen.solve(fitting, chosen.start(start_by_seed(d, chosen.columns(K, d), 8, Alone())), settings)
    shown = reconstruct(np.column_stack(openings.asked), np.column_stack(openings.opened), WELL)
    truth, c = S @ shown.B, openings.c
    known = {
        "d": d,
        "iterations": found.state.t,
        "dimensions": shown.B.shape[1],
        "error_on_span": float(np.linalg.norm(shown.Y - c * truth) / np.linalg.norm(c * truth)),
        "trace_known": float(np.vdot(shown.B, truth) / np.trace(S)),
        "unknown": float(np.linalg.norm(shown.matrix() / c - S) / np.linalg.norm(S)),
    }
    rows = []
    for honest in HONEST:
        S_A = as_rows(X[np.sort(order[honest:])]).gram()
        by_sign, by_columns = scale_from_semidefiniteness(shown, S_A), scale_from_zero_columns(shown, S_A)
        errors = {"error_of_c_by_sign": _off(by_sign, c), "error_of_c_by_columns": _off(by_columns, c)}
        rows.append({"honest": honest} | known | errors)
    return rows


def _off(found: tuple[float, float] | None, c: float) -> float:
    return float("nan") if found is None else abs(found[0] / c - 1.0)


def cells(directory: Path) -> list[Cell]:
    return [
        Cell({"data": name, "solver": solver}, run, (directory, name, solver))
        for name in ("Enron", "Songs")
        if data.has(directory, name)
        for solver in SOLVERS.lines
    ]
