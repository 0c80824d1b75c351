"""What privacy by noise costs: uplift of joining with DP inside, beside PD-SVD and PD-NMF. [PDML Fig. uplift]"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import datasets
from benchmarks.experiments.cells import Cell, Row
from benchmarks.experiments.pcr import table
from benchmarks.experiments.uplift import summary, topics_gain
from benchmarks.privacy import data
from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import rri_nmf
from pdml_spdz.algorithms.rri import FullPart, ObservedPart, Penalties
from pdml_spdz.applications import regression, uplift
from pdml_spdz.applications.low_rank import reconstruction_error
from pdml_spdz.applications.recommender import hold_out
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy.dp import PrivacyBudget, private_nmf, private_power_method, row_norms, usual_clipping
from pdml_spdz.rows.base import RowsLike, as_rows, stacked

SVD_BUDGET, NMF_BUDGET = PrivacyBudget(0.1, 1e-5), PrivacyBudget(0.25, 0.01)  # the paper's
ITERATIONS, SWEEPS = 10, 10
AS_IT_IS = "pcr, columns as they are"


def parties(n: int, share: float, M: int, seed: int) -> tuple[list[Any], Any]:
    """Row numbers of M parties, none in two of them (a row is one individual), and of held-out rows."""
    order = np.random.default_rng(seed).permutation(n)
    held, rest = np.split(order, [int(datasets.HELD_OUT * n)])
    size = max(2, min(int(share * n), len(rest) // M))
    return [rest[m * size : (m + 1) * size] for m in range(M)], held


def _gains(by_method: dict[str, list[uplift.Uplift]], **more: str) -> list[Row]:
    return [more | {"method": method} | summary(gains)[0] for method, gains in by_method.items()]


def _bases(X: RowsLike, k: int, mean: Reals | None, seed: int) -> dict[str, Reals]:
    """V of the pooled rows, exact (what PD-SVD gives) and with noise; the median length of rows is taken as public."""
    centred = X if mean is None else as_rows(X).shifted(mean)
    length = float(np.median(row_norms(centred)))  # longer rows are clipped: the longest would drown all in noise
    found = {"exact": uplift.local_svd(X, k, mean=mean, tol=1e-7)}
    for neighbours in ("entry", "row"):
        found[f"dp-{neighbours}"] = private_power_method(
            X, k, ITERATIONS, SVD_BUDGET, length=length, neighbours=neighbours, seed=seed, mean=mean
        )
    return found


def pcr(directory: Path, name: str, form: str, k: int, share: float, M: int, trial: int) -> list[Row]:
    """Both readings of the paper: beta of the party's own rows, and of all rows (without noise, a gift to DP)."""
    X, y = table(directory, name, form)
    rows, held = parties(len(X), share, M, trial)
    together = np.concatenate(rows)
    mean = X[together].sum(axis=0) / len(together)
    test = X[held], y[held]
    local = [regression.fit(X[r], y[r], *uplift.local_pca(X[r], k)).rmse(*test) for r in rows]
    own: dict[str, list[uplift.Uplift]] = {}
    combined: dict[str, list[uplift.Uplift]] = {}
    for method, V in _bases(X[together], k, mean, trial).items():
        errors = [regression.fit(X[r], y[r], V, mean).rmse(*test) for r in rows]
        own[method] = [uplift.Uplift(*both) for both in zip(local, errors, strict=True)]
        joint = regression.fit(X[together], y[together], V, mean).rmse(*test)
        combined[method] = [uplift.Uplift(error, joint) for error in local]
    return _gains(own, beta="own rows") + _gains(combined, beta="all rows")


def lra(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = data.texts(directory, name, terms, limit)
    rows, held = parties(X.shape[0], share, M, trial)
    own = [reconstruction_error(X[held], uplift.local_svd(X[r], k)) for r in rows]
    joint = {m: reconstruction_error(X[held], V) for m, V in _bases(X[np.concatenate(rows)], k, None, trial).items()}
    return _gains({m: [uplift.Uplift(local, error) for local in own] for m, error in joint.items()}, beta="")


def topics(directory: Path, name: str, limit: int, terms: int, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = data.texts(directory, name, terms, limit)
    rows, held = parties(X.shape[0], share, M, trial)
    T = _start(k, X.shape[1], trial)
    parts = [FullPart(X[r], k) for r in rows]
    exact = topics_gain([X[r] for r in rows], X[held], k)
    noisy = private_nmf(parts, T, SweepSettings(SWEEPS, 0.0, 1.0), usual_clipping(parts, T), NMF_BUDGET, trial)
    private = uplift.Uplift(exact.local, uplift.topics_error(X[held], noisy))
    return _gains({"exact": [exact], "dp-row": [private]}, beta="")


def recommender(directory: Path, k: int, share: float, M: int, trial: int) -> list[Row]:
    X = datasets.ratings(directory)
    rows, _ = parties(X.shape[0], share, M, trial)
    halves = [hold_out(X[r], datasets.HELD_OUT, 1000 + trial) for r in rows]
    p = Penalties(beta=1.0, delta=1.0)
    T = 2.0 * _start(k, X.shape[1], trial) * X.shape[1] / k
    known = [kept for kept, _ in halves]
    pooled = stacked(known)
    parts = [ObservedPart(kept, k) for kept in known]
    settings = SweepSettings(SWEEPS, 0.0, 1.0, p, True)
    found = {
        "exact": rri_nmf(pooled, T, uplift.own_settings(pooled, SWEEPS, 0.0, p, True))[1],
        "dp-row": private_nmf(parts, T, settings, usual_clipping(parts, T), NMF_BUDGET, trial),
    }

    def gain(kept: RowsLike, held: RowsLike, T_m: Reals) -> uplift.Uplift:
        return uplift.recommender_uplift(kept, held, T_m, datasets.STARS, p, tau=SWEEPS)

    return _gains({m: [gain(kept, held, T_m) for kept, held in halves] for m, T_m in found.items()}, beta="")


def _start(k: int, d: int, seed: int) -> Reals:
    T = np.random.default_rng(seed).uniform(size=(k, d))
    return np.asarray(T / T.sum(axis=1, keepdims=True))


def cells(directory: Path, *, full: bool) -> list[Cell]:
    shares, trials = ((0.01, 0.03, 0.1, 0.3), 5) if full else ((0.01, 0.05, 0.2), 5)
    limit, terms = (0, 2000) if full else (4000, 1000)
    k, M = 7, 3
    settings: list[tuple[str, str, Any, tuple[Any, ...]]] = [
        (experiment, name, pcr, (name, form))
        for experiment, form in (("pcr", "scaled"), (AS_IT_IS, "as it is"))
        for name in ("Songs", "News")
    ]
    settings += [("lra", name, lra, (name, limit, terms)) for name in ("20NG", "Enron")]
    settings += [("topics", "Enron", topics, ("Enron", limit, terms)), ("recommender", "ML-1M", recommender, ())]
    return [
        Cell(
            {"experiment": experiment, "data": name, "k": k, "party_share": share, "trial": trial, "limit": limit},
            compute,
            (directory, *arguments, k, share, M, trial),
        )
        for experiment, name, compute, arguments in settings
        if data.has(directory, name)
        for share in shares
        for trial in range(trials)
    ]
