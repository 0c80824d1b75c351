"""The engine `secsum`: every sum by masks that cancel."""

from __future__ import annotations

from pdml_spdz.engines.base import EngineBase, Security
from pdml_spdz.engines.spec import EngineSpec
from pdml_spdz.primitives.sec_sum import masked_sum
from pdml_spdz.transport.base import Link


class SecSumEngine(EngineBase):
    name = "secsum"
    security = Security("semi-honest, computational (AES-256 as PRF, TLS 1.3 channels)", False, "any M - 1 parties")

    def __init__(self, link: Link, run: bytes, aggregator: str) -> None:
        super().__init__(link, masked_sum(link, run, aggregator))


SECSUM = EngineSpec(
    "secsum",
    ("sum",),
    "masks that cancel; every party sees the sums.",
    lambda context: SecSumEngine(context.link, context.session, context.study.aggregator),
)
