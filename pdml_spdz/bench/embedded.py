"""What NormedSecSum and SecSum cost on this package's own shares: cold, inside a fit, and their material."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml_spdz.bench.links import Costs, costs
from pdml_spdz.engines.embedded.plan import numbers_plan
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.openings.one_scale import ONE_SCALE, FixedScale
from pdml_spdz.engines.openings.per_column import PER_COLUMN, PerColumn
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.material import Material, Plan, ScalarMaterial
from pdml_spdz.offline.on_demand import LEVELS, OnDemand, levels
from pdml_spdz.ot.triples import Triples
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import ClearSum, EngineSum, MaskedSum
from pdml_spdz.programs.precision import FULL_G, Precision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.checks import USUAL_RANGE, WIDE_RANGE
from pdml_spdz.transport.base import Link

SESSION = b"bench"
BOUND = 4.0
OT_MOST = 100_000  # numbers by OT alone: some seconds
WARM = 2  # calls of a fit before those that count: the first makes the secret scale


@dataclass(frozen=True)
class Calls:
    """base : the base OTs, each time they were made
    material : the rest of the offline phase
    calls : online, when all parties have their material: one NormedSecSum each, or iterations of k columns each
    error : of u, in units of its last bit
    sums : SecSums of the same blocks; once : the first call of a fit, with the scale and its triples
    """

    base: list[Costs]
    material: list[Costs]
    calls: list[Costs]
    plan: Plan
    error: float
    sums: tuple[Costs, ...] = ()
    once: Costs | None = None


def directions(d: int, k: int) -> Reals:
    Q: Reals = np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0]
    return Q


def cold(link: Link, d: int, bits: int, repeats: int) -> Calls:
    """NormedSecSums of d numbers, each with material of its own from fresh base OTs."""
    p = Precision(link.M, bits, hidden_mean=False)
    sec_sum = MaskedSum(link, Keys.agree(link, SESSION))
    wanted = numbers_plan(PER_COLUMN, p, Shape(d, 1, 1))
    program, lots = wanted.layout.program, wanted.lots
    rng = np.random.default_rng(1)
    g = rng.standard_normal((d, 1))
    g /= np.linalg.norm(g)
    addends = [(g + rng.standard_normal((d, 1)) / np.sqrt(d)) / link.M for _ in range(link.M)]
    s = np.sum(addends, axis=0)
    error = 0.0
    kept: tuple[list[Costs], list[Costs], list[Costs]] = ([], [], [])
    for i in range(repeats):
        base, source = costs(link, on_demand, link, p, i)
        made = Ahead(source)
        material, _ = costs(link, made.prepare, lots.whole, 1, d)
        normed = PerColumn(EmbeddedRunner(sec_sum, p, BOUND, made, lots), program, 1)
        call, columns = costs(link, normed, addends[link.me], g)
        for part, cost in zip(kept, (base, material, call), strict=True):
            part.append(cost)
        error = max(error, float(np.max(np.abs(columns.U - s / np.linalg.norm(s)))) * 2.0**bits)
    return Calls(*kept, lots.whole, error)


def fit(link: Link, d: int, k: int, bits: int, repeats: int, *, window: bool = False) -> Calls:
    """Iterations of the fixed-scale loop and SecSums of the same block, by turns.

    window : in the ring of the default window instead of that of an agreed bound

    S = 2 I is enough: the engine does not care what it multiplies.
    """
    p = Precision(link.M, bits, WIDE_RANGE if window else USUAL_RANGE, f_g=FULL_G, hidden_mean=False)
    rounds = WARM + repeats
    sec_sum = MaskedSum(link, Keys.agree(link, SESSION))
    wanted = numbers_plan(ONE_SCALE, p, Shape(d, k, rounds))
    plan = wanted.lots.whole
    base, source = costs(link, lambda: on_demand(link, p, 0, piece=rounds * d * k))
    made = Ahead(source)
    material, _ = costs(link, made.prepare, plan, rounds, d * k)
    normed = FixedScale(EmbeddedRunner(sec_sum, p, BOUND * k, made, wanted.lots), wanted.layout.program)
    V = directions(d, k)
    calls, sums = [], []
    for _ in range(rounds):
        x = 2.0 / link.M * V
        call, columns = costs(link, normed, x, V)
        calls.append(call)
        sums.append(costs(link, sec_sum, x, BOUND, "bench")[0])
    error = float(np.max(np.abs(columns.U - V))) * 2.0**bits
    return Calls([base], [material], calls[WARM:], plan, error, tuple(sums[WARM:]), calls[0])


def summing(link: Link) -> dict[str, EngineSum]:
    return {"secsum": MaskedSum(link, Keys.agree(link, SESSION)), "plain": ClearSum(link)}


def sums(link: Link, d: int, repeats: int) -> dict[str, list[Costs]]:
    """SecSum and the same in the clear, of d numbers, by turns."""
    x = np.random.default_rng(link.me).normal(size=d)
    ways = summing(link)
    turns = [
        {name: costs(link, way, x, 100.0, "bench")[0] for name, way in ways.items()} for _ in range(WARM + repeats)
    ]
    return {name: [turn[name] for turn in turns[WARM:]] for name in ways}


def material(link: Link, d: int, bits: int, repeats: int) -> dict[str, list[Costs]]:
    """The parts of the offline phase: base OTs, the triples of a cold NormedSecSum, VOLE of d numbers by OT (up to
    OT_MOST) and from LPN (where that has come to its last level)."""
    p = Precision(link.M, bits, hidden_mean=False)
    plan = numbers_plan(PER_COLUMN, p, Shape(1, 1, 1)).lots.whole
    voles = {"VOLE by OT": d <= OT_MOST, "VOLE from LPN": levels(d, d) == len(LEVELS)}
    parts: dict[str, list[Costs]] = defaultdict(list)
    for i in range(repeats):
        base, made = costs(link, on_demand, link, p, i)
        parts["base OTs"].append(base)
        parts["triples"].append(costs(link, made.reserve, Plan(plan.triples, ()))[0])
        for name in (name for name, there in voles.items() if there):
            source = on_demand(link, p, i, lpn=name == "VOLE from LPN")
            source.reserve(Plan(0, (d,)))
            parts[name].append(costs(link, source.scalar().take, d)[0])
    return dict(parts)


def on_demand(link: Link, p: Precision, call: int, **options: Any) -> OnDemand:
    return OnDemand(link, SESSION + bytes([call % 256]), p.vector_bits, p.scalar_bits, **options)


class Ahead(Material):
    """Material made before it is asked for, in one piece: no party waits for another's offline phase online."""

    mode = "on-demand"

    def __init__(self, source: OnDemand) -> None:
        self._source, self._scalar = source, _MadeBefore()

    def prepare(self, plan: Plan, calls: int, n: int) -> None:
        self._source.reserve(plan)
        scalar = self._source.scalar()
        self._scalar.delta = scalar.delta
        self._scalar.parts = [scalar.take(n) for _ in range(calls)]

    def reserve(self, plan: Plan) -> None:
        pass

    def triples(self, n: int) -> Triples:
        return self._source.triples(n)

    def scalar(self) -> ScalarMaterial:
        return self._scalar


class _MadeBefore(ScalarMaterial):
    parts: list[Any]

    @property
    def left(self) -> int:
        return sum(map(len, self.parts))

    def take(self, n: int) -> Any:
        return self.parts.pop(0)
