"""What the engine `mp-spdz` says of itself."""

from __future__ import annotations

from pdml_spdz.engines.spec import EngineSpec, OfflinePhase, later
from pdml_spdz.programs.precision import F_G

SETUP, READY = "pdml_spdz.engines.mp_spdz.setup", "pdml_spdz.engines.mp_spdz.ready"
SEALED = "pdml_spdz.engines.mp_spdz.sealed_execution"
MP_SPDZ = EngineSpec(
    "mp-spdz",
    ("one-scale", "per-column", "centred", "paper", "sealed"),
    "secret shares on MP-SPDZ, by one of its protocols; opens the covariance up to a factor, or V (sealed, up to "
    "16 features).",
    later(SETUP, "make"),
    check=later(SEALED, "check"),  # StudyError if there is no protocol of that name
    ready=later(READY, "for_a_run"),
    doctor=later(READY, "findings"),
    prepare=later(SETUP, "prepare"),
    offline=OfflinePhase(
        later(SETUP, "plan"), later(SETUP, "make_stock"), later(SETUP, "stocks"), later(READY, "for_a_stock")
    ),
    settings=("protocol", "insecure_benchmark"),
    largest_range=44,  # its primes have 256 bits: no room for the window, or for all bits of g
    f_g=F_G,
    needs_processes=True,
)
