"""The paper's study of 10, 20 and 31 fraction bits: how far NormedSecSum and V_k are from exact arithmetic.

Two ways are compared: ours (inputs finer than the output by the range and guard bits) and the paper's (the same bits
for inputs, squares, root and output), whose arithmetic is imitated on integers, without its engine.
[PDML App. NormedSecSum, numerical precision]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.bench import embedded
from pdml_spdz.bench.links import run_processes
from pdml_spdz.bench.results import Cell, Check, Key, Measurement, Step, exact
from pdml_spdz.engines.embedded.plan import numbers_plan
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.openings.per_column import PER_COLUMN, PerColumn
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.threads import run_in_threads
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.numerics.linalg import gaussian, orthonormalise, sine
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import OUT_BITS, Precision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import PrecisionSettings
from pdml_spdz.transport.base import Link

Integers = NDArray[Any]  # of Python's own, of any size
F_EXACT = 200  # fraction bits of the reference
F_ROWS = 20  # of the rows of a study, so that S is exact
SEED = 1
M, K, TAU = 2, 3, 30
SMALLEST = (0, 10, 20, 30)  # norms are 2^-n of the bound


def measure(
    dims: Sequence[int] = (10, 30, 100),
    conditions: Sequence[float] = (1e1, 1e2, 1e3),
    bits: Sequence[int] = OUT_BITS,
    step: Step = lambda done, of, text: None,
) -> Measurement:
    of = len(dims) * (1 + len(conditions) * len(bits))
    cells: list[Cell] = []
    done = 0
    for d in dims:
        step(done, of, f"NormedSecSum, d = {d}")
        cells += _sums(d, bits)
        done += 1
        for condition in conditions:
            rows = study_rows(d, condition)
            reference = exact_subspace(rows, d)
            for f in bits:
                step(done, of, f"V_k, d = {d}, condition {condition:g}, {f} bits")
                cells += _subspaces(rows, reference, d, condition, f)
                done += 1
    step(of, of, "done")
    settings = {"dims": list(dims), "conditions": list(conditions), "bits": list(bits), "k": K, "tau": TAU}
    return Measurement("precision", settings, cells, _checks(cells), list(NOTES))


NOTES = (
    "error: the largest entry of u - s/||s||, or the sine of the largest angle between V_k and V_k of the same "
    "iterations in exact arithmetic (integers, 200 fraction bits).",
    "norm: ||s|| is 2^-norm of the bound. condition: sigma_1 / sigma_k of X.",
    "paper: its arithmetic (fixed point of f bits throughout), imitated on integers; nan: it divided by zero.",
)


def _sums(d: int, bits: Sequence[int]) -> list[Cell]:
    def party(link: Link) -> dict[tuple[int, int], float]:
        return {(f, n): _sum_error(link, d, f, n) for f in bits for n in SMALLEST}

    found = run_processes(M, party)[0]
    cells = []
    for (f, n), error in found.items():
        key: Key = {"what": "NormedSecSum", "bits": f, "d": d, "norm": n}
        cells.append(Cell(key | {"engine": "embedded"}, {"error": exact(error)}))
        x = [a * 2.0**-n for a in _addends(d)]
        u = paper_normed_sum([_integers(np.rint(np.ldexp(a, f)), 0) for a in x], f)
        wrong = math.nan if u is None else float(np.max(np.abs(_reals(u, f) - exact_direction(x))))
        cells.append(Cell(key | {"engine": "paper"}, {"error": exact(wrong)}))
    return cells


def _sum_error(link: Link, d: int, f: int, n: int) -> float:
    """Of ours, for a sum of norm 2^-n."""
    p = Precision(link.M, f)
    x = [a * 2.0**-n for a in _addends(d)]
    g = _addends(d)[0][:, None]  # not orthogonal to the sum
    plan, sec_sum = numbers_plan(PER_COLUMN, p, Shape(d, 1, 1)), MaskedSum(link, Keys.agree(link, embedded.SESSION))
    runner = EmbeddedRunner(sec_sum, p, 1.0, embedded.on_demand(link, p, n), plan.lots)
    normed = PerColumn(runner, plan.layout.program, 1)
    u = normed(x[link.me][:, None], g / np.linalg.norm(g)).U[:, 0]
    return float(np.max(np.abs(u - exact_direction(x))))


def _addends(d: int) -> list[Reals]:
    """M vectors whose sum has norm 1."""
    rng = np.random.default_rng(d)
    vectors = [rng.standard_normal(d) + 1.0 for _ in range(M)]
    norm = np.linalg.norm(np.sum(vectors, axis=0))
    return [v / norm for v in vectors]


def _subspaces(rows: list[Reals], reference: Reals, d: int, condition: float, f: int) -> list[Cell]:
    settings: dict[str, Any] = {"rank": K, "solver": "power", "iterations": TAU, "tol": 0.0}
    settings |= {"start": "seed", "seed": SEED}
    settings |= {"bound": "secsum"}  # as the paper has it; 40 bits below the default window there is nothing
    precision = PrecisionSettings(f, 40)
    study = local_study(M, engine="embedded", offline="on-demand", precision=precision, **settings)
    ours = run_in_threads(rows, study).V
    theirs = paper_subspace(rows, d, f)
    key: Key = {"what": "V_k", "bits": f, "d": d, "condition": f"{condition:g}"}
    wrong = math.nan if theirs is None else sine(reference, theirs)
    return [
        Cell(key | {"engine": "embedded"}, {"error": exact(sine(reference, ours))}),
        Cell(key | {"engine": "paper"}, {"error": exact(wrong)}),
    ]


def study_rows(d: int, condition: float) -> list[Reals]:
    """Rows with singular values from 1 to 1/condition over the first K + 2 directions; F_ROWS fraction bits."""
    rng = np.random.default_rng(d)
    U = np.linalg.qr(rng.standard_normal((2 * d, d)))[0]
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    sigma = np.concatenate([np.geomspace(1.0, 1.0 / condition, K), np.full(d - K, 0.3 / condition)])
    X = (U * sigma) @ V.T * 2.0**4
    X = np.ldexp(np.rint(np.ldexp(X, F_ROWS)), -F_ROWS)
    return [X[:d], X[d:]]


# ---- exact arithmetic: integers with F_EXACT fraction bits


def exact_direction(x: Sequence[Reals]) -> Reals:
    """s/||s|| of the sum of vectors of floats, rounded once."""
    s = np.sum([_integers(a, F_EXACT) for a in x], axis=0)
    norm = math.isqrt(int(np.sum(s * s)))
    return _reals((s << F_EXACT) // norm, F_EXACT)


def exact_subspace(rows: Sequence[Reals], d: int) -> Reals:
    """V after TAU iterations from the public seed: S V and Gram-Schmidt, nothing rounded above 2^-F_EXACT."""
    S = _covariance(rows)
    return _iterate(d, lambda V: [S @ v >> 2 * F_ROWS for v in V], F_EXACT)


def paper_subspace(rows: Sequence[Reals], d: int, f: int) -> Reals | None:
    """The same with the paper's NormedSecSum: S/s, V, squares, root and quotients in fixed point of f bits.

    S_m V is a party's own and exact; V_t is orthonormalised in float64, as by every party.
    """
    parts = [_covariance([X]) for X in rows]
    scale = sum(math.isqrt(int(np.sum(S * S))) for S in parts)  # s = sum_m ||S_m||_F, as integers are
    V = orthonormalise(gaussian(np.random.default_rng(SEED), d, K, 1.0 / d))[0]
    for _ in range(TAU):
        columns = []
        for v in V.T:
            x = [(S @ _integers(v, F_EXACT) << f) // (scale << F_EXACT) for S in parts]
            u = paper_normed_sum(x, f)
            if u is None:
                return None
            columns.append(_reals(u, f))
        V = orthonormalise(np.column_stack(columns))[0]
    return V


def paper_normed_sum(x: Sequence[Integers], f: int) -> Integers | None:
    """u from addends with f fraction bits; None if the norm comes out as zero."""
    s = np.sum(x, axis=0)
    norm = math.isqrt(int(np.sum(s * s >> f)) << f)
    return (s << f) // norm if norm else None


def _iterate(d: int, times: Callable[[list[Integers]], list[Integers]], f: int) -> Reals:
    V = [_integers(v, f) for v in gaussian(np.random.default_rng(SEED), d, K, 1.0 / d).T]
    for _ in range(TAU):
        V = _gram_schmidt(times(V), f)
    return _reals(np.column_stack(V), f)


def _gram_schmidt(V: list[Integers], f: int) -> list[Integers]:
    done: list[Integers] = []
    for column in V:
        v = column
        for q in done:
            v = v - (q * (int(np.sum(q * v)) >> f) >> f)
        norm = math.isqrt(int(np.sum(v * v)))
        done.append((v << f) // norm)
    return done


def _covariance(rows: Sequence[Reals]) -> Integers:
    """X^T X of all rows, exactly: integers with 2 F_ROWS fraction bits."""
    X = _integers(np.vstack(rows), F_ROWS)
    S: Integers = X.T @ X
    return S


def _integers(x: Reals, f: int) -> Integers:
    """Floats as integers with f fraction bits, rounded down (exact if f reaches their last bit)."""
    ratios = [float(v).as_integer_ratio() for v in x.flat]
    return np.array([(n << f) // q for n, q in ratios], dtype=object).reshape(x.shape)


def _reals(x: Integers, f: int) -> Reals:
    return np.array([int(v) / (1 << f) for v in x.flat], np.float64).reshape(x.shape)


def _checks(cells: Sequence[Cell]) -> list[Check]:
    """Ours: each entry within M units of the last bit, whatever the norm is, and what making y a unit vector adds."""
    found = []
    for f in dict.fromkeys(c.key["bits"] for c in cells):
        sums = [c for c in cells if c.fits(engine="embedded", what="NormedSecSum", bits=f)]
        if sums:
            largest = max(c.values["error"].median for c in sums)
            d = max(int(c.key["d"]) for c in sums)
            allowed = M * (1 + math.sqrt(d)) * 2.0 ** -int(f)
            what = f"NormedSecSum with {f} bits, norms down to 2^-{max(SMALLEST)} of the bound: largest error"
            found.append(Check(what, largest, allowed, at_least=False))
    return found
