"""The engine `secsum`: every sum by masks that cancel; the sums themselves are seen by all (`--reveal sum`)."""

from __future__ import annotations

from pdml_spdz.engines.base import Security, SumEngine
from pdml_spdz.engines.spec import EngineSpec
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.transport.base import Link


class SecSumEngine(SumEngine):
    name = "secsum"
    security = Security("semi-honest, computational (AES-256 as PRF, TLS 1.3 channels)", False, "any M - 1 parties")
    warnings = ("reveal sum: the sums S V_t, and with them Sigma, are seen by every party",)

    def __init__(self, link: Link, run: bytes, aggregator: str) -> None:
        super().__init__(link, masked_sum(link, run, aggregator))

    def observables(self) -> list[str]:
        return ["S V_t in every iteration t, to every party (and so Sigma)", "V_t in every iteration t, to every party"]


SECSUM = EngineSpec(
    "secsum",
    "sum",
    "masks that cancel; every party sees the sums.",
    lambda context: SecSumEngine(context.link, context.session, context.study.aggregator),
)
