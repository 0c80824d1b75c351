"""Symmetric matrices that differ in one row of data, without forming each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dasum, sasum

from pdml_spdz.numerics.fixedpoint import Reals

Place = NDArray[np.int64]
BLOCK = 256  # rows of a matrix that are looked at together: they stay in the processor's cache


class Symmetric(ABC):
    """A symmetric matrix A (d, d). `place` are rows (and columns) of interest."""

    @abstractmethod
    def matrix(self) -> Reals:
        """All of it."""

    @abstractmethod
    def block(self, place: Place) -> Reals:
        """A[place, place]"""

    @abstractmethod
    def norm(self) -> float:
        """||A||_F"""

    @abstractmethod
    def outside(self, place: Place) -> tuple[float, float]:
        """(sum, max) of |A_ij| over all pairs that are not both in `place`."""


@dataclass(frozen=True)
class Magnitudes:
    """total : sum of |A_ij|; largest : (d,), the largest |A_ij| of each row"""

    total: float
    largest: Reals

    def outside(self, place: Place, block: Reals, rows: Reals) -> tuple[float, float]:
        """rows : A[place], of which the columns in `place` are overwritten"""
        rest = np.ones(len(self.largest), bool)
        rest[place] = False
        rows[:, place] = 0.0
        largest = max(float(self.largest[rest].max(initial=0.0)), float(np.abs(rows).max(initial=0.0)))
        return self.total - float(np.abs(block).sum()), largest


@dataclass(frozen=True)
class LowRank(Symmetric):
    """V diag(values) V^T, V (d, k) orthonormal, values not negative

    single : the sum over all entries in single precision, in half the time; it is exact to 2^-20 or so
    """

    V: Reals
    values: Reals
    single: bool = False

    def matrix(self) -> Reals:
        return np.asarray((self.V * self.values) @ self.V.T)

    def block(self, place: Place) -> Reals:
        return np.asarray((self.V[place] * self.values) @ self.V[place].T)

    def norm(self) -> float:
        return float(np.linalg.norm(self.values))

    @cached_property
    def _total(self) -> float:
        """Sum of |A_ij|"""
        V = self.V.astype(np.float32) if self.single else self.V
        scaled, absolute = V * self.values.astype(V.dtype), sasum if self.single else dasum
        total = 0.0
        for i in range(0, len(V), BLOCK):
            part = scaled[i : i + BLOCK] @ V[i:].T  # symmetric: the rest is its transpose
            total += 2.0 * float(absolute(part.reshape(-1))) - float(np.abs(part[:, :BLOCK]).sum())
        return total

    @cached_property
    def _diagonal(self) -> Reals:
        return np.asarray((self.V * self.V) @ self.values)

    def outside(self, place: Place) -> tuple[float, float]:
        """Between features that are both not in `place` no |A_ij| is larger than all A_ii: A is semidefinite."""
        rest = np.ones(len(self.V), bool)
        rest[place] = False
        rows = np.abs((self.V[place] * self.values) @ self.V.T)
        total = self._total - float(rows[:, place].sum())
        largest = float(rows[:, rest].max(initial=0.0)) if len(place) else 0.0
        return total, max(largest, float(self._diagonal[rest].max(initial=0.0)))


@dataclass(frozen=True)
class Whole(Symmetric):
    """A matrix as it is; what is looked up of it is kept, for all that differ from it in one row."""

    A: Reals

    def matrix(self) -> Reals:
        return self.A

    def block(self, place: Place) -> Reals:
        return self.A[np.ix_(place, place)]

    @cached_property
    def _norm(self) -> float:
        return float(np.linalg.norm(self.A))

    def norm(self) -> float:
        return self._norm

    @cached_property
    def _magnitudes(self) -> Magnitudes:
        size = np.abs(self.A)
        return Magnitudes(float(size.sum()), size.max(axis=1, initial=0.0))

    def outside(self, place: Place) -> tuple[float, float]:
        return self._magnitudes.outside(place, self.block(place), self.A[place])


@dataclass(frozen=True)
class OneMore(Symmetric):
    """scale (A + factor x x^T): A changes only between features that x has."""

    base: Whole
    x: Reals
    factor: float = 1.0
    scale: float = 1.0

    @cached_property
    def _place(self) -> Place:
        return np.flatnonzero(self.x)

    @cached_property
    def _change(self) -> Reals:
        part = self.x[self._place]
        return self.factor * np.outer(part, part)

    def matrix(self) -> Reals:
        A = self.base.A.copy()
        A[np.ix_(self._place, self._place)] += self._change
        return A * self.scale

    def trace(self) -> float:
        return self.scale * (float(np.trace(self.base.A)) + self.factor * float(self.x @ self.x))

    def block(self, place: Place) -> Reals:
        return self.scale * (self.base.block(place) + self.factor * np.outer(self.x[place], self.x[place]))

    def norm(self) -> float:
        old = self.base.block(self._place)
        squares = self.base.norm() ** 2 + float(np.sum((2.0 * old + self._change) * self._change))
        return self.scale * float(np.sqrt(max(squares, 0.0)))

    def outside(self, place: Place) -> tuple[float, float]:
        if not set(self._place.tolist()) <= set(place.tolist()):
            return Whole(self.matrix()).outside(place)
        total, largest = self.base.outside(place)
        return self.scale * total, self.scale * largest

    def times(self, y: Reals) -> Reals:
        place = np.flatnonzero(y)
        product = y[place] @ self.base.A[place]
        return np.asarray(self.scale * (product + self.factor * float(self.x @ y) * self.x))

    def diagonal(self) -> Reals:
        return np.asarray(self.scale * (np.diag(self.base.A) + self.factor * self.x * self.x))
