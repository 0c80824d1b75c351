"""A party's covariance: formed, or as the operator V -> X^T (X V); around a mean, or not."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import EPS
from pdml_spdz.rows.base import Rows, RowsLike, as_rows

GRAM_BYTES = 2 << 30  # never form a Gram matrix above this size
EXPECTED_ITERATIONS = 100  # what the choice between the two forms reckons with, if tau allows as many


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

    def __init__(self, X: RowsLike) -> None:
        self.S = as_rows(X).gram()
        self.d = len(self.S)

    def times(self, V: Reals) -> Reals:
        return self.S @ V

    def norm_bound(self) -> float:
        return float(np.linalg.norm(self.S))

    def trace(self) -> float:
        return float(np.trace(self.S))


class GramOperator(Covariance):
    """S never formed: O(n d k), or O(nnz k) for sparse rows, for each product."""

    def __init__(self, X: RowsLike) -> None:
        self.X = as_rows(X)
        self.d = self.X.shape[1]

    def times(self, V: Reals) -> Reals:
        return self.X.gram_times(V)

    def norm_bound(self) -> float:
        return self.trace()  # ||X^T X||_F is at most that, and nothing has to be formed

    def trace(self) -> float:
        return self.X.squares()


class Centred(Covariance):
    """(X - 1 mu^T)^T (X - 1 mu^T) for sparse rows, which stay so: X^T X - t mu^T - mu t^T + n mu mu^T, t = X^T 1."""

    def __init__(self, X: Rows, mu: Reals, inner: Covariance) -> None:
        self.n, self.d = X.shape
        self.mu, self.t, self.inner = mu, X.column_sums(), inner
        self._size = X.squares()

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
    """X^T X of rows Y + 1 mu^T: Y^T Y, which is around the rows' own mean, and what that mean adds, n mu mu^T; and
    t mu^T + mu t^T, t the sums of Y, where of some features it was not taken off (mu is 0 there).

    Where the mean is taken off later, under secret sharing, what float64 rounds is relative to the deviations, but for
    the last terms: they are rounded anew in every product, so that the error is not symmetric, and shows.
    """

    def __init__(self, inner: Covariance, mu: Reals, n: int, t: Reals | None = None) -> None:
        self.inner, self.mu, self.n, self.d = inner, mu, n, inner.d
        self.t = np.zeros(self.d) if t is None else t
        self.measure = inner.measure if t is None else "trace"

    def times(self, V: Reals) -> Reals:
        mu_V = self.mu @ V
        return self.inner.times(V) + np.outer(self.n * self.mu + self.t, mu_V) + np.outer(self.mu, self.t @ V)

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


def centred_covariance(X: RowsLike, mu: Reals, k: int, tau: int) -> Covariance:
    """`covariance` of the rows less mu."""
    rows = as_rows(X)
    if not rows.sparse:
        return covariance(rows.shifted(mu), k, tau)
    moved, left = rows.less(mu)
    return Centred(moved, left, covariance(moved, k, tau))


def covariance_around_own_mean(X: RowsLike, k: int, tau: int) -> Covariance:
    """`covariance`, for rows whose mean is taken off later."""
    rows = as_rows(X)
    n = rows.shape[0]
    if n == 0:
        return covariance(rows, k, tau)
    mu = rows.column_sums() / n
    if not rows.sparse:
        return AroundOwnMean(covariance(rows.shifted(mu), k, tau), mu, n)
    moved, left = rows.less(mu)
    if np.array_equal(left, mu):
        return covariance(rows, k, tau)
    # Where it was taken off, Y has sums of 0 but for rounding, which those that are taken off later do not have either.
    return AroundOwnMean(covariance(moved, k, tau), mu - left, n, np.where(left == mu, n * mu, 0.0))


def covariance(X: RowsLike, k: int, tau: int) -> Covariance:
    """The cheaper form of X^T X for tau products with k columns."""
    rows = as_rows(X)
    d, products = rows.shape[1], k * min(tau, EXPECTED_ITERATIONS)
    cost, calls = rows.work(), min(tau, EXPECTED_ITERATIONS)
    by_operator = products * cost.column + calls * cost.product
    fits = 8 * d * d <= GRAM_BYTES
    return GramMatrix(rows) if fits and cost.gram + 2.0 * products * d * d <= by_operator else GramOperator(rows)
