"""What a sealed fit takes, up to its first checkpoint, from public numbers alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pdml_spdz.engines.embedded.matrix_party import opened_bits
from pdml_spdz.engines.embedded.sealed_run import inputs_of, sealed_plan
from pdml_spdz.engines.openings.base import Layout
from pdml_spdz.engines.spec import OfflinePlan, sealed_precision_of
from pdml_spdz.offline.mask_products import Integers, MaskProducts, Pair
from pdml_spdz.offline.product_layout import batches
from pdml_spdz.programs.sealed_precision import RING, SealedPrecision
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.model import Study

# Seconds of one core, measured (benchmarks/bench_sealed.py): a process and its choice of layouts; a product of two big
# integers, with its addition; opening one number; a round, with the few products of small matrices that go with it.
START, PRODUCT, OPENING, ROUND = 1.0, 2.0e-7, 1.2e-5, 1.1e-3
# Products of masks take so much longer than their parts do alone (`bench_lattice --parts`): parties that share a
# machine share its memory, and numbers are cut into residues and put together again.
TOGETHER = 1.35


@dataclass(frozen=True)
class SealedForecast:
    """rounds : online
    products : of matrices
    sent : bytes that a party sends, in all
    data_sent : of them, for products with its own rows
    online : of them, for openings
    seconds : of one core
    """

    rounds: int
    products: int
    sent: int
    data_sent: int
    online: int
    seconds: float


@dataclass(frozen=True)
class SealedPlan(OfflinePlan):
    """A sealed fit up to its first checkpoint."""

    precision: SealedPrecision
    forecast: SealedForecast

    @property
    def text(self) -> str:
        found = self.forecast
        return (
            f"one sealed run of {self.precision.M} parties, up to its first checkpoint: {found.products:,} products of "
            f"matrices in Z_2^{RING}, {found.rounds:,} rounds\n"
            f"forecast for each party: {found.sent / 1e6:,.0f} MB sent, {found.data_sent / 1e6:,.0f} MB of it for "
            f"products with its rows, about {found.seconds:,.0f} s of one core; half a round trip for each round: "
            f"{found.rounds * 0.01:,.0f} s more at 20 ms, {found.rounds * 0.05:,.0f} s at 100 ms"
        )

    @property
    def facts(self) -> dict[str, Any]:
        return {"plan": asdict(self.forecast), "precision": asdict(self.precision)}


def sealed_plan_of(study: Study, shape: Shape) -> SealedPlan:
    precision = sealed_precision_of(study, shape.d)
    layout = Layout(sealed_plan(precision)[0], precision.columns, 1, stream=True)
    return SealedPlan(shape, layout, precision, forecast(precision))


def forecast(p: SealedPrecision) -> SealedForecast:
    first = sealed_plan(p)[1][0]
    pairs: list[Pair] = []

    def record(made: list[Pair]) -> list[Integers]:
        pairs.extend(made)
        return [np.zeros((len(pair.left), pair.right.shape[1]), object) for pair in made]

    dry = MaskProducts([first], record, dry=True)  # type: ignore[arg-type]
    for n, bits in inputs_of(p):
        dry.input(np.zeros(n, object), bits)
    dry.mask()
    sent, seconds = {False: 0, True: 0}, START
    for batch in batches(p.M, pairs):
        sent[batch.input] += batch.sent
        seconds += TOGETHER * batch.seconds
    numbers = sum(rounding.n for rounding in first.roundings)
    online = sum(r.n * -(-opened_bits(r.bits, p.M) // 8) for r in first.roundings) * (p.M - 1)
    local = sum(2 * left.index.size * right.index.shape[1] for left, right in first.products)
    rounds = len(first.roundings) + p.M + 8
    seconds += PRODUCT * local + OPENING * numbers * p.M + ROUND * rounds
    return SealedForecast(rounds, len(first.products), sum(sent.values()) + online, sent[True], online, seconds)
