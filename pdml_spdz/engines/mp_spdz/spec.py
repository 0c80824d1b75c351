"""What the engine `mp-spdz` says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml_spdz.engines.mp_spdz.protocols import protocol_of
from pdml_spdz.engines.spec import Context, EngineSpec, Finding, OfflinePhase, OfflinePlan, Stocks
from pdml_spdz.programs.precision import F_G

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.study.algorithm import Want
    from pdml_spdz.study.model import Study


def check(study: Study, want: Want) -> None:
    protocol_of(study)  # StudyError if there is none of that name


def make(context: Context) -> Engine:
    from pdml_spdz.engines.mp_spdz import setup

    return setup.make(context)


def plan(study: Study, home: Path | None) -> OfflinePlan:
    from pdml_spdz.engines.mp_spdz import setup

    return setup.plan(study, home)


def make_stock(context: Context) -> dict[str, Any]:
    from pdml_spdz.engines.mp_spdz import setup

    return setup.make_stock(context)


def status(root: Path) -> Stocks:
    from pdml_spdz.engines.mp_spdz import setup

    return setup.stocks(root)


def doctor(home: Path | None) -> Iterator[Finding]:
    from pdml_spdz.engines.mp_spdz import examine

    return examine.findings(home)


MP_SPDZ = EngineSpec(
    "mp-spdz",
    "normed",
    "the same on MP-SPDZ.",
    make,
    check,
    doctor,
    OfflinePhase(plan, make_stock, status),
    settings=("protocol", "insecure_benchmark"),
    programs=("projection", "paper"),
    largest_range=44,  # its primes have 256 bits: no room for the window, or for all bits of g
    f_g=F_G,
    needs_processes=True,
)
