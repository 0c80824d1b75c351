"""Offline material from one hand, for tests of the online phase alone: M threads, one dealer who knows everything.

The product has no dealer; what it hands out here has the same form and distribution as what the parties make together.
"""

from __future__ import annotations

import secrets

from pdml_spdz import ring
from pdml_spdz.offline.material import Correlation, Material, Plan, ScalarMaterial
from pdml_spdz.ot.triples import Triples
from pdml_spdz.precision import Precision


class DealtScalar(ScalarMaterial):
    def __init__(self, delta: int, correlation: Correlation) -> None:
        self.delta, self._correlation, self._given = delta, correlation, 0

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
        sent: list[dict[int, tuple[ring.Vector, ring.Vector]]] = [{} for _ in range(M)]
        received: list[dict[int, ring.Vector]] = [{} for _ in range(M)]
        deltas = [secrets.randbits(bits) for _ in range(M)]
        if reuse_delta:
            deltas = [first.setdefault(m, delta) for m, delta in enumerate(deltas)]
        for l in range(M):
            for m in range(M):
                if l == m:
                    continue
                u, v = ring.random(n, bits), ring.random(n, bits)
                if reuse_u:
                    u[n // 2 :] = u[: n - n // 2]
                sent[l][m] = u, v
                received[m][l] = ring.add(ring.scale(u, deltas[m]), v)
        for m in range(M):
            scalars[m].append(DealtScalar(deltas[m], Correlation.of(sent[m], received[m])))
    a, b = ([[secrets.randbits(wide) for _ in range(plan.triples)] for _ in range(M)] for _ in range(2))
    c = [[secrets.randbits(wide) for _ in range(plan.triples)] for _ in range(M - 1)]
    last = [
        (sum(a[m][i] for m in range(M)) * sum(b[m][i] for m in range(M)) - sum(share[i] for share in c)) % (1 << wide)
        for i in range(plan.triples)
    ]
    return [Dealt(Triples(wide, a[m], b[m], [*c, last][m]), scalars[m]) for m in range(M)]
