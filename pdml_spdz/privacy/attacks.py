"""What a coalition computes from what it saw of a run. Nothing is sent.

Letters: S is the covariance of all rows, c the scale that NormedSecSum keeps secret, S_A the coalition's own part
(it knows its own rows), S_h = S - S_A that of the honest parties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import EngineError, InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS

COORDINATES = 40


@dataclass(frozen=True)
class Finding:
    """One attack on one run: what it needed, what it got in words, whether it got what was to be hidden, figures.

    tried : False where it could not be carried out
    partly : it got something of what was to be hidden
    """

    attack: str
    needed: str
    got: str
    success: bool
    figures: dict[str, Any] = field(default_factory=dict)
    tried: bool = True
    partly: bool = False


def norm_from_grid(u: Reals, f_in: int, uncertainty: float) -> float | None:
    """||s|| if the entries of s = n 2^-f_in, n integer, show through u = s/||s||, known to +-uncertainty; else None.

    With the largest entry as reference, a_i = u_i/u_0 = n_i/n_0: simultaneous approximation of the a_i with the
    common denominator q = n_0, by lattice reduction. Then ||n|| = q/u_0. Accepted if q a_i is integer at coordinates
    that the reduction did not see.
    """
    try:
        from fpylll import LLL, IntegerMatrix
    except ImportError:
        raise EngineError(
            "the grid attack needs the package fpylll, which is not installed.",
            "a library for lattice reduction",
            "pip install fpylll cysignals",
        ) from None
    order = np.argsort(-np.abs(u))
    seen, held_out = order[:COORDINATES], order[COORDINATES:]
    if len(held_out) == 0 or u[seen[0]] == 0:
        return None
    a = u[seen] / u[seen[0]]
    precision = uncertainty / abs(u[seen[0]])
    scale = int(2 ** min(60, max(1, round(-np.log2(precision)))))
    n = len(a)
    basis = IntegerMatrix(n, n)
    basis[0, 0] = 1
    for i in range(1, n):
        basis[0, i] = round(float(a[i]) * scale)
        basis[i, i] = scale
    LLL.reduction(basis)
    q = abs(basis[0, 0])
    if q == 0:
        return None
    residue = q * u[held_out] / u[seen[0]]
    off = np.abs(residue - np.rint(residue))
    # By chance the mean distance to the next integer is 1/4.
    return None if off.mean() > 0.1 else float(q / abs(u[seen[0]]) * 2.0**-f_in)


def same_norm(found: float | None, norm: float) -> bool:
    """Right, or right up to the common divisor that the entries of s may have."""
    return found is not None and any(abs(found * c / norm - 1) < 1e-4 for c in range(1, 9))


def directions(transcript: Transcript) -> tuple[Reals, Reals, bool]:
    """(V, Y, common) of all iterations side by side: Y = c S V with one c if `common`, else c_i for each column."""
    entries = list(transcript.steps("columns"))
    if not entries:
        raise InputError(
            "the transcript has no columns of NormedSecSum.", "a recorded svd or pca", "pass the --out of such a run"
        )
    common = all("scaled" in entry.arrays for entry in entries)
    name = "scaled" if common else "U"
    V = np.column_stack([entry.arrays["V"] for entry in entries])
    return V, np.column_stack([entry.arrays[name] for entry in entries]), common


def norm_ratios(V: Reals, U: Reals) -> Reals:
    """n with S v_i = n_i u_i, up to one factor: v_j.S v_i = v_i.S v_j gives n_i (v_j.u_i) = n_j (v_i.u_j) for all i, j.

    The least squares solution is the last eigenvector of diag(sum_j C_ij^2) - C o C^T with C_ij = u_i.v_j.
    """
    C = U.T @ V
    M = np.diag(np.sum(C * C, axis=1)) - C * C.T
    n = np.linalg.eigh((M + M.T) / 2)[1][:, 0]
    return np.asarray(np.abs(n))


@dataclass(frozen=True)
class Reconstruction:
    """c S on the span of an orthonormal basis B (d, r): Y = c S B."""

    B: Reals
    Y: Reals

    @property
    def core(self) -> Reals:
        core = self.B.T @ self.Y
        return (core + core.T) / 2

    @property
    def whole(self) -> bool:
        """Whether the span is everything, and so c S is known as a whole."""
        return bool(self.B.shape[1] == self.B.shape[0])

    def of(self, S: Reals) -> Reconstruction:
        """What the same span shows of another matrix."""
        return Reconstruction(self.B, S @ self.B)

    def size(self, measure: str) -> float:
        """Trace or Frobenius norm of what is determined."""
        return float(np.trace(self.core) if measure == "trace" else np.linalg.norm(self.matrix()))

    def matrix(self) -> Reals:
        """c S as far as it is determined: exact between the span and everything, zero where nothing is known."""
        outside = self.Y - self.B @ (self.B.T @ self.Y)
        half = outside @ self.B.T
        return np.asarray(self.B @ self.core @ self.B.T + half + half.T)


def scaled_covariance(transcript: Transcript, tolerance: float = 1e-6) -> Reconstruction:
    """c S on the span of all V_t, by least squares from c S V_t; per-column runs first get their norms' ratios.

    tolerance : directions in which the V_t differ by less are left out, since rounding of what was opened
    (2^-f_out) would be divided by it
    """
    V, Y, common = directions(transcript)
    return reconstruct(V, Y if common else Y * norm_ratios(V, Y), tolerance)


def reconstruct(V: Reals, Y: Reals, tolerance: float) -> Reconstruction:
    """From Y = c S V, all iterations side by side. Later ones repeat the leading directions: an SVD of all V tells what
    they span.
    """
    B, sigma, Rt = np.linalg.svd(V, full_matrices=False)
    kept = sigma > tolerance * sigma[0]
    return Reconstruction(B[:, kept], Y @ Rt[kept].T / sigma[kept])


def scale_from_zero_columns(found: Reconstruction, S_A: Reals) -> tuple[float, float] | None:
    """(c, spread) if the honest parties have a zero column j: then (c S)_j = c (S_A)_j, all of it the coalition's.

    1. for every column j: c_j <- the best fit of c (S_A)_j to (c S)_j on the span, and how badly it fits
    2. the column that fits best is taken if it fits to rounding

    None where no column fits: the honest parties use every feature, or the span shows too little.
    """
    cS, own = found.Y.T, found.B.T @ S_A  # rows of the span, all columns
    size = np.sum(own * own, axis=0)
    size = np.where(size > EPS * size.max(initial=0.0), size, np.inf)
    c = np.sum(cS * own, axis=0) / size
    off = np.linalg.norm(cS - c * own, axis=0) / np.maximum(np.linalg.norm(cS, axis=0), 1e-300)
    j = int(np.argmin(np.where(np.isfinite(size), off, np.inf)))
    if not np.isfinite(size[j]) or off[j] > 1e-4 or c[j] <= 0:
        return None
    return float(c[j]), float(off[j])


def scale_from_semidefiniteness(found: Reconstruction, S_A: Reals) -> tuple[float, float] | None:
    """(c_max, gap): c S/c - S_A is the honest parties' part and so positive semidefinite, which bounds c from above.

    1. c_max <- the largest c for which B^T (c S) B - c B^T S_A B is positive semidefinite
    2. gap <- how far its second smallest generalised eigenvalue is, relative: where the honest part is singular on the
       span (fewer rows than the span has dimensions) c_max is c itself

    None where the coalition's part says nothing on the span.
    """
    own = found.B.T @ S_A @ found.B
    values, Q = np.linalg.eigh(found.core)
    # What is not symmetric in B^T Y is rounding, and says how much of it there is: small values are not known.
    raw = found.B.T @ found.Y
    kept = values > max(1e3 * float(np.linalg.norm(raw - raw.T, 2)), 1e-9 * values[-1])
    half = Q[:, kept] / np.sqrt(values[kept])
    ratios = np.linalg.eigvalsh(half.T @ ((own + own.T) / 2) @ half)  # of S_A to c S; 1/c at most
    if not len(ratios) or ratios[-1] <= 0:
        return None
    gap = 1.0 - ratios[-2] / ratios[-1] if len(ratios) > 1 else 1.0
    return float(1.0 / ratios[-1]), float(gap)
