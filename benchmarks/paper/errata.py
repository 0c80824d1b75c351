"""Where the paper's text does not hold as printed: each by a computation that anyone can repeat, on public data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from pdml_spdz.algorithms.nmf import SweepSettings, SweepState, pd_nmf_iter
from pdml_spdz.algorithms.nmf_start import fitted_error, nnsvd, rri_nmf
from pdml_spdz.algorithms.rri import FullPart, Penalties
from pdml_spdz.algorithms.solver import Fitting, SvdSettings, start_by_seed
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.primitives.normed_sum import Alone, own_sum
from pdml_spdz.privacy.attacks import reconstruct
from pdml_spdz.privacy.run_shows import Matrix, Openings
from pdml_spdz.study.solvers import SOLVERS
from pdml_spdz.transport.base import Clock, Link
from pdml_spdz.transport.inprocess import between_threads

Figures = dict[str, Any]

NOISE = 2.0**-20  # relative: below it a singular value is what openings of 31 bits have left


def digits() -> Reals:
    X: Reals = load_digits().data.astype(np.float64)
    return X


def theorem_2(bases: int = 200, k: int = 8, M: int = 3) -> Figures:
    """E_That(Z) is said to be an upper bound of E_X(Z), for every basis Z.

    What holds: sqrt(E_X(Z)) <= sqrt(E_X(W, T)) + sigma_max(W V^-1) sqrt(E_That(Z)), with W and T of the local models.
    """
    X = digits()[::3]
    settings = SweepSettings(50, 0.0, float(np.sum(X * X)))
    local = [(X_m, *rri_nmf(X_m, nnsvd(X_m, k), settings)) for X_m in np.array_split(X, M)]
    That = np.vstack([np.linalg.norm(W, axis=0)[:, None] * T for _, W, T in local])
    rest = np.sqrt(sum(float(np.sum((X_m - W @ T) ** 2)) for X_m, W, T in local))
    used = [W[:, W.any(axis=0)] for _, W, _ in local]
    sigma = max(float(np.linalg.norm(W / np.linalg.norm(W, axis=0), 2)) for W in used)
    false, held, ratios = 0, 0, []
    for seed in range(bases):
        Z = np.random.default_rng(seed).uniform(size=(k, X.shape[1]))
        Z /= Z.sum(axis=1, keepdims=True)
        of_X, of_That = (fitted_error(Y, Z, Penalties()) for Y in (X, That))
        false += of_X > of_That
        held += np.sqrt(of_X) <= rest + sigma * np.sqrt(of_That)
        ratios.append(of_X / of_That)
    return {"bases": bases, "false": int(false), "held": int(held), "ratio": float(np.median(ratios))}


def pca_box(k: int = 7, M: int = 3) -> Figures:
    """Sines between the components of the pooled rows and those by the box, parties with other rows each."""
    X = digits()[np.argsort(load_digits().target, kind="stable")]
    parts, n = np.array_split(X, M), len(X)

    def components(rows: Reals) -> Reals:
        return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][:k].T)

    true = components(X - X.mean(axis=0))
    ways = {
        "printed": [P - len(P) / n * P.sum(axis=0) for P in parts],
        "text": [P - len(P) / n * P.mean(axis=0) for P in parts],
        "own_mean": [P - P.mean(axis=0) for P in parts],
        "global_mean": [P - X.mean(axis=0) for P in parts],
    }
    return {name: sine(true, components(np.vstack(rows))) for name, rows in ways.items()}


def accumulation(d: int = 1000, trials: int = 1000) -> Figures:
    """How long the box's output is, of which the squares do not accumulate: ||s|| / |s_d| instead of 1."""
    s = np.random.default_rng(0).standard_normal((trials, d))
    lengths = np.linalg.norm(s, axis=1) / np.abs(s[:, -1])
    return {"median": float(np.median(lengths)), "least": float(lengths.min())}


def bound(M: int = 3) -> Figures:
    """||X^T X||_2 <= ||X_m^T X_m||_F, with no sum over m; then X is scaled by 1/s; then ||S x||_1 <= 1."""
    X = digits()
    S_m = [P.T @ P for P in np.array_split(X, M)]
    S, norms = X.T @ X, [float(np.linalg.norm(S)) for S in S_m]
    s = sum(norms)
    # The largest of ||S v||_1 over unit v, by sign patterns of its value: a fixed point of v <- S sign(S v).
    largest = 0.0
    for seed in range(20):
        v = np.random.default_rng(seed).standard_normal(len(S))
        for _ in range(50):
            v = S @ np.sign(S @ v)
            v /= np.linalg.norm(v)
        largest = max(largest, float(np.abs(S @ v).sum() / s))
    return {
        "left": float(np.linalg.norm(S, 2)),
        "of_parties": norms,
        "sum": s,
        "bits": float(np.log2(s)),
        "l1": largest,
        "l_inf": float(np.linalg.norm(S, axis=1).max() / s),
    }


class _Watched(FullPart):
    """Rows whose objective is noted after every topic."""

    def __init__(self, X: Reals, k: int) -> None:
        super().__init__(X, k)
        self.steps: list[float] = []

    def update(self, t: int, T: Reals, p: Penalties) -> tuple[Reals, Reals]:
        sums = super().update(t, T, p)
        self.before = self.error(T)
        return sums

    def moved(self, t: int, before: Reals, T: Reals) -> None:
        super().moved(t, before, T)
        self.steps.append(self.error(T) / self.before - 1.0)


def clip(problems: int = 12, k: int = 8, sweeps: int = 20) -> Figures:
    """Updates of a topic after which the objective is larger than before, in the printed order and in ours."""
    found: Figures = {"updates": problems * k * sweeps}
    for name, order in (("printed", True), ("ours", False)):
        steps: list[float] = []
        for seed in range(problems):
            rng = np.random.default_rng(seed)
            X, T = rng.gamma(0.5, size=(30, 12)), rng.uniform(size=(k, 12))
            part = _Watched(X, k)
            settings = SweepSettings(sweeps, 0.0, float(np.sum(X * X)), paper_order=order)
            start = SweepState(T / T.sum(axis=1, keepdims=True))
            pd_nmf_iter(part, start, settings, own_sum, Alone(), clock=Clock())
            steps += part.steps
        found[name] = int(np.sum(np.array(steps) > 1e-9))
        found[f"{name}_worst"] = float(np.max(steps))
    return found


def iterations(k: int = 7, tau: int = 30) -> Figures:
    """How much of S, up to one factor, the V_t of so many iterations show; of V_k alone nothing but k directions."""
    X = digits()
    S, found = X.T @ X, {}
    for name, solver in ((name, SOLVERS[name]) for name in SOLVERS.lines):
        openings = Openings(np.random.default_rng(1), len(S), 3)
        settings = SvdSettings(k, min(tau, solver.iterations), solver.tol if solver.common_scale else 0.0)
        start = solver.start(start_by_seed(len(S), solver.columns(k, len(S)), 2, Alone()))
        state = solver.solve(Fitting(Matrix(S), openings, Alone(), Clock()), start, settings).state
        shown = reconstruct(np.column_stack(openings.asked), np.column_stack(openings.opened), 1e-6)
        off = float(np.linalg.norm(shown.matrix() / openings.c - S) / np.linalg.norm(S))
        found[name] = {"iterations": state.t, "dimensions": shown.B.shape[1], "error": off}
    values, V = np.linalg.eigh(S)
    found["V_k"] = {"error": float(np.linalg.norm(S - (V[:, -k:] * values[-k:]) @ V[:, -k:].T) / np.linalg.norm(S))}
    return found


def spans(k: int = 5, tau: tuple[int, ...] = (2, 3, 4, 6, 10)) -> Figures:
    """Would it help to show only the span of S V_t? V_(t+1) is any orthonormal basis of it, S V_t = V_(t+1) C_t.

    S is symmetric: (V_s^T V_(t+1)) C_t = C_s^T (V_(s+1)^T V_t) for all s, t. These equations are linear in all C_t: how
    many dimensions their solutions have, and how far that of length 1 is from the true one where there is one.
    """
    rng, X = np.random.default_rng(1), digits()
    S = X.T @ X / np.linalg.norm(X.T @ X)
    found = {str(T): _span_error(S, k, T, rng) for T in tau}
    return {
        "solutions": {T: solutions for T, (solutions, _) in found.items()},
        "error": {T: error for T, (solutions, error) in found.items() if solutions == 1},
    }


def _span_error(S: Reals, k: int, T: int, rng: np.random.Generator) -> tuple[int, float]:
    V, C = [np.linalg.qr(rng.normal(size=(len(S), k)))[0]], []
    for _ in range(T):
        Y = S @ V[-1]
        basis = np.linalg.qr(Y)[0] @ np.linalg.qr(rng.normal(size=(k, k)))[0]
        V.append(basis + rng.normal(size=basis.shape) * 2.0**-31)
        C.append(V[-1].T @ Y)
    rows = []
    for s in range(T):
        for t in range(s, T):
            A, B = V[s].T @ V[t + 1], V[s + 1].T @ V[t]
            for i in range(k):
                for j in range(k):
                    row = np.zeros((T, k, k))
                    row[t, :, j] += A[i]
                    row[s, :, i] -= B[:, j]
                    rows.append(row.ravel())
    _, values, vectors = np.linalg.svd(np.array(rows))
    solutions = T * k * k - int(np.sum(values > NOISE * values[0]))
    true = np.concatenate([c.ravel() for c in C])
    true /= np.linalg.norm(true)
    return solutions, float(min(np.linalg.norm(vectors[-1] - true), np.linalg.norm(vectors[-1] + true)))


def communication(d: int = 10_000, parties_: tuple[int, ...] = (2, 3, 5, 30)) -> Figures:
    """Bytes that all parties together send for one topic of PD-NMF, d + 1 numbers: measured, by either way to add."""
    found = {}
    for M in parties_:
        sent = {way: _bytes(d + 1, M, way) for way in ("none", "0")}
        found[str(M)] = {"mesh": sent["none"], "aggregator": sent["0"], "numbers": 8 * (d + 1)}
    return found


def _bytes(numbers: int, M: int, aggregator: str) -> int:
    def party(link: Link) -> int:
        sec_sum = SecSumEngine(link, b"errata", aggregator).sec_sum
        before = sum(link.traffic.sent.values())
        sec_sum(np.ones(numbers) / M, 1.0, "topic")
        return sum(link.traffic.sent.values()) - before

    return sum(between_threads(M, party))


@dataclass(frozen=True)
class Kind:
    """compute : from nothing, or (needs_data) from the directory of data sets"""

    compute: Callable[..., Figures]
    needs_data: bool = False


ERRATA = {
    "theorem_2": Kind(theorem_2),
    "pca_box": Kind(pca_box),
    "accumulation": Kind(accumulation),
    "bound": Kind(bound),
    "clip": Kind(clip),
    "iterations": Kind(iterations),
    "spans": Kind(spans),
    "communication": Kind(communication),
}
