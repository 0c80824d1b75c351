"""What openings have shown of S: c S on an orthonormal basis, with its noise; what follows from it, and how well.

Letters: Q (d, m) orthonormal; C = c S Q + E, as it was opened; theta and U (m, m), Ritz values and vectors in the basis
Q; X = Q U; k vectors are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS

TAIL = 4.0  # deviations beyond which noise does not reach, but for one case in about 3000


@dataclass(frozen=True)
class Shown:
    """Q : (d, m)
    C : (d, m)
    N : (m, r), the noise E = G N^T, where entries of G (d, r) are independent, of deviation 1/(sqrt d + TAIL): column j
    of E is no longer than ||N_j||
    level : noise in any one direction that is not in N, of rounding that shows
    """

    Q: Reals
    C: Reals
    N: Reals
    level: float = 0.0

    @classmethod
    def nothing(cls, d: int) -> Shown:
        return cls(np.zeros((d, 0)), np.zeros((d, 0)), np.zeros((0, 0)))

    @property
    def m(self) -> int:
        return int(self.Q.shape[1])

    @property
    def errors(self) -> Reals:
        """(m,), how far (in l2) each column of C may be off."""
        lengths: Reals = np.linalg.norm(self.N, axis=1)
        return lengths

    @property
    def largest(self) -> float:
        """theta_1 at most: the Frobenius norm of C."""
        return float(np.linalg.norm(self.C))

    @property
    def rounding(self) -> float:
        """What float64 makes of a column: d EPS theta_1, for the products S_m v are rounded relative to S; and more,
        where more shows."""
        d = len(self.Q)
        return d * EPS * self.largest + float(np.sqrt(d)) * self.level

    @property
    def factors(self) -> tuple[float, float]:
        """||E u|| and ||Q^T E u|| over ||N^T u||, for every u at once: the largest singular values of G and of Q^T G.

        Of a (p, r) matrix of independent entries the largest singular value is below sqrt p + sqrt r + TAIL deviations.
        u depends on the noise, so that one column's noise alone would not do.
        """
        d, (m, r) = len(self.Q), self.N.shape
        unit = np.sqrt(d) + TAIL
        return float((unit + np.sqrt(r)) / unit), float((np.sqrt(min(m, d)) + np.sqrt(r) + TAIL) / unit)

    def lengths_of_noise(self, b: int) -> Reals:
        """(b,), how long the noise of each of the first b columns may be, also of columns that depend on it."""
        lengths: Reals = self.factors[0] * self.errors[:b]
        return lengths

    def with_block(self, V: Reals, Y: Reals, errors: Reals) -> Shown:
        """After Y = c S V, each column off by at most its error, was opened."""
        (m, r), b = self.N.shape, V.shape[1]
        N = np.zeros((m + b, r + b))
        N[:m, :r], N[m:, r:] = self.N, np.diag(errors)
        return replace(self, Q=np.hstack([self.Q, V]), C=np.hstack([self.C, Y]), N=N)

    def without(self, n: int) -> Shown:
        """Less its first n columns."""
        return replace(self, Q=self.Q[:, n:], C=self.C[:, n:], N=self.N[n:])

    def turned(self, U: Reals) -> Shown:
        """On the basis Q U: nothing has to be opened for it. N keeps no more columns than it has rows."""
        N = U.T @ self.N
        if N.shape[1] > N.shape[0]:
            N = np.linalg.qr(N.T)[1].T
        return replace(self, Q=self.Q @ U, C=self.C @ U, N=N)

    def scaled(self, s: float, error: float) -> Shown:
        """As if c were s times as large, where s itself is off by `error`: by that much of each column."""
        off = error * np.linalg.norm(self.C, axis=0)
        return replace(self, C=s * self.C, N=np.column_stack([s * self.N, off]), level=s * self.level)

    def asymmetry(self, b: int) -> tuple[Reals, Reals]:
        """Q^T C - C^T Q for the last b columns, and what is allowed: (m, b) each.

        q_i.C_j differs from C_i.q_j by q_i.E_j - E_i.q_j, at most the lengths of both; a length, not its part along one
        direction: near an invariant space q_i itself is made of the noise of C_j. And 8 times float64's rounding.
        """
        new = slice(self.m - b, None)
        found = self.Q.T @ self.C[:, new] - self.C.T @ self.Q[:, new]
        allowed = self.errors[:, None] + self.errors[None, new] + 8 * self.rounding
        return found, allowed


@dataclass(frozen=True)
class RitzVectors:
    """theta : (m,), largest first; U : (m, m); noise : (m,), how far c S X may be off in each column; core : (m, m)

    inner : (m,), the same within the span of Q
    """

    theta: Reals
    U: Reals
    noise: Reals
    inner: Reals
    core: Reals


def ritz(shown: Shown) -> RitzVectors:
    """Rayleigh-Ritz on all that was shown.

    Q^T C has each number twice, q_i.C_j and q_j.C_i, the first with the noise of column j: weighted by the other's
    variance, small columns, opened finely, are not spoilt by large ones.
    """
    H, e = shown.Q.T @ shown.C, shown.errors**2 + np.finfo(np.float64).tiny
    weight = e[:, None] / np.add.outer(e, e)
    core = weight * H + (weight * H).T
    theta, U = np.linalg.eigh(core)
    theta, U = theta[::-1], U[:, ::-1]
    (whole, inside), n = shown.factors, np.linalg.norm(shown.N.T @ U, axis=0)
    return RitzVectors(theta, U, whole * n + shown.rounding, inside * n + shown.rounding, core)


@dataclass(frozen=True)
class Sines:
    """How far the first k Ritz vectors are from singular vectors at most, as sines.

    columns : (k,), each of them; span : all of them together
    least : (k + 1,), what of these (columns, then span) noise alone makes
    tied : (k, k + 1), pairs that cannot be told apart; the last column: from those that were not asked for
    """

    columns: Reals
    span: float
    least: Reals
    tied: NDArray[np.bool_] = field(repr=False)

    @property
    def all(self) -> Reals:
        return np.append(self.columns, self.span)


def sines(shown: Shown, found: RitzVectors, k: int) -> Sines:
    """Davis and Kahan, column by column.

    With r_i = c S x_i - theta_i x_i, found from C up to `noise`, an eigenvector w_j has |w_j.x_i| = |w_j.r_i| /
    |lambda_j - theta_i|. So

        ||W_rest^T x_i||  <=  ||r_i|| / (theta_i - lambda_(k+1))                                =: out_i
        span              <=  sqrt(sum_i out_i^2)
        |w_j.x_i|         <=  (||X^T r_i|| + span ||r_i||) / (|theta_i - theta_j| - ||r_j||)     for j <= k

    The last by w_j = X X^T w_j + a rest of at most `span`. For lambda_(k+1), which no Q bounds from above, stands
    theta_(k+1) + ||r_(k+1)||: true unless the start has missed a direction.
    """
    m = shown.m
    top = slice(min(k + 1, m))
    theta, X = found.theta[top], shown.Q @ found.U[:, top]
    residual = shown.C @ found.U[:, top] - X * theta
    sizes = np.linalg.norm(residual, axis=0)
    inner = np.linalg.norm(X[:, :k].T @ residual, axis=0)
    least = len(X) * EPS  # what float64 makes of X itself
    columns, span, tied = davis_kahan(theta, sizes + found.noise[top], inner + found.inner[top], k, least)
    floor, floor_span, _ = davis_kahan(theta, found.noise[top], found.inner[top], k, least)
    return Sines(columns, span, np.append(floor, floor_span), tied)


def davis_kahan(theta: Reals, r: Reals, inner: Reals, k: int, least: float) -> tuple[Reals, float, NDArray[np.bool_]]:
    out = np.full(k, least)
    if len(theta) > k:
        out += _over(r[:k], theta[:k] - (theta[k] + r[k]))
    span = min(1.0, float(np.linalg.norm(out)))
    theta, r = theta[:k], r[:k]
    coupling = np.minimum(inner[:k] + span * r, r)
    gaps = np.abs(np.subtract.outer(theta, theta)) - r
    np.fill_diagonal(gaps, np.inf)
    pairs = _over(coupling[:, None], gaps)
    columns = np.minimum(1.0, np.sqrt(out**2 + np.sum(pairs**2, axis=1)))
    tied = np.column_stack([(pairs >= 1.0) | (pairs >= 1.0).T, out >= 1.0])
    return columns, span, tied


def _over(length: Reals, gap: Reals) -> Reals:
    """A sine of at most length/gap; 1 where that says nothing."""
    sines: Reals = np.where(gap > length, length / np.where(gap > 0, gap, 1.0), 1.0)
    return sines


def beyond(Q: Reals, Z: Reals) -> Reals:
    """What is left of Z beside the span of Q: taken off twice, for rounding."""
    for _ in range(2):
        Z = Z - Q @ (Q.T @ Z)
    return Z
