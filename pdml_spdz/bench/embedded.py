"""What NormedSecSum and SecSum cost on this package's own shares: cold, inside a fit, and their material."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdml_spdz.bench.links import Costs, costs
from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.runner import EmbeddedRunner
from pdml_spdz.engines.openings.one_scale import FixedScale
from pdml_spdz.engines.openings.per_column import PerColumn
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.offline.material import Material, Plan, ScalarMaterial
from pdml_spdz.offline.on_demand import LEVELS, OnDemand, levels
from pdml_spdz.ot.triples import Triples
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import ClearSum, EngineSum, MaskedSum
from pdml_spdz.programs.precision import FULL_G, Precision
from pdml_spdz.programs.render import render
from pdml_spdz.study.bound import USUAL_RANGE, WIDE_RANGE
from pdml_spdz.transport.base import Link

SESSION = b"bench"
BOUND = 4.0
OT_MOST = 100_000  # numbers by OT alone: some seconds
WARM = 2  # calls of a fit before those that count: the first makes the secret scale


@dataclass(frozen=True)
class Cold:
    """base : the base OTs; material : the rest of the offline phase; calls : one NormedSecSum each, online, when all
    parties have their material; error : of u, in units of its last bit
    """

    base: list[Costs]
    material: list[Costs]
    calls: list[Costs]
    plan: Plan
    error: float


@dataclass(frozen=True)
class Fit:
    """calls : iterations online, of k columns each, their material made before; sums : SecSums of the same blocks

    once : the first call, with the scale and its triples; material : of all iterations, together
    """

    base: Costs
    once: Costs
    material: Costs
    calls: list[Costs]
    sums: list[Costs]
    plan: Plan
    error: float


def directions(d: int, k: int) -> Reals:
    Q: Reals = np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0]
    return Q


def cold(link: Link, d: int, bits: int, repeats: int) -> Cold:
    """NormedSecSums of d numbers, each with material of its own from fresh base OTs."""
    p = Precision(link.M, bits)
    sec_sum = MaskedSum(link, Keys.agree(link, SESSION))
    program = render("normed_sum", p, d, 1)
    x, exact, g = _vectors(link, d)
    plan = machine.plan(program)
    base, material, calls, error = [], [], [], 0.0
    for i in range(repeats):
        made: list[Ahead] = []
        base.append(costs(link, lambda made=made, i=i: made.append(Ahead(on_demand(link, p, i)))))  # type: ignore[misc]
        material.append(costs(link, lambda made=made: made[0].prepare(plan, 1, d)))  # type: ignore[misc]
        normed = PerColumn(EmbeddedRunner(sec_sum, p, BOUND, made[0]), program, 1)
        found: list[Reals] = []
        calls.append(costs(link, lambda normed=normed, found=found: found.append(normed(x, g).U)))  # type: ignore[misc]
        error = max(error, float(np.max(np.abs(found[0] - exact))) * 2.0**bits)
    return Cold(base, material, calls, plan, error)


def fit(link: Link, d: int, k: int, bits: int, repeats: int, *, window: bool = False) -> Fit:
    """Iterations of the fixed-scale loop and SecSums of the same block, by turns.

    window : in the ring of the default window instead of that of an agreed bound

    S = 2 I is enough: the engine does not care what it multiplies.
    """
    p = Precision(link.M, bits, WIDE_RANGE if window else USUAL_RANGE, f_g=FULL_G)
    calls = WARM + repeats
    sec_sum = MaskedSum(link, Keys.agree(link, SESSION))
    program = render("scaled_sum", p, d, k, calls)
    made: list[Ahead] = []
    base = costs(link, lambda: made.append(Ahead(on_demand(link, p, 0, piece=calls * d * k))))
    plan = machine.plan(program)
    material = costs(link, lambda: made[0].prepare(plan, calls, d * k))
    normed = FixedScale(EmbeddedRunner(sec_sum, p, BOUND * k, made[0]), program)
    V = directions(d, k)
    results: dict[str, list[Costs]] = {"normed": [], "secsum": []}
    found: list[Reals] = []
    for _ in range(calls):
        x = 2.0 / link.M * V
        results["normed"].append(costs(link, lambda x=x: found.append(normed(x, V).U)))  # type: ignore[misc]
        results["secsum"].append(costs(link, lambda x=x: sec_sum(x, BOUND, "bench")))  # type: ignore[misc]
    error = float(np.max(np.abs(found[-1] - V))) * 2.0**bits
    return Fit(base, results["normed"][0], material, results["normed"][WARM:], results["secsum"][WARM:], plan, error)


def sums(link: Link, d: int, repeats: int) -> dict[str, list[Costs]]:
    """SecSum and the same in the clear, of d numbers, by turns."""
    ways = summing(link)
    x = np.random.default_rng(link.me).normal(size=d)
    found: dict[str, list[Costs]] = {name: [] for name in ways}
    for i in range(WARM + repeats):
        for name, way in ways.items():
            cost = costs(link, lambda way=way: way(x, 100.0, "bench"))  # type: ignore[misc]
            if i >= WARM:
                found[name].append(cost)
    return found


def summing(link: Link) -> dict[str, EngineSum]:
    return {"secsum": MaskedSum(link, Keys.agree(link, SESSION)), "plain": ClearSum(link)}


def material(link: Link, d: int, bits: int, repeats: int) -> dict[str, list[Costs]]:
    """The parts of the offline phase: base OTs, the triples of a cold NormedSecSum, VOLE of d numbers by OT (up to
    OT_MOST) and from LPN (where that has come to its last level)."""
    p = Precision(link.M, bits)
    plan = machine.plan(render("normed_sum", p, 1, 1))
    voles = {"VOLE by OT": d <= OT_MOST, "VOLE from LPN": levels(d, d) == len(LEVELS)}
    wanted = [name for name, there in voles.items() if there]
    parts: dict[str, list[Costs]] = {name: [] for name in ("base OTs", "triples", *wanted)}
    for i in range(repeats):
        made: list[OnDemand] = []
        parts["base OTs"].append(costs(link, lambda made=made, i=i: made.append(on_demand(link, p, i))))  # type: ignore[misc]
        parts["triples"].append(costs(link, lambda made=made: made[0].reserve(Plan(plan.triples, ()))))  # type: ignore[misc]
        for name in wanted:
            source = on_demand(link, p, i, lpn=name == "VOLE from LPN")
            source.reserve(Plan(0, (d,)))
            scalar = source.scalar()
            parts[name].append(costs(link, lambda s=scalar: s.take(d)))  # type: ignore[misc]
    return parts


def on_demand(link: Link, p: Precision, call: int, **options: Any) -> OnDemand:
    return OnDemand(link, SESSION + bytes([call % 256]), p.vector_bits, p.scalar_bits, **options)


class Ahead(Material):
    """Material made before it is asked for, in one piece: no party waits for another's offline phase online."""

    mode = "on-demand"

    def __init__(self, source: OnDemand) -> None:
        self._source, self._scalar = source, _Taken()

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


class _Taken(ScalarMaterial):
    parts: list[Any]

    def take(self, n: int) -> Any:
        return self.parts.pop(0)


def _vectors(link: Link, d: int) -> tuple[Reals, Reals, Reals]:
    """This party's addend, the exact direction of all addends' sum, and g."""
    rng = np.random.default_rng(1)
    g = rng.standard_normal((d, 1))
    g /= np.linalg.norm(g)
    addends = [(g + rng.standard_normal((d, 1)) / np.sqrt(d)) / link.M for _ in range(link.M)]
    s = np.sum(addends, axis=0)
    return addends[link.me], s / np.linalg.norm(s), g
