"""PD-NMF that opens nothing but T: what one sweep of it gives away of the sums that it would hide.

T_t after its turn is (num + num_A)/D - theta wherever it is positive, with D = den + den_A. The adversary knows T and
its own addends num_A and den_A, which follow from its rows and T. Of the victim's, num_j = u_j - (G T)_j with u =
X^T W_t >= 0, zero in every feature that no row of the victim's with this topic has, and G = W_t^T W without its own
entry: k + 1 unknown numbers D, D theta and G for hundreds of features. Those that leave the least u >= 0 in all are
a linear program; what it finds is den, num, and u: which features the victim's rows have, in every topic.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.experiments.cells import Cell, Row
from benchmarks.experiments.figures import grouped
from benchmarks.privacy import data
from benchmarks.privacy.measure import population, split
from benchmarks.privacy.text import percent, table
from pdml_spdz.algorithms.nmf import SweepSettings, new_topic
from pdml_spdz.algorithms.rri import Part, Penalties, part
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.nmf_mechanism import ROOM, Joined
from pdml_spdz.rows.base import RowsLike, stacked

K, SWEEPS, TERMS, TRIALS = 7, 20, 10_000, 5
BITS = 40  # of T, below 1
FOUND = 1e-3  # num is known when it is off by no more of its length


def swept(X: RowsLike, others: RowsLike, k: int, sweeps: int, seed: int) -> tuple[Part, Part, Reals, SweepSettings]:
    """The victim's part and the adversary's, and T, after all sweeps but the last."""
    T = np.random.default_rng(seed).uniform(size=(k, X.shape[1]))
    both = part(stacked([X, others]), k)
    settings = SweepSettings(sweeps - 1, 0.0, ROOM * (both.norm() + 1.0))
    T = Joined([both]).iterate(T / T.sum(axis=1, keepdims=True), settings)
    victim, adversary = part(X, k), part(others, k)
    victim.restore(both.W[: X.shape[0]], T)
    adversary.restore(both.W[X.shape[0] :], T)
    return victim, adversary, T, replace(settings, tau=1)


def solved(T: Reals, t: int, num: Reals) -> tuple[float, Reals, Reals, NDArray[np.int64]]:
    """(D, the victim's num, u, features that they are of) from T after the turn of topic t and the adversary's num."""
    places = np.flatnonzero(T[t] > 0).astype(np.int64)
    A = np.column_stack([T[t, places], np.ones(len(places)), np.delete(T, t, axis=0)[:, places].T])
    sizes = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    limits = [(0, None), (None, None), *[(0, None)] * (len(T) - 1)]
    found = linprog((A / sizes).sum(axis=0), -A / sizes, -num[places], bounds=limits, method="highs")
    z = found.x / sizes
    return float(z[0]), A[:, :2] @ z[:2] - num[places], np.maximum(A @ z - num[places], 0.0), places


def cell(directory: Path, name: str, share: float, trial: int) -> list[Row]:
    """A row for each topic of the last sweep."""
    X, others, size = split(population(directory, name, TERMS), share, 1)
    chosen = np.random.default_rng((2, trial)).choice(X.shape[0], size, replace=False)
    victim, adversary, T, settings = swept(X[np.sort(chosen)], others, K, SWEEPS, trial)
    rows = []
    for t in range(K):
        (num, den), (num_A, den_A) = (one.update(t, T, Penalties()) for one in (victim, adversary))
        T[t] = new_topic(T[t], num + num_A, den + den_A, settings)
        shown = np.ldexp(np.rint(np.ldexp(T, BITS)), -BITS)
        D, guess, u, places = solved(shown, t, num_A)
        truth = np.asarray(X[np.sort(chosen)].T @ victim.W[:, t])[places]
        rows.append(
            {
                "topic": t,
                "features": len(places),
                "den": den[0],
                "den_error": abs((D - den_A[0]) / den[0] - 1.0) if den[0] > 0 else np.nan,
                "num_error": np.linalg.norm(guess - num[places]) / max(float(np.linalg.norm(num[places])), 1e-300),
                "features_told": np.mean((u > 1e-6 * u.max(initial=0.0)) == (truth > 0)),
            }
        )
    return [row | {n: f"{row[n]:.3g}" for n in ("den", "den_error", "num_error", "features_told")} for row in rows]


def cells(directory: Path) -> list[Cell]:
    return [
        Cell({"data": name, "k": K, "party_share": share, "trial": trial}, cell, (directory, name, share, trial))
        for name in ("Enron",)
        if data.has(directory, name)
        for share in (0.005, 0.03, 0.1)
        for trial in range(TRIALS)
    ]


def lines(rows: list[Row]) -> list[str]:
    """By party size: how many topics' sums follow from T, and how well."""
    found = []
    for share in sorted({row["party_share"] for row in rows}, key=float):
        mine = [row for row in rows if row["party_share"] == share]
        errors = np.array([float(row["num_error"]) for row in mine])
        dens = np.array([float(row["den_error"]) for row in mine])
        told = next(iter(grouped(mine, lambda row: (), "features_told").values()))
        found.append(
            [
                mine[0]["data"],
                percent(share),
                f"{int(np.sum(errors <= FOUND))} of {len(mine)}",
                f"{np.median(errors):.0e}",
                f"{np.nanmedian(dens):.0e}",
                f"{100 * np.mean(told):.0f} %",
            ]
        )
    head = ["data", "party size", "topics whose num is known", "error of num, median", "of den", "features told"]
    return table(head, found)
