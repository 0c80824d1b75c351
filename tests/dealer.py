"""Offline material from one hand, for tests of the online phase alone: M threads, one dealer who knows everything.

The product has no dealer; what it hands out here has the same form and distribution as what the parties make together.
"""

from __future__ import annotations

import secrets

from pdml_spdz.numerics import ring
from pdml_spdz.offline.material import Material, Plan, ScalarMaterial
from pdml_spdz.ot.triples import Triples
from pdml_spdz.ot.vole import Correlation, Extended
from pdml_spdz.programs.precision import Precision


class DealtScalar(ScalarMaterial):
    def __init__(self, delta: int, correlation: Correlation) -> None:
        self.delta, self._correlation, self._given = delta, correlation, 0

    @property
    def left(self) -> int:
        return len(self._correlation) - self._given

    def take(self, n: int) -> Correlation:
        start, self._given = self._given, self._given + n
        return self._correlation.part(start, n)


class Dealt(Material):
    mode = "dealer (tests only)"

    def __init__(self, shares: Triples, scalars: list[DealtScalar]) -> None:
        self._triples, self._used, self._scalars = shares, 0, list(scalars)

    def reserve(self, plan: Plan) -> None:
        pass

    def triples(self, n: int) -> Triples:
        start, self._used = self._used, self._used + n
        t = self._triples
        assert self._used <= len(t)
        return t.part(start, self._used)

    def scalar(self) -> ScalarMaterial:
        return self._scalars.pop(0)


def deal(plan: Plan, precision: Precision, *, reuse_delta: bool = False, reuse_u: bool = False) -> list[Dealt]:
    """Material for all M parties. The flags break it, for tests that must notice."""
    M, bits, wide = precision.M, precision.vector_bits, precision.scalar_bits
    scalars: list[list[DealtScalar]] = [[] for _ in range(M)]
    first: dict[int, int] = {}
    for n in plan.vectors:
        made = [Extended(ring.random(n, bits), {}, {}) for _ in range(M)]
        if reuse_u:
            for each in made:
                each.u[n // 2 :] = each.u[: n - n // 2]
        deltas = [secrets.randbits(bits) for _ in range(M)]
        if reuse_delta:
            deltas = [first.setdefault(m, delta) for m, delta in enumerate(deltas)]
        for l in range(M):
            for m in range(M):
                if l == m:
                    continue
                made[l].v[m] = ring.random(n, bits)
                made[m].w[l] = ring.add(ring.scale(made[l].u, deltas[m]), made[l].v[m])
        for m in range(M):
            scalars[m].append(DealtScalar(deltas[m], Correlation.of(made[m])))
    a, b = ([[secrets.randbits(wide) for _ in range(plan.triples)] for _ in range(M)] for _ in range(2))
    c = [[secrets.randbits(wide) for _ in range(plan.triples)] for _ in range(M - 1)]
    last = [
        (sum(a[m][i] for m in range(M)) * sum(b[m][i] for m in range(M)) - sum(share[i] for share in c)) % (1 << wide)
        for i in range(plan.triples)
    ]
    return [Dealt(Triples(wide, a[m], b[m], [*c, last][m]), scalars[m]) for m in range(M)]
