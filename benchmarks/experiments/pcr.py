"""Principal component regression: what a party gains by joining, in both readings of the paper. [PDML §PCR]

The formula has each party fit beta to its own rows with the common V_k; the sentence after it reports "the change in
RMSE from using their local X to fit beta compared to using PD-SVD and the combined X". Both are computed, the second
with beta by one SecSum.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.experiments import datasets, official
from benchmarks.experiments.cells import Cell, Row
from pdml_spdz.applications import regression
from pdml_spdz.applications.low_rank import coordinates
from pdml_spdz.applications.uplift import Uplift, local_pca
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads

# As in the file; or columns of deviation 1 (public constants) and the logarithm of targets that are counts.
FORMS = ("as it is", "scaled")


def table(directory: Path, name: str, form: str) -> tuple[Reals, Reals]:
    X, y = datasets.regression_table(directory, name)
    if form == "scaled":
        X, y = X / X.std(axis=0), y if name == "Songs" else np.log1p(y)
    return X, y


def cell(directory: Path, name: str, form: str, k: int, share: float, M: int, trial: int) -> list[Row]:
    X, y = table(directory, name, form)
    rows, held = datasets.parties(len(X), share, M, trial)
    study = local_study(M, algorithm="pca", rank=k, engine="secsum", iterations=300, tol=1e-7)
    common = run_in_threads([X[r] for r in rows], study)
    V, mean = common.V, common.mean
    combined = jointly([X[r] for r in rows], [y[r] for r in rows], V, mean).rmse(X[held], y[held])
    results = []
    for r in rows:
        V_m, mean_m = local_pca(X[r], k)
        alone = regression.fit(X[r], y[r], V_m, mean_m).rmse(X[held], y[held])
        own = regression.fit(X[r], y[r], V, mean).rmse(X[held], y[held])
        printed = regression.fit(X[r], y[r], V, mean, as_printed=True).rmse(X[held], y[held])
        results.append(
            {
                "local": alone,
                "uplift_percent": Uplift(alone, combined).percent,
                "own_beta_percent": Uplift(alone, own).percent,
                "as_printed_percent": Uplift(alone, printed).percent,
                "leverage_own_v": leverage(X[r], X[held], V_m, mean_m),
                "leverage_common_v": leverage(X[r], X[held], V, mean),
            }
        )
    return [{name: float(np.mean([result[name] for result in results])) for name in results[0]}]


def jointly(tables: list[Reals], targets: list[Reals], V: Reals, mean: Reals | None) -> regression.Regression:
    """beta of all rows: by one SecSum, between threads."""
    longest = max(float(np.linalg.norm(coordinates(X, V, mean), axis=1).max()) for X in tables)
    largest, most = max(float(np.abs(y).max()) for y in targets), max(map(len, targets))
    scales = regression.Scales(longest, largest, most)

    def party(link: Link) -> regression.Regression:
        sec_sum = SecSumEngine(link, b"experiment", "auto").sec_sum
        return regression.fit_jointly(tables[link.me], targets[link.me], V, mean, sec_sum, scales=scales)

    return between_threads(len(tables), party)[0]


def leverage(X: Reals, held: Reals, V: Reals, mean: Reals | None) -> float:
    """Mean of h (Z^T Z)^-1 h over held-out rows h: the variance that fitting beta to these rows adds, in units of the
    noise of y.
    """
    Z, H = coordinates(X, V, mean), coordinates(held, V, mean)
    shift = Z.mean(axis=0)
    R: Reals = np.asarray(np.linalg.qr(Z - shift, mode="r"))
    solved = np.linalg.lstsq(R.T, (H - shift).T, rcond=None)[0]
    return float(np.mean(np.sum(solved**2, axis=0)))


def cells(directory: Path, *, full: bool) -> list[Cell]:
    shares: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3) if full else (0.01, 0.05, 0.2)
    ks, trials, M = (3, 7, 14, 28), 5 if full else 2, 3
    return [
        Cell(
            {"data": name, "form": form, "k": k, "party_share": share, "M": M, "trial": trial},
            cell,
            (directory, name, form, k, share, M, trial),
        )
        for name in ("News", "Songs", "Blogs")
        if official.has(directory, name)
        for form in FORMS
        for k in ks
        for share in shares
        for trial in range(trials)
    ]
