"""Every engine with every opening, solver and algorithm: which of them go together, and how a study asks for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.study.algorithm import ALGORITHMS, SUMS
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.levels import LEVELS, OPENINGS
from pdml_spdz.study.model import NmfSettings, PrecisionSettings
from pdml_spdz.study.solvers import SOLVERS
from tests.embedded.test_svd import noise
from tests.nmf.helpers import centralised, rounding

D, K = 5, 2
# How a study asks for an opening.
ASKED: dict[str, dict[str, Any]] = {
    "sum": {"reveal": "sum"},
    "one-scale": {},
    "per-column": {"normalise": "per-column"},
    "paper": {"normalise": "per-column", "program": "paper"},
    "centred": {"centre": "hidden"},
    "sealed": {"bound": "exponent"},
    "sealed-hidden": {"bound": "exponent", "ratios": "hidden"},
}
MACHINES = ("mp-spdz",)  # engines that have virtual machines to start: a few iterations, fewer bits


@dataclass(frozen=True)
class Case:
    engine: str
    opening: str
    solver: str
    algorithm: str

    def __str__(self) -> str:
        return "-".join((self.engine, self.opening, self.solver, self.algorithm))

    @property
    def spec(self) -> Any:
        return ALGORITHMS[self.algorithm]

    @property
    def machines(self) -> bool:
        return self.engine in MACHINES

    @property
    def transport(self) -> str:
        return "processes" if self.machines else "threads"

    @property
    def bits(self) -> int:
        return 20 if self.machines else 31

    @property
    def iterations(self) -> int:
        if self.machines:
            return 4
        return 6 if self.opening == "per-column" else 12  # each of them a whole NormedSecSum for each column

    def settings(self, **others: Any) -> dict[str, Any]:
        """Of a study that asks for it; rows are within the bound."""
        asked = {"engine": self.engine, "reveal": OPENINGS[self.opening].level, "bound": "10", "rank": K}
        if not self.spec.vector:
            asked |= {"tol": 0.0, "start": "seed", "seed": 5, "iterations": self.iterations}
        else:
            asked |= {"rank": 1}
        if "solver" not in self.spec.idle:
            asked["solver"] = self.solver
        if self.machines:
            asked |= {"protocol": "semi", "precision": PrecisionSettings(self.bits, 20)}
        if self.algorithm == "nmf":
            asked["nmf"] = NmfSettings(init="random")
        how = ASKED[self.opening]
        if self.spec.vector:  # a vector has one column, which is normalised by itself
            how = {name: value for name, value in how.items() if name != "normalise"}
        return asked | {"algorithm": self.algorithm} | how | others

    def refused(self) -> str | None:
        """What is said of a study that asks for it, where that is impossible."""
        opening, solver = OPENINGS[self.opening], SOLVERS[self.solver]
        if self.opening not in ENGINES[self.engine].openings:
            return f"`engine` is {self.engine!r}, which has no opening {self.opening!r}"
        if "solver" not in self.spec.idle and solver.common_scale and not opening.common_scale:
            return f"`solver` is {self.solver!r}, and each column is normalised by itself"
        if self.opening == "centred" and "centre" not in self.spec.own:
            return f"`centre` is 'hidden' for {self.algorithm}."
        if self.spec.needs == SUMS and self.opening != "sum":
            return f"`reveal` is {opening.level!r} for {self.algorithm}."
        return None

    @property
    def exists(self) -> bool:
        """Whether there are words for it: a single vector has no scale of a fit, and no solver; a sealed fit has no
        solver either, and nothing to resume (tests/parties/test_sealed.py)."""
        if LEVELS[OPENINGS[self.opening].level].sealed:
            return False
        if self.spec.vector and self.opening in ("one-scale", "centred"):
            return False
        return "solver" not in self.spec.idle or self.solver == next(iter(SOLVERS.lines))

    # ---- what it is to come to

    def tables(self, M: int = 2) -> list[np.ndarray]:
        """Rows whose singular values are a factor of three apart, around a mean; no entry is negative."""
        rows = [np.random.default_rng(m).uniform(size=(8 + m, D)) * 3.0 ** -np.arange(D) for m in range(M)]
        return [x[:1] for x in rows] if self.spec.vector else rows

    def long_tables(self, M: int = 2) -> list[np.ndarray]:
        """Rows on which the solver is busy for a while, also one that makes use of all that it has seen."""
        if not (self.solved and SOLVERS[self.solver].common_scale):
            return self.tables(M)
        n, d = 150, 240
        return [np.random.default_rng(m).uniform(size=(n, d)) * 0.995 ** np.arange(d) / n for m in range(M)]

    @property
    def solved(self) -> bool:
        return "solver" not in self.spec.idle

    def check(
        self, tables: list[np.ndarray], found: np.ndarray, start: np.ndarray | None, report: dict[str, Any]
    ) -> None:
        """The result of the pooled rows, up to rounding, or to what the report says itself.

        start : what the iterations began from, if there are any
        """
        pooled, M, iterations = np.concatenate(tables), len(tables), report.get("iterations", 1)
        if self.spec.vector:
            s = pooled.sum(axis=0)
            assert np.linalg.norm(found - s / np.linalg.norm(s)) <= self._noise(M)
            return
        assert start is not None
        if self.spec.needs == SUMS:
            settings = SweepSettings(iterations, 0.0, 20.0)
            tolerance = rounding(pooled, start, settings, M)[1]
            assert np.abs(found - centralised(pooled, start, settings)[1]).max() <= tolerance
            return
        X = pooled - pooled.mean(axis=0) if self.algorithm == "pca" else pooled
        _, sigma, rows = np.linalg.svd(X, full_matrices=False)
        if (bound := report.get("sine_bound")) is not None:  # a solver that says itself how far it may be off
            left = found - rows[:K].T @ (rows[:K] @ found)
            assert np.linalg.norm(left, 2) <= bound["span"]
            if self.solver != "power":
                return
        gaps = (sigma[1 : K + 1] / sigma[:K]) ** 2
        # Power shrinks what the start has of later vectors by each gap in each iteration, other solvers by more; noise
        # of all iterations adds up to that of one over (1 - gap), and the gap magnifies it (Davis and Kahan).
        for i, q in enumerate(gaps):
            basis = rows[: i + 1] @ start[:, : i + 1]
            rest = rows[i + 1 :] @ start[:, : i + 1]
            tilted = np.linalg.norm(rest, 2) / np.linalg.svd(basis, compute_uv=False)[-1]
            left = found[:, : i + 1] - rows[: i + 1].T @ (rows[: i + 1] @ found[:, : i + 1])
            magnified = (sigma[0] / sigma[i]) ** 2 * 4 * np.sqrt(K) / (1 - q) ** 2
            assert np.linalg.norm(left, 2) <= tilted * q**iterations + magnified * self._noise(M)

    def _noise(self, M: int) -> float:
        """How far an opened column may be off in l2, relative to its length."""
        if self.opening == "sum":
            # Float64's 52 bits, or 44 below a bound that is at most some 100 times the shortest column.
            return noise(M, D, 52 if ENGINES[self.engine].in_the_clear else 43 - 7)
        if self.opening == "paper":  # its squares have so many bits, so half of them is what can be hoped for
            return float(np.sqrt(D) * 2.0 ** (-self.bits / 2))
        return noise(M, D, self.bits)


def pairs(case: Case) -> set[tuple[str, ...]]:
    """Of engine, opening, solver and algorithm any two together, with their names."""
    return set(itertools.combinations([f"{name} {value}" for name, value in vars(case).items()], 2))


def covering(cases: list[Case]) -> list[Case]:
    """Few of the cases, with every pair that any of them has: each time the one that has most of what is missing."""
    missing, chosen = set().union(*map(pairs, cases)), list[Case]()
    while missing:
        chosen.append(max(cases, key=lambda case: len(pairs(case) & missing)))
        missing -= pairs(chosen[-1])
    return chosen


def _marked(case: Case) -> Any:
    if not case.machines:
        return pytest.param(case, id=str(case))
    skip = pytest.mark.skipif(home.find() is None, reason=home.missing_text())
    return pytest.param(case, id=str(case), marks=[pytest.mark.spdz_long, skip])


ALL = [
    case
    for names in itertools.product(ENGINES.lines, OPENINGS.lines, SOLVERS.lines, ALGORITHMS.lines)
    if (case := Case(*names)).exists
]
POSSIBLE = [_marked(case) for case in ALL if case.refused() is None]
IMPOSSIBLE = [pytest.param(case, id=str(case)) for case in ALL if case.refused() is not None]
ITERATED = [param for param in POSSIBLE if not param.values[0].spec.vector]
FEW = covering([param.values[0] for param in ITERATED if not param.values[0].machines])
# What is cut off and goes on: every pair in `make test`, everything else in the long tests.
CUT_OFF = [
    param
    if param.values[0].machines or param.values[0] in FEW
    else pytest.param(*param.values, id=param.id, marks=pytest.mark.long)
    for param in ITERATED
]
