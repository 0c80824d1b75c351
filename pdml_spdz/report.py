"""report.json: what a run did, revealed and cost. One dictionary, the same keys for every algorithm and engine."""

from __future__ import annotations

import platform
import resource
import ssl
import sys
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pdml_spdz import __version__
from pdml_spdz.engines.base import Engine
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link


@cache
def versions() -> dict[str, str]:
    """Of everything that can change a result."""
    packages = {name: version(name) for name in ("numpy", "scipy", "cryptography", "click", "jinja2", "rich")}
    return {
        "pdml-spdz": __version__,
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "platform": platform.platform(),
        **packages,
    }


def peak_memory() -> int:
    """Bytes: the largest resident set of this process so far."""
    status = Path("/proc/self/status")
    if status.is_file():  # Linux: getrusage would count what the parent had when it started this process
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return 1024 * int(fields["VmHWM"].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def seconds(link: Link) -> dict[str, Any]:
    spent = link.clock.seconds
    online = {name: round(spent.get(name, 0.0), 6) for name in ("wait", "transport", "crypto")}
    return {
        "local": round(spent.get("local", 0.0), 6),
        "online": online,
        "offline": round(spent.get("offline", 0.0), 6),
        "total": round(link.clock.total, 6),
    }


@dataclass(frozen=True)
class Outcome:
    """What a fit adds to its report: this party's rows, the length of vectors, the result's digest, warnings."""

    rows: int
    d: int
    digest: str
    warnings: list[str] = field(default_factory=list)
    observables: list[str] | None = None  # instead of the engine's own


def run_report(study: Study, engine: Engine, link: Link, bound: Bound, outcome: Outcome) -> dict[str, Any]:
    """What one party says of a run, whatever the algorithm."""
    facts = engine.facts()
    observables = list(engine.observables() if outcome.observables is None else outcome.observables)
    if bound.source == "secsum":
        observables.append("the bound B, which is the sum of the parties' norms, to every party")
    return {
        "algorithm": study.algorithm,
        "engine": engine.name,
        "protocol": facts.get("protocol"),
        "program": facts.get("program"),
        "reveal": engine.reveal,
        "security": asdict(engine.security),
        "insecure": engine.insecure,
        "parties": study.M,
        "party_id": link.me,
        "d": outcome.d,
        "seconds": seconds(link),
        "bytes_sent": sum(link.traffic.sent.values()),
        "bytes_received": sum(link.traffic.received.values()),
        "traffic": {
            f"P{p}": {"sent": link.traffic.sent.get(p, 0), "received": link.traffic.received.get(p, 0)}
            for p in link.peers
        },
        "rounds": link.traffic.rounds,
        "offline": {
            "bytes_sent": sum(link.offline_traffic.sent.values()),
            "bytes_received": sum(link.offline_traffic.received.values()),
            "rounds": link.offline_traffic.rounds,
        },
        "peak_memory": peak_memory(),
        "precision": facts.get("precision"),
        "bound": asdict(bound),
        "stock": facts.get("stock"),
        "mp_spdz": facts.get("mp_spdz"),
        "observables": observables,
        "digests": {"study": study.digest, "program": facts.get("program_digest"), "result": outcome.digest},
        "rows_own": outcome.rows,
        "versions": versions(),
        "warnings": [*(engine.warnings if outcome.observables is None or engine.insecure else ()), *outcome.warnings],
    }
