"""Two fits of the same rows, around zero and around their mean, show the scale that each of them hides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from tests.privacy.recorded import record

D, K, SIZES = 6, 3, (20, 20, 20)


def scaled_covariance(seen: Transcript) -> np.ndarray:
    """c S, from V_t and c S V_t of all iterations."""
    columns = [e.arrays for e in seen.entries if e.step == "columns"]
    V, Y = (np.hstack([c[name] for c in columns]) for name in ("V", "scaled"))
    found = Y @ np.linalg.pinv(V, rcond=1e-6)
    return (found + found.T) / 2


def test_svd_and_pca_with_an_open_mean_show_the_scale(tmp_path: Path) -> None:
    """As docs/security.md says, with default settings and with nothing but what every party sees."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=D)
    rows = [rng.normal(size=(n, D)) * np.geomspace(3, 0.5, D) + mean for n in SIZES]
    settings = {"rank": K, "iterations": 4, "tol": 0.0, "engine": "embedded"}
    around_zero = record(rows, tmp_path / "svd", **settings)
    centred = record(rows, tmp_path / "pca", algorithm="pca", **settings)
    a_S, b_C = scaled_covariance(around_zero), scaled_covariance(centred)
    opened = {e.step: e.arrays["value"] for e in centred.entries if e.step in ("rows", "mean")}
    n, mu = float(opened["rows"][0]), opened["mean"]
    off_mean = np.eye(D) - np.outer(mu, mu) / (mu @ mu)
    left, right = (off_mean @ matrix @ off_mean for matrix in (a_S, b_C))
    rest = a_S - np.vdot(right, left) / np.vdot(right, right) * b_C  # a n mu mu^T
    a = float(mu @ rest @ mu) / (n * float(mu @ mu) ** 2)
    S = sum(X.T @ X for X in rows)
    # 31 bits are opened; V_t of four iterations span the smallest of D directions to some 2^-10.
    assert np.linalg.norm(a_S / a - S) < 2.0**-20 * np.linalg.norm(S)
