"""PD-SVD's loop at one party on MP-SPDZ, with every number that goes in and out, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdml_spdz.engines.mp_spdz.execution import MpSpdzExecution, MpSpdzRunner
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.engines.openings.per_column import PerColumn
from pdml_spdz.numerics.linalg import orthonormalise
from pdml_spdz.programs.precision import F_G, Precision
from pdml_spdz.programs.render import Program, render
from tests.embedded.test_normed_sum import error_bound

FIT, STREAM, CALLS = "one scale", "stream", "one machine a column"
SMALL = (10, 10)  # fraction bits and range: the fewest random bits, which is what takes time beyond two parties


class Recorder(MpSpdzRunner):
    """Keeps every call: this party's block, what was public, and what was opened."""

    def __init__(self, place: Place, precision: Precision, bound: float, offline: str = "on-demand") -> None:
        super().__init__(place, precision, bound, offline, b"test")
        self.calls: list[tuple[np.ndarray, list[int], np.ndarray]] = []

    def start(self, program: Program) -> MpSpdzExecution:
        execution = super().start(program)
        call = execution.call

        def recording(x, publics, more=()):  # type: ignore[no-untyped-def]
            y = call(x, publics, more)
            self.calls.append((x.copy(), list(publics), y.copy()))
            return y

        execution.call = recording  # type: ignore[method-assign]
        return execution


@dataclass(frozen=True)
class Problem:
    """S_m of every party, relative to a bound that is not 1, and a start."""

    S: np.ndarray
    V: np.ndarray
    bound: float

    @classmethod
    def random(cls, M: int, d: int, k: int, seed: int = 0) -> Problem:
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(M, d, d)) * np.geomspace(1.0, 0.3, d)
        S = A.transpose(0, 2, 1) @ A
        V, _ = orthonormalise(rng.normal(size=(d, k)))
        return cls(S, V, float(np.sqrt(k) * np.sum(np.linalg.norm(S, axis=(1, 2)))))


def program_of(way: str, p: Precision, d: int, k: int, tau: int, name: str = "semi") -> Program:
    """As the engine renders it for this protocol."""
    program = "scaled_sum" if way == FIT else "normed_sum"
    columns, iterations = (k, tau) if way in (FIT, STREAM) else (1, 1)
    return render(program, p, d, columns, iterations, own_masks=protocol(name).own_masks)


def loop(runner: Recorder, problem: Problem, way: str, tau: int) -> Recorder:
    """tau iterations at one party; everything ends with them."""
    (d, k), me = problem.V.shape, runner.place.link.me
    program = program_of(way, runner.precision, d, k, tau, runner.place.protocol.name)
    try:
        if way == FIT:
            normed_sum: FixedScale | PerColumn = FixedScale(runner, program)
        else:
            normed_sum = PerColumn(runner, program, k if way == STREAM else 1, stream=way == STREAM)
        V = problem.V
        for _ in range(tau):
            V, _ = orthonormalise(normed_sum(problem.S[me] @ V, V).U)
        runner.finish()
    finally:
        runner.close()
    return runner


def check_opened(way: str, recorders: Sequence[Recorder], p: Precision) -> int:
    """What was opened is the same at all parties, and right to the promised bit; returns in how many calls."""
    calls = list(zip(*(recorder.calls for recorder in recorders), strict=False))
    sums = [(sum(x for x, _, _ in call), call[0][1]) for call in calls]
    for call, y in zip(calls, exact(way, sums), strict=True):
        for _, publics, opened in call:
            np.testing.assert_array_equal(opened, call[0][2])
            assert publics == call[0][1]
        assert np.all(np.abs(call[0][2] - y) <= tolerance(p, y))
    return len(calls)


def exact(way: str, calls: Sequence[tuple[np.ndarray, list[int]]]) -> list[np.ndarray]:
    """y of every call by NumPy. calls : the sum of all parties' blocks, and what was public"""
    found: list[np.ndarray] = []
    c: np.ndarray | float = 0.0
    for s, publics in calls:
        if way != FIT or not found:
            rho = np.sum(read_g(publics, *s.shape) * s, axis=0)
            c = s.shape[1] / np.sum(rho) if way == FIT else 1 / np.abs(rho)
        found.append(c * s)
    return found


def read_g(publics: list[int], d: int, k: int) -> np.ndarray:
    """g as the program has it."""
    return np.ldexp(np.array(publics[-d * k :], np.float64), -F_G).reshape(k, d).T


def tolerance(p: Precision, y: np.ndarray) -> np.ndarray:
    """`error_bound` for a projection that may be that of all columns together."""
    return error_bound(p, y.reshape(-1, 1)).reshape(y.shape)
