"""`nmf_start.nnsvd` of several tables at once that differ in a few rows: a product with what they share is one for all.

Ref: Lanczos with full orthogonalisation, Golub, Van Loan, Matrix Computations, ch. 10.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from pdml_spdz.algorithms.nmf_start import nnsvd, positive_topics, sizes_by_sign
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import RowsLike, as_rows, stacked

MOST = 300  # steps; fewer than a hundred are usual
EVERY = 10  # steps, whether it is enough is asked


class Tables:
    """X_b = [X; own_b] of shape (n, d), over their largest entry, without columns that none of them has entries in."""

    def __init__(self, X: RowsLike, own: Reals) -> None:
        """own : (b, m, d)"""
        matrix = sp.csr_array(as_rows(X).csr())
        used = np.any(own, axis=(0, 1))
        used[matrix.indices] = True
        self.d, self.place = len(used), np.flatnonzero(used)
        largest = max(float(np.abs(some).max(initial=0.0)) for some in (matrix.data, own)) or 1.0
        self.X, self.own = sp.csr_array(matrix[:, self.place]) / largest, own[..., self.place] / largest
        self.transposed: Any = sp.csr_array(self.X.T)
        self.n = matrix.shape[0] + own.shape[1]

    def transposed_times(self, U: Reals) -> Reals:
        """X_b^T U_b, all (b, n, j) -> (b, d, j)"""
        b, _, j = U.shape
        n = self.X.shape[0]
        shared = self.transposed @ np.ascontiguousarray(U[:, :n].transpose(1, 0, 2)).reshape(n, b * j)
        return np.asarray(shared.reshape(-1, b, j).transpose(1, 0, 2) + self.own.swapaxes(1, 2) @ U[:, n:])

    def times(self, V: Reals) -> Reals:
        """X_b V_b"""
        b, d, j = V.shape
        shared = self.X @ np.ascontiguousarray(V.transpose(1, 0, 2)).reshape(d, b * j)
        return np.concatenate([shared.reshape(-1, b, j).transpose(1, 0, 2), self.own @ V], axis=1)


def starts(X: RowsLike, own: Reals, k: int) -> Reals:
    """(b, k, d): nnsvd of [X; own_b], to rounding."""
    tables = Tables(X, own)
    U = leading(tables, k) if k < tables.n <= tables.d else None
    if U is None:
        return np.array([nnsvd(stacked([X, rows]), k) for rows in own])
    V = tables.transposed_times(U)
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    topics, whole = [], np.zeros((k, tables.d))
    for V_b, XV in zip(V, tables.times(V), strict=True):
        whole[:, tables.place] = V_b.T
        topics.append(positive_topics(whole, sizes_by_sign(XV), k))
    return np.array(topics)


def leading(tables: Tables, k: int) -> Reals | None:
    """(b, n, k): the k leading left singular vectors of each, in their order; None: not found to rounding.

    1. Q <- an orthonormal basis of u, A u, A^2 u, ..; A = X_b X_b^T, tridiagonal in Q
    2. enough, when the last step changes none of the k leading eigenvectors: beta |s_last| <= eps lambda_1
    """
    b, most = len(tables.own), min(tables.n, MOST)
    Q, alpha, beta = np.zeros((b, most + 1, tables.n)), np.zeros((b, most)), np.zeros((b, most))
    Q[:, 0] = np.random.default_rng(0).normal(size=tables.n)
    Q[:, 0] /= np.linalg.norm(Q[:, 0], axis=1, keepdims=True)
    for j in range(most):
        w = tables.times(tables.transposed_times(Q[:, j, :, None]))
        basis = Q[:, : j + 1]
        for _ in range(2):  # once leaves what rounding has put in
            along = basis @ w
            w -= basis.swapaxes(1, 2) @ along
            alpha[:, j] += along[:, j, 0]
        beta[:, j] = np.linalg.norm(w[..., 0], axis=1)
        ended = bool(np.any(beta[:, j] <= EPS * alpha.max(axis=1)))
        if j + 1 >= k and (ended or j + 1 == most or (j + 1) % EVERY == 0):
            tops = (_top(alpha[i, : j + 1], beta[i, : j + 1], k) for i in range(b))
            found = [*takewhile(lambda top: top is not None, tops)]  # the first tells of most
            if len(found) == b:
                return np.array([basis[i].T @ S for i, S in enumerate(found)])
        if ended:
            return None
        Q[:, j + 1] = w[..., 0] / beta[:, [j]]
    return None


def _top(alpha: Reals, beta: Reals, k: int) -> Reals | None:
    """(j, k): the eigenvectors of the k largest eigenvalues of a tridiagonal matrix; None: a further step is needed."""
    j = len(alpha)
    values, S = la.eigh_tridiagonal(alpha, beta[: j - 1], select="i", select_range=(j - k, j - 1))
    left = float(np.abs(beta[j - 1] * S[-1]).max())
    return S[:, ::-1] if left <= EPS * values[-1] and values[0] > 0.0 else None
