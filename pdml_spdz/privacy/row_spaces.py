"""Covariances with one more row, each on a small space that holds all that an iteration on it will meet.

S + x x^T, applied t times to V_0, leads nowhere but into the Krylov spaces of S from V_0 and from x. The first is the
same for every x; so a fit of S + x x^T is a fit of an (m, m) matrix, m some hundred, and many x cost little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pdml_spdz.algorithms.shown import beyond
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import orthonormalise

GONE = 1e-9  # of a vector of length 1: what is left of it, beside others, that is no more than rounding


@dataclass(frozen=True)
class Projected:
    """S = Phi A Phi^T, as far as it matters. Phi : (d, m), orthonormal, its first columns those of V_0; A : (m, m)

    part : (m, m), Phi^T S_A Phi
    """

    Phi: Reals
    A: Reals
    part: Reals


def projected(S: Reals, S_A: Reals, V_0: Reals, more: Reals, blocks: int) -> Iterator[Projected]:
    """Of S + x x^T for every row x of `more` (n, d), in turn; V_0 (d, b) orthonormal. S_A : a part of S, by itself too

    1. Q_0 <- the span of V_0, S V_0, .. S^(blocks-1) V_0, with C_0 = S Q_0
    2. K <- the span of x, S x, .. S^(blocks-1) x, all x at once
    3. Phi <- [Q_0 R], R an orthonormal basis of what K adds; A <- Phi^T (S + x x^T) Phi

    (S + x x^T)^j V_0 is in Phi for j < blocks. Where Phi would be everything, S itself is taken.
    """
    d, b = V_0.shape
    if (b + 1) * blocks >= d:
        whole = np.linalg.qr(np.column_stack([V_0, np.eye(d)]))[0]
        whole[:, :b] = V_0
        A, part = whole.T @ S @ whole, whole.T @ S_A @ whole
        for x in more:
            z = x @ whole
            yield Projected(whole, A + np.outer(z, z), part)
        return
    Q_0, C_0 = _block_krylov(S, V_0, blocks)
    H_0, C_A = Q_0.T @ C_0, S_A @ Q_0
    H_A, single = Q_0.T @ C_A, S_A.astype(np.float32)  # of a small part, which makes no difference
    for x, K, SK in zip(more, *_krylov_of_rows(S, more, blocks), strict=True):
        G = K @ Q_0
        left = K - G @ Q_0.T
        T = _basis(left)
        R, SR = (T @ left).T, (T @ (SK - G @ C_0.T)).T
        Phi = np.column_stack([Q_0, R])
        A, part = _bordered(H_0, C_0.T @ R, R.T @ SR), _bordered(H_A, C_A.T @ R, R.T @ (single @ R.astype(np.float32)))
        z = x @ Phi
        yield Projected(Phi, A + np.outer(z, z), part)


def _bordered(H: Reals, cross: Reals, corner: Reals) -> Reals:
    A = np.block([[H, cross], [cross.T, corner]])
    return np.asarray((A + A.T) / 2)


def _block_krylov(S: Reals, V: Reals, blocks: int) -> tuple[Reals, Reals]:
    """(Q, S Q)"""
    Q, C = V, S @ V
    last = C
    for _ in range(blocks - 1):
        V = orthonormalise(beyond(Q, orthonormalise(beyond(Q, last))[0]))[0]
        last = S @ V
        Q, C = np.column_stack([Q, V]), np.column_stack([C, last])
    return Q, C


def _krylov_of_rows(S: Reals, rows: Reals, blocks: int) -> tuple[Reals, Reals]:
    """K and K S, (n, blocks, d) each, K with orthonormal rows; rows of zeros where a space has come to its end.

    With full orthogonalisation, all rows at once: S is read once for all of them.
    """
    n, d = rows.shape
    K, KS = np.zeros((n, blocks, d)), np.zeros((n, blocks, d))
    w = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    for j in range(blocks):
        K[:, j], image = w, w @ S
        KS[:, j] = image
        sizes = np.linalg.norm(image, axis=1, keepdims=True)
        done = K[:, : j + 1]
        for _ in range(2):
            image = image - (np.matmul(done, image[:, :, None]).transpose(0, 2, 1) @ done)[:, 0]
        left = np.linalg.norm(image, axis=1, keepdims=True)
        w = np.where(left > GONE * sizes, image / np.maximum(left, 1e-300), 0.0)
    return K, KS


def _basis(Z: Reals) -> Reals:
    """T that makes the rows of T Z orthonormal; directions of which hardly anything is left in Z are left out."""
    values, T = np.linalg.eigh(Z @ Z.T)
    kept = values > 1e-12
    return np.asarray((T[:, kept] / np.sqrt(values[kept])).T)
