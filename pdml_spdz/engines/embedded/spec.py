"""What the engine `embedded` says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdml_spdz.engines.spec import Context, EngineSpec, OfflinePhase, OfflinePlan, Stocks

if TYPE_CHECKING:
    from pdml_spdz.engines.base import Engine
    from pdml_spdz.study.model import Study


def make(context: Context) -> Engine:
    from pdml_spdz.engines.embedded import setup

    return setup.make(context)


def plan(study: Study, home: Path | None) -> OfflinePlan:
    from pdml_spdz.engines.embedded import setup

    return setup.plan(study)


def make_stock(context: Context) -> dict[str, Any]:
    from pdml_spdz.engines.embedded import setup

    return setup.make_stock(context)


def status(root: Path) -> Stocks:
    from pdml_spdz.engines.embedded import setup

    return setup.stocks(root)


EMBEDDED = EngineSpec("embedded", "normed", "secret shares.", make, offline=OfflinePhase(plan, make_stock, status))
