"""The engine `plain`: the same computation on clear numbers. The oracle of tests, the baseline of benchmarks;
not private.
"""

from __future__ import annotations

from pdml_spdz.engines.base import EngineBase, Security
from pdml_spdz.engines.spec import EngineSpec
from pdml_spdz.primitives.sec_sum import ClearSum
from pdml_spdz.transport.base import Link


class PlainEngine(EngineBase):
    name = "plain"
    insecure = True
    security = Security("none: insecure, for comparison only", False, "none")
    warnings = ("INSECURE: engine plain shows every party's own S_m V_t to all others",)

    def __init__(self, link: Link) -> None:
        super().__init__(link, ClearSum(link))


PLAIN = EngineSpec(
    "plain",
    ("sum",),
    "INSECURE: every party sees everyone's numbers.",
    lambda context: PlainEngine(context.link),
    in_the_clear=True,
)
