"""The plain twin of an opening on secret shares: the same numbers, dither, ring and scales, without shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.algorithms import krylov
from pdml_spdz.algorithms.solver import Fitting, SvdResult, SvdSettings, start_by_seed
from pdml_spdz.algorithms.svd import PowerState, pd_svd
from pdml_spdz.engines.openings.base import Execution, Runner
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.primitives.normed_sum import Alone, NormedColumns
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.transport.base import Clock


@dataclass
class Matrix:
    """S itself."""

    S: np.ndarray

    def times(self, V: np.ndarray) -> np.ndarray:
        return self.S @ V


class TwinExecution(Execution):
    def __init__(self, runner: Twin) -> None:
        self.runner, self.c = runner, 0.0

    def call(self, x, publics, more=()):  # type: ignore[no-untyped-def]
        p, rng, k = self.runner.precision, self.runner.rng, x.shape[1]
        if len(publics) > 1:
            g = np.ldexp(np.array(publics, np.float64), -p.f_g).reshape(k, -1).T
            self.c = k / np.sum(g * x)
        units = np.ldexp(self.c * x, p.f_out)
        # M uniform dithers, and M - 1 carries of tails that are dropped: a variance of M/6 at most.
        dither = rng.uniform(0, 1, (2 * p.M, *x.shape)).sum(axis=0) - p.M
        opened, edge = np.rint(units + dither), 2.0 ** (p.open_bits - 1)
        wrapped = (opened + edge) % (2 * edge) - edge
        self.runner.wraps += int(np.sum(wrapped != opened))
        return np.ldexp(wrapped, -p.f_out)

    def finish(self) -> None:
        """Nothing runs."""


class Twin(Runner):
    """wraps : numbers that were too large for what is opened of them"""

    def __init__(self, M: int, rng: np.random.Generator, H: int = 13) -> None:
        super().__init__(Precision(M, H=H, f_g=52), 1.0)
        self.rng, self.wraps = rng, 0

    def start(self, program: Program) -> TwinExecution:
        return TwinExecution(self)


class Counting:
    """An opening, and how often it was asked."""

    def __init__(self, runner: Twin, columns: int = 0) -> None:
        self.runner, self.inner, self.calls = runner, FixedScale(runner, Program("twin", ""), (), columns), 0

    def __call__(self, x: np.ndarray, g: np.ndarray, lengths: np.ndarray | None = None) -> NormedColumns:
        self.calls += 1
        return self.inner(x, g, lengths)


@dataclass
class Case:
    """S, k and M; V : a start, or None for one from the seed"""

    S: np.ndarray
    k: int
    M: int = 3
    seed: int = 0
    V: np.ndarray | None = None
    H: int = 13

    def by_krylov(self, tol: float = 1e-7, tau: int = 60, memory: float = 1e9) -> tuple[SvdResult, Counting]:
        d, b = len(self.S), krylov.block_size(self.k, len(self.S))
        V = start_by_seed(d, b, self.seed, Alone()) if self.V is None else self.V
        opening = Counting(Twin(self.M, np.random.default_rng(self.seed), self.H), b)
        fitting = Fitting(Matrix(self.S), opening, Alone(), Clock())
        return krylov.pd_krylov(fitting, krylov.start(V), SvdSettings(self.k, tau, tol, memory)), opening

    def by_power(self, tol: float = 1e-9, tau: int = 3000) -> SvdResult:
        V = start_by_seed(len(self.S), self.k, self.seed, Alone())
        opening = Counting(Twin(self.M, np.random.default_rng(self.seed), self.H))
        settings = SvdSettings(self.k, tau, tol)
        return pd_svd(Fitting(Matrix(self.S), opening, Alone(), Clock()), PowerState(V), settings)


def off(V: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, float]:
    """Sines of the angles between the columns of V and the first of W, each, and between their spans."""
    W = W[:, : V.shape[1]]
    columns = np.linalg.norm(V - W * np.sum(W * V, axis=0), axis=0)
    return columns, float(np.linalg.norm(V - W @ (W.T @ V), 2))
