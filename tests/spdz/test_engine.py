"""NormedSecSum on MP-SPDZ's virtual machines: the numbers of the plain and the embedded engine, or nothing at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.engines.projection import GO_ON, FixedScale, PerColumn, public_integers
from pdml_spdz.errors import RangeExceeded
from pdml_spdz.linalg import orthonormalise
from pdml_spdz.precision import F_G, Precision
from pdml_spdz.programs import Program, render
from tests.embedded.helpers import run_program
from tests.embedded.test_normed_sum import error_bound
from tests.spdz.helpers import LONG, MARKS, REQUIRED, Place, Recorder, Site, machines

pytestmark = REQUIRED
FIT, STREAM, CALLS = "one scale", "stream", "one machine a column"
SMALL = (10, 10)  # fraction bits and range: the fewest random bits, which is what takes time beyond two parties


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


def program_of(way: str, p: Precision, d: int, k: int, tau: int) -> Program:
    if way == FIT:
        return render("scaled_sum", p, d, k, tau)
    return render("normed_sum", p, d, k, tau) if way == STREAM else render("normed_sum", p, d, 1)


def party(place: Place, problem: Problem, p: Precision, way: str, tau: int, offline: str = "on-demand") -> Recorder:
    """PD-SVD's loop at one party; everything ends with it."""
    d, k = problem.V.shape
    runner, program = Recorder(place, p, problem.bound, offline), program_of(way, p, d, k, tau)
    try:
        if way == FIT:
            normed_sum: FixedScale | PerColumn = FixedScale(runner, program)
        else:
            normed_sum = PerColumn(runner, program, k if way == STREAM else 1, stream=way == STREAM)
        V = problem.V
        for _ in range(tau):
            V, _ = orthonormalise(normed_sum(problem.S[place.link.me] @ V, V).U)
        runner.finish()
    finally:
        runner.close()
    return runner


def exact(way: str, calls: list[tuple[np.ndarray, list[int]]], bound: float) -> list[np.ndarray]:
    """y of every call by NumPy. calls : the sum of all parties' blocks, and what was public"""
    found, c = [], 0.0
    for s, publics in calls:
        d, k = s.shape
        if len(publics) >= d * k:
            g = np.ldexp(np.array(publics[-d * k :], np.float64), -F_G).reshape(k, d).T
            rho = np.sum(g * s, axis=0)
            c = k / np.sum(rho) if way == FIT else 1 / np.abs(rho)
        found.append(c * s)
    return found


def embedded(way: str, xs: np.ndarray, publics: list[int], p: Precision) -> np.ndarray:
    """y of the first call on the embedded engine, for xs relative to the bound."""
    _, d, k = xs.shape
    g = np.ldexp(np.array(publics[-d * k :], np.float64), -F_G).reshape(k, d).T
    name = "scaled_sum" if way == FIT else "normed_sum"
    return run_program(render(name, p, d, k), xs, g, p).y[0]


QUICK = [
    ("semi", 2, (31, 40), STREAM),
    ("semi", 2, (20, 20), CALLS),
    ("semi", 2, (31, 40), FIT),
    ("semi", 3, SMALL, STREAM),
    ("semi", 3, SMALL, FIT),
    ("mascot", 2, SMALL, FIT),
]
OTHERS = [
    ("semi", 3, SMALL, CALLS),
    ("semi", 4, SMALL, STREAM),
    ("semi", 4, SMALL, FIT),
    ("hemi", 2, (20, 40), STREAM),
    ("hemi", 3, (31, 40), FIT),
    ("mascot", 2, SMALL, STREAM),
    ("mascot", 2, SMALL, CALLS),
    ("mascot", 3, SMALL, FIT),
    ("semi2k", 2, (31, 40), STREAM),
    ("semi2k", 2, (31, 40), FIT),
    ("semi2k", 3, SMALL, FIT),
]


@pytest.mark.parametrize(
    ("protocol", "M", "bits", "way"),
    [pytest.param(*case, marks=MARKS) for case in QUICK] + [pytest.param(*case, marks=LONG) for case in OTHERS],
)
def test_same_numbers_as_plain_and_embedded(
    tmp_path: Path, temporary: Path, protocol: str, M: int, bits: tuple[int, int], way: str
) -> None:
    d, k, tau = (5, 2, 3) if M == 2 and protocol != "mascot" else (3, 1, 2)
    p, problem, site = Precision(M, *bits), Problem.random(M, d, k), Site(tmp_path, M, protocol)
    site.compile(program_of(way, p, d, k, tau), p)
    recorders = site.run(lambda place: party(place, problem, p, way, tau))
    calls = list(zip(*(recorder.calls for recorder in recorders), strict=True))
    assert len(calls) == tau * (k if way == CALLS else 1)
    sums = [(sum(x for x, _, _ in call), call[0][1]) for call in calls]
    for call, y in zip(calls, exact(way, sums, problem.bound), strict=True):
        for _, publics, opened in call:
            np.testing.assert_array_equal(opened, call[0][2])
            assert publics == call[0][1]
        assert np.all(np.abs(call[0][2] - y) <= tolerance(p, y))
    xs = np.stack([x for x, _, _ in calls[0]]) / problem.bound
    y = embedded(way, xs, calls[0][0][1], p)
    assert np.all(np.abs(calls[0][0][2] - y) <= 2 * tolerance(p, y))
    assert machines(tmp_path) == []
    assert list(temporary.iterdir()) == []


def tolerance(p: Precision, y: np.ndarray) -> np.ndarray:
    """`error_bound` for a projection that may be that of all columns together."""
    return error_bound(p, y.reshape(-1, 1)).reshape(y.shape)


@pytest.mark.parametrize("way", [STREAM, FIT])
@pytest.mark.parametrize("stock", [False, True], ids=["on demand", "stock"])
@pytest.mark.spdz
def test_sum_below_the_range_ends_at_every_party(tmp_path: Path, temporary: Path, way: str, stock: bool) -> None:
    d, k, tau = 3, 1, 2
    p, problem, site = Precision(2, *SMALL), Problem.random(2, d, k), Site(tmp_path, 2)
    tiny = Problem(problem.S * 2.0**-16, problem.V, problem.bound)
    program = program_of(way, p, d, k, tau)
    site.compile(program, p)
    if stock:
        site.make_stock(program, p)

    def ends(place: Place) -> None:
        with pytest.raises(RangeExceeded, match="too small for the agreed bound and range; nothing that depends"):
            party(place, tiny, p, way, tau, "stock" if stock else "on-demand")
        assert "Crash requested by program" in (place.logs / "vm.log").read_text()

    site.run(ends)
    assert machines(tmp_path) == []
    assert list(temporary.iterdir()) == []
    for m in range(2):
        left = {path.name for path in site.stocks(m).rglob("*")}
        assert left == ({"mp-spdz", "ledger.jsonl", f".making-{m}"} if stock else set())


@pytest.mark.spdz
def test_public_numbers_are_those_of_the_projection() -> None:
    """What `exact` reads them as."""
    g = np.array([[0.5], [-0.25]])
    assert [GO_ON, *public_integers(g)] == [0, 1 << 19, -(1 << 18)]
