"""What a recommender gains by joining, by whose penalties both sides use: tuned each by its own, or one for both.

The user's mean, which needs no model and nobody else, stands beside both.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.experiments import datasets
from benchmarks.experiments.cells import Cell, Row
from benchmarks.experiments.figures import mean_and_error
from benchmarks.privacy import data
from benchmarks.privacy.claims import of
from benchmarks.privacy.noise import parties
from benchmarks.privacy.text import percent, table
from pdml_spdz.algorithms.nmf_start import own_topics, rri_nmf
from pdml_spdz.algorithms.rri import Penalties
from pdml_spdz.applications.low_rank import Score
from pdml_spdz.applications.recommender import fit_users, hold_out, squared_error
from pdml_spdz.applications.uplift import Uplift, own_settings
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike, as_rows, stacked

PENALTIES = (0.1, 1.0, 3.0, 10.0, 30.0)  # beta = delta
SWEEPS, VALIDATION = 30, 0.1


def own_T(ratings: RowsLike, k: int, p: Penalties) -> Reals:
    return own_topics(ratings, k, own_settings(ratings, SWEEPS, 0.0, p, True))[1]


def common_T(tables: list[RowsLike], k: int, p: Penalties, seed: int) -> Reals:
    """Of all parties' ratings: what PD-NMF gives (Theorem 1)."""
    pooled = stacked(tables)
    start = 2.0 * np.random.default_rng(seed).uniform(size=(k, pooled.shape[1]))
    return rri_nmf(pooled, start, own_settings(pooled, SWEEPS, 0.0, p, True), w_start="nnls")[1]


def score(known: RowsLike, held: RowsLike, T: Reals, p: Penalties) -> Score:
    return squared_error(fit_users(known, T, p), T, held, datasets.STARS)


def user_means(known: RowsLike, held: RowsLike) -> float:
    """RMSE of predicting every user's own mean; of users without ratings the mean of all."""
    rows, wanted = as_rows(known).csr(), as_rows(held).csr().tocoo()
    sums, counts = rows.sum(axis=1), np.diff(rows.indptr)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), rows.data.mean())
    return float(np.sqrt(np.mean((wanted.data - means[wanted.row]) ** 2)))


def run(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = datasets.ratings(directory)
    rows, _ = parties(X.shape[0], share, M, trial)
    test = [hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]
    validation = [hold_out(known, VALIDATION, 2000 + trial) for known, _ in test]
    both = [Penalties(beta=b, delta=b) for b in PENALTIES]
    local = np.array([[score(*v, own_T(v[0], k, p), p).rmse for p in both] for v in validation])
    common = [common_T([known for known, _ in validation], k, p, trial) for p in both]
    together = [
        sum((score(*v, T, p) for v in validation), Score(0.0, 0)).rmse for T, p in zip(common, both, strict=True)
    ]
    own_best, joint_best = local.argmin(axis=1), int(np.argmin(together))
    refit = [common_T([known for known, _ in test], k, p, trial) for p in both]
    errors = {p: [score(*t, T, p).rmse for t in test] for T, p in zip(refit, both, strict=True)}
    alone = {p: [score(*t, own_T(t[0], k, p), p).rmse for t in test] for p in both}
    tuned = [alone[both[b]][m] for m, b in enumerate(own_best)]
    best = errors[both[joint_best]]
    found = [_row(f"both with {p.beta:g}", alone[p], errors[p]) for p in both]
    found.append(_row("each tuned", tuned, best))
    found.append(_row("user's mean", [user_means(*t) for t in test], best))
    return [
        row | {"own_penalty": float(np.mean([PENALTIES[b] for b in own_best])), "joint_penalty": PENALTIES[joint_best]}
        for row in found
    ]


def _row(method: str, local: list[float], joint: list[float]) -> Row:
    gains = [Uplift(a, b).percent for a, b in zip(local, joint, strict=True)]
    return {
        "method": method,
        "local": float(np.mean(local)),
        "joint": float(np.mean(joint)),
        "uplift_percent": float(np.mean(gains)),
    }


def lines(rows: list[Row]) -> list[str]:
    """By party size and penalties."""
    found = []
    for share in sorted({r["party_share"] for r in rows}, key=float):
        mine = of(rows, party_share=share)
        found += [[percent(share), method, *_shown(of(mine, method=method))] for method in _methods(mine)]
    return table(["party size", "penalties", *SHOWN], found)


def compared(rows: list[Row], noise: list[Row], by_hyperband: list[Row], share: str = "0.1") -> list[str]:
    """The figures of one party size that the pages have, beside each other."""
    mine = of(rows, party_share=share)
    found = {
        "experiments.md: penalties by Hyperband for the common model, both use them": of(
            by_hyperband, k="7", party_share=share
        ),
        "beside DP, without noise: β = δ = 1, ten sweeps": of(
            noise, experiment="recommender", method="exact", party_share=share
        ),
        "β = δ = 1, 30 sweeps": of(mine, method="both with 1"),
        "each tuned": of(mine, method="each tuned"),
    }
    return table(["", *SHOWN], [[name, *_shown(chosen)] for name, chosen in found.items() if chosen])


SHOWN = ["RMSE without joining", "joining", "uplift, %", "trials"]


def _methods(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _shown(rows: list[Row]) -> list[str]:
    local, joint, gain = (mean_and_error([float(r[n]) for r in rows]) for n in ("local", "joint", "uplift_percent"))
    return [f"{local[0]:.3f}", f"{joint[0]:.3f}", f"{gain[0]:+.1f} ± {gain[1]:.1f}", str(len(rows))]


def cells(directory: Path) -> list[Cell]:
    return [
        Cell({"data": "ML-1M", "k": 7, "party_share": share, "trial": trial}, run, (directory, 7, share, 3, trial))
        for share in (0.01, 0.03, 0.1, 0.3)
        for trial in range(5)
        if data.has(directory, "ML-1M")
    ]
