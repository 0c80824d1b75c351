"""Where a number comes from: machine, commit, versions. A number without them is worth nothing later."""

from __future__ import annotations

import datetime as dt
import os
import platform
from pathlib import Path
from typing import Any

from pdml_spdz.bench import peers
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.run.report import versions
from pdml_spdz.system import process


def origin() -> dict[str, Any]:
    found = home.find()
    return {
        "time": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": machine(),
        "versions": versions() | peers.versions(),
        "mp_spdz": found.version() if found else None,
    }


def machine() -> dict[str, Any]:
    """What a ratio between two machines could be due to; no name and no path of this one."""
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """Of the checkout that this package runs from, `-dirty` if it was changed; empty for an installed package."""
    try:
        code, text = process.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"], directory=Path(__file__).parent, timeout=10.0
        )
    except OSError:
        return ""
    return text.strip() if code == 0 else ""


def _field(path: str, name: str) -> str:
    file = Path(path)
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")
