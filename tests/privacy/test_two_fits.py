"""Two fits of the same rows, around zero and around their mean, show the scale that each of them hides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.numerics.linalg import fix_signs
from tests.privacy.recorded import record

D, K, SIZES = 6, 3, (20, 20, 20)
OUT, RATIOS = 25, 40  # bits that a sealed run of 64 features opens of V, and of the ratios


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


def sealed_result(X: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """V_k and the ratios as a sealed run opens them, with a random last place."""
    values, U = np.linalg.eigh(X.T @ X)
    values, V = values[::-1], fix_signs(U[:, ::-1][:, :k])
    V = np.floor(V * 2.0**OUT + rng.random(V.shape)) * 2.0**-OUT
    return V, np.floor(values[: 2 * k] / values[: 2 * k].sum() * 2.0**RATIOS + rng.random(2 * k)) * 2.0**-RATIOS


def test_two_sealed_results_one_row_apart_are_that_row() -> None:
    """As docs/security.md says: nothing deviates, and nothing but both results is looked at."""
    rng, d, k = np.random.default_rng(2), 64, 7
    values = np.r_[30, 20, 14, 10, 7, 5, 3.6, np.linspace(1.5, 0.3, d - k)]
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X, row = (rng.normal(size=(n, d)) * np.sqrt(values) @ turn for n in (5_000, 1))
    (V, ratios), (later, _) = sealed_result(X, k, rng), sealed_result(np.vstack([X, row]), k, rng)
    change = later * np.sign(np.sum(V * later, axis=0)) - V
    # The change of v_i is, outside of the span of V, what of the row is there, times v_i.row / lambda_i.
    outside = (change - V @ (V.T @ change)) * ratios[:k]
    u, s, inside = (part[0] for part in (lambda u, s, vt: (u.T, s, vt))(*np.linalg.svd(outside, full_matrices=False)))
    beside, sizes = V.T @ change, np.subtract.outer(ratios[:k], ratios[:k]).T
    pairs = np.multiply.outer(inside, inside)
    np.fill_diagonal(pairs, 0.0)
    length = np.sqrt(abs(np.sum(pairs * (beside * sizes).T) / np.sum(pairs**2)))
    found = V @ (inside * length) + u * s / length
    assert abs(found @ row[0]) > 0.99 * np.linalg.norm(found) * np.linalg.norm(row)
    # Of V alone there is left its direction outside of the span of V.
    rest = row[0] - V @ (V.T @ row[0])
    assert abs(u @ rest) > 0.99 * np.linalg.norm(rest)
