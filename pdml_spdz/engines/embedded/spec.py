"""What the engine `embedded` says of itself."""

from __future__ import annotations

from pdml_spdz.engines.spec import EngineSpec, OfflinePhase, later

ENGINE = "pdml_spdz.engines.embedded.engine"
PLAN = "pdml_spdz.engines.embedded.plan"
EMBEDDED = EngineSpec(
    "embedded",
    ("one-scale", "per-column", "centred", "sum", "sealed", "sealed-hidden"),
    "secret shares; opens the covariance up to a factor, sums (reveal sum, and nmf), or V (reveal sealed).",
    later(ENGINE, "make"),
    prepare=later(ENGINE, "prepare"),
    offline=OfflinePhase(later(PLAN, "plan"), later(PLAN, "make_stock"), later(PLAN, "stocks")),
    imports=(ENGINE, "pdml_spdz.programs.render:load", "pdml_spdz.ot.group:load"),
)
