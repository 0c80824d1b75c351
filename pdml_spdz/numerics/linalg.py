"""Local linear algebra of one party: its covariance as matrix or operator, orthonormal bases, angles between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from pdml_spdz.numerics import sparse as sp
from pdml_spdz.numerics.fixedpoint import Reals

Rows: TypeAlias = Any  # Reals or a scipy.sparse CSR array (scipy states no types)
EPS = float(np.finfo(np.float64).eps)

GRAM_BYTES = 2 << 30  # never form a Gram matrix above this size
EXPECTED_ITERATIONS = 100  # what the choice between the two forms reckons with, if tau allows as many
SPARSE_PENALTY = 4.0  # a flop on sparse rows costs about this many dense ones
# With a few columns BLAS spends most of a product on rearranging the rows, unless it is so small that it does without:
# then block after block, each in the cache for both of its products, takes less time on one or two threads.
SMALL_PRODUCT = 900_000  # multiplications
FEWEST_ROWS = 6  # of a block: adding up (d, k) for every block must not cost more than it gains


def as_rows(X: Rows) -> Rows:
    """X as all code below takes it: float64, and either CSR or a contiguous array."""
    return sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.ascontiguousarray(X, np.float64)


def dense(X: Rows) -> Reals:
    """X as an array, whatever it was."""
    array: Reals = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    return array


def entries(X: Rows) -> Reals:
    """What X stores: of sparse rows a vector without the zeros in between."""
    stored: Reals = X.data if sp.issparse(X) else X
    return stored


def squares(X: Rows) -> float:
    """||X||_F^2."""
    return float(np.vdot(entries(X), entries(X)))


def over(X: Rows, scale: Reals) -> Rows:
    """X / scale, column by column."""
    return sp.csr_array(X.multiply(1.0 / scale)) if sp.issparse(X) else X / scale


class Covariance(ABC):
    """S = X^T X of shape (d, d) for one party's rows X of shape (n, d)."""

    d: int
    measure = "trace"  # what `norm_bound` is: the trace of S, or its Frobenius norm

    @abstractmethod
    def times(self, V: Reals) -> Reals:
        """S V, of shape (d, k)."""

    @abstractmethod
    def norm_bound(self) -> float:
        """An upper bound of ||S||_F (and so of every entry of S v for a unit v)."""

    @abstractmethod
    def trace(self) -> float:
        """||X||_F^2."""


class GramMatrix(Covariance):
    """S formed once: O(n d^2) once, O(d^2 k) for each product."""

    measure = "frobenius"

    def __init__(self, X: Rows) -> None:
        self.S = dense(X.T @ X)
        self.d = X.shape[1]

    def times(self, V: Reals) -> Reals:
        return self.S @ V

    def norm_bound(self) -> float:
        return float(np.linalg.norm(self.S))

    def trace(self) -> float:
        return float(np.trace(self.S))


class GramOperator(Covariance):
    """S never formed: O(n d k), or O(nnz k) for sparse rows, for each product."""

    def __init__(self, X: Rows) -> None:
        self.X = X
        self.d = X.shape[1]
        self._threads = max((library["num_threads"] for library in threadpool_info()), default=1)

    def times(self, V: Reals) -> Reals:
        if sp.issparse(self.X) or (rows := SMALL_PRODUCT // V.size) < FEWEST_ROWS or self._threads > 2:
            product: Reals = np.asarray(self.X.T @ (self.X @ V))
            return product
        product = np.zeros(V.shape)
        for i in range(0, len(self.X), rows):
            block = self.X[i : i + rows]
            product += block.T @ (block @ V)
        return product

    def norm_bound(self) -> float:
        return self.trace()  # ||X^T X||_F is at most that, and nothing has to be formed

    def trace(self) -> float:
        return squares(self.X)


class Centred(Covariance):
    """(X - 1 mu^T)^T (X - 1 mu^T) for sparse rows, which stay so: X^T X - t mu^T - mu t^T + n mu mu^T, t = X^T 1."""

    def __init__(self, X: Rows, mu: Reals, inner: Covariance) -> None:
        self.n, self.d = X.shape
        self.mu, self.t, self.inner = mu, column_sums(X), inner
        self._size = squares(X)

    def times(self, V: Reals) -> Reals:
        mu_V = self.mu @ V
        rest: Reals = np.outer(self.t, mu_V) + np.outer(self.mu, self.t @ V - self.n * mu_V)
        return self.inner.times(V) - rest

    def norm_bound(self) -> float:
        return self.trace()

    def trace(self) -> float:
        # Never below zero by rounding.
        moved = self._size - 2.0 * float(self.mu @ self.t) + self.n * float(self.mu @ self.mu)
        return float(max(moved, EPS * self._size))


class AroundOwnMean(Covariance):
    """X^T X as the covariance around the rows' own mean mu and what that mean adds, n mu mu^T.

    Where the mean is taken off later, under secret sharing, what float64 rounds is relative to the deviations, but for
    the last term: that is rounded anew in every product, so that the error is not symmetric, and shows.
    """

    def __init__(self, inner: Covariance, mu: Reals, n: int) -> None:
        self.inner, self.mu, self.n, self.d = inner, mu, n, inner.d
        self.measure = inner.measure

    def times(self, V: Reals) -> Reals:
        return self.inner.times(V) + np.outer(self.n * self.mu, self.mu @ V)

    def norm_bound(self) -> float:
        if self.measure == "trace":
            return self.trace()
        # ||C + n mu mu^T||_F^2
        across = 2 * self.n * float(self.mu @ self.inner.times(self.mu[:, None])[:, 0])
        return float(np.sqrt(self.inner.norm_bound() ** 2 + across + self._of_mean() ** 2))

    def trace(self) -> float:
        return self.inner.trace() + self._of_mean()

    def _of_mean(self) -> float:
        return self.n * float(self.mu @ self.mu)


def column_sums(X: Rows) -> Reals:
    sums: Reals = np.asarray(X.sum(axis=0), np.float64).reshape(-1)
    return sums


def centred_covariance(X: Rows, mu: Reals, k: int, tau: int) -> Covariance:
    """`covariance` of the rows less mu."""
    if not sp.issparse(X):
        return covariance(X - mu, k, tau)
    return Centred(X, mu, covariance(X, k, tau))


def covariance_around_own_mean(X: Rows, k: int, tau: int) -> Covariance:
    """`covariance`, for rows whose mean is taken off later. Sparse rows stay so, and are rounded as they are."""
    n = X.shape[0]
    if sp.issparse(X) or n == 0:
        return covariance(X, k, tau)
    mu = column_sums(X) / n
    return AroundOwnMean(covariance(X - mu, k, tau), mu, n)


def covariance(X: Rows, k: int, tau: int) -> Covariance:
    """The cheaper form of X^T X for tau products with k columns."""
    n, d = X.shape
    products = k * min(tau, EXPECTED_ITERATIONS)
    if sp.issparse(X):
        row_sizes = np.diff(X.indptr).astype(np.float64)
        build, operator = SPARSE_PENALTY * float(row_sizes @ row_sizes), SPARSE_PENALTY * 4.0 * products * X.nnz
    else:
        build, operator = float(n) * d * d, 4.0 * products * n * d
    gram = build + 2.0 * products * d * d
    fits = 8 * d * d <= GRAM_BYTES
    return GramMatrix(X) if fits and gram <= operator else GramOperator(X)


def orthonormalise(Y: Reals) -> tuple[Reals, Reals]:
    """Q with orthonormal columns and r = diag(R) >= 0 of the QR factorisation Y = Q R.

    With a non-negative diagonal Q is unique, so centralised and distributed iterations can be compared column by
    column, and scaling a column of Y by a positive number leaves Q as it is.
    """
    Q, R = np.linalg.qr(Y)
    signs = np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q * signs, np.abs(np.diag(R))


def qr_tolerance(r: Reals, d: int) -> Reals:
    """How far column i of Q may differ between two correct computations on the same unit columns.

    QR amplifies rounding by the reciprocal of how much of a column is left after the earlier ones are removed; 1e-10 is
    the agreed floor.
    """
    left = np.minimum.accumulate(np.maximum(r, EPS))
    tolerance: Reals = np.maximum(1e-10, 8.0 * d * EPS / left)
    return tolerance


def fix_signs(V: Reals) -> Reals:
    """V with each column's largest entry (in size) made positive: a singular vector is defined up to its sign."""
    largest = np.take_along_axis(V, np.argmax(np.abs(V), axis=0)[None, :], axis=0)
    return V * np.where(largest < 0, -1.0, 1.0)


def sine(V: Reals, W: Reals) -> float:
    """Sine of the largest principal angle between the column spaces of two orthonormal bases;
    1 if W has more columns.
    """
    if W.shape[1] > V.shape[1]:
        return 1.0
    rest = W - V @ (V.T @ W)
    # The largest singular value of a tall matrix, and no other: that of its Gram matrix is as exact.
    return min(1.0, float(np.sqrt(max(np.linalg.eigvalsh(rest.T @ rest)[-1], 0.0))))


def gaussian(rng: np.random.Generator, d: int, k: int, deviation: float) -> NDArray[np.float64]:
    return deviation * rng.standard_normal((d, k))
