"""What the engine `embedded` says of itself."""

from __future__ import annotations

from pdml_spdz.engines.spec import EngineSpec, OfflinePhase, later

SETUP = "pdml_spdz.engines.embedded.setup"
EMBEDDED = EngineSpec(
    "embedded",
    ("one-scale", "per-column", "centred", "sum", "sealed"),
    "secret shares; only directions are opened, or sums (reveal sum), or V alone (reveal sealed).",
    later(SETUP, "make"),
    offline=OfflinePhase(later(SETUP, "plan"), later(SETUP, "make_stock"), later(SETUP, "stocks")),
)
