"""What the engine `embedded` says of itself."""

from __future__ import annotations

from pdml_spdz.engines.spec import EngineSpec, OfflinePhase, later

PLAN = "pdml_spdz.engines.embedded.plan"
EMBEDDED = EngineSpec(
    "embedded",
    ("one-scale", "per-column", "centred", "sum", "sealed"),
    "secret shares; only directions are opened, or sums (reveal sum), or V alone (reveal sealed).",
    later("pdml_spdz.engines.embedded.engine", "make"),
    offline=OfflinePhase(later(PLAN, "plan"), later(PLAN, "make_stock"), later(PLAN, "stocks")),
)
