"""How close a distributed result is to the SVD of the pooled rows. Only where one machine has all files:
a demonstration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.rows import data as data_files
from pdml_spdz.rows.base import Rows, stacked
from pdml_spdz.rows.covariance import EXPECTED_ITERATIONS, centred_covariance, covariance
from pdml_spdz.study.model import Study

DENSE_LIMIT = 2000  # up to this d the pooled covariance is formed and decomposed as a whole


Prepare = Callable[[Path], Rows]


def _as_they_are(path: Path) -> Rows:
    return data_files.load(path).rows


def pooled_svd(
    files: Sequence[Path], k: int, *, centre: bool = False, rows: Prepare = _as_they_are
) -> tuple[Reals, Reals]:
    """V_k and the k + 1 largest singular values (or all d) of the pooled rows (less their mean), LAPACK or ARPACK.

    rows : of a file, as they were factorised
    """
    tables = [rows(path) for path in files]
    d = tables[0].shape[1]
    if centre:
        mu = np.sum([X.column_sums() for X in tables], axis=0) / sum(X.shape[0] for X in tables)
        parts = [centred_covariance(X, mu, k, EXPECTED_ITERATIONS) for X in tables]
    else:
        parts = [covariance(X, k, EXPECTED_ITERATIONS) for X in tables]

    def times(v: Reals) -> Reals:
        return np.sum([S_m.times(v) for S_m in parts], axis=0)  # type: ignore[no-any-return]

    if d <= DENSE_LIMIT or k >= d - 1:
        w, V = np.linalg.eigh(times(np.eye(d)))
    else:
        import scipy.sparse.linalg  # takes long, and d is small in most demonstrations

        def column(v: Reals) -> Reals:
            return times(v.reshape(-1, 1))

        S = scipy.sparse.linalg.LinearOperator((d, d), matvec=column, matmat=times, dtype=np.float64)
        w, V = scipy.sparse.linalg.eigsh(S, k=k + 1, v0=np.ones(d))
    order = np.argsort(w)[::-1]
    sigma = np.sqrt(np.maximum(w[order[: k + 1]], 0.0))
    return V[:, order[:k]], sigma


def accuracy(V: Reals, files: Sequence[Path], *, centre: bool = False, rows: Prepare = _as_they_are) -> dict[str, Any]:
    """Sine of the largest angle between V and the pooled V_k,
    and the spectral gap that says how well defined V_k is.
    """
    k = V.shape[1]
    V_k, sigma = pooled_svd(files, k, centre=centre, rows=rows)
    gap = float(1.0 - (sigma[k] / sigma[k - 1]) ** 2) if len(sigma) > k and sigma[k - 1] > 0 else 1.0
    # sqrt(1 - cos^2) would show nothing below 1e-8.
    columns = np.linalg.norm(V - V_k * np.sum(V * V_k, axis=0), axis=0)
    return {
        "reference": f"{'PCA' if centre else 'SVD'} of the pooled rows",
        "largest_angle_sine": sine(V_k, V),
        "largest_column_sine": float(columns.max()),
        "relative_gap": gap,
    }


def pooled(files: Sequence[Path], rows: Prepare = _as_they_are) -> Rows:
    """All rows in one table."""
    return stacked([rows(path) for path in files])


def nmf_accuracy(
    T: Reals, T_0: Reals, sweeps: int, study: Study, files: Sequence[Path], rows: Prepare = _as_they_are
) -> dict[str, Any]:
    """How far T is from centralised RRI-NMF of the pooled rows from the same start, and how well it explains them."""
    from pdml_spdz.algorithms.nmf_start import rri_nmf
    from pdml_spdz.algorithms.rri import part
    from pdml_spdz.fits.nmf import settings_of

    X = pooled(files, rows)
    size = float(part(X, 1).norm())
    settings = replace(settings_of(study, size), tau=sweeps, tol=0.0)
    _, centralised = rri_nmf(X, T_0, settings, w_start=study.nmf.w_start)
    local = part(X, len(T), weighted=study.nmf.weighted)
    local.fit(T, settings.penalties)
    return {
        "reference": "RRI-NMF of the pooled rows from the same start",
        "largest_difference": float(np.abs(T - centralised).max()),
        "relative_error": float(np.sqrt(local.error(T) / size)) if size else 0.0,
    }
