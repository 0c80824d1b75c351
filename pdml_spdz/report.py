"""report.json: what a run did, revealed and cost. One dictionary, the same keys for every algorithm and engine."""

from __future__ import annotations

import platform
import resource
import ssl
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pdml_spdz import __version__
from pdml_spdz.algorithms.svd import STOP_REASONS, Result
from pdml_spdz.engines.base import Engine
from pdml_spdz.primitives.bound import Bound
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link


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


def svd_report(
    study: Study, engine: Engine, link: Link, bound: Bound, result: Result, *, rows: int, loop: float, digest: str
) -> dict[str, Any]:
    """What one party says of a PD-SVD run."""
    state = result.state
    observables = engine.observables()
    if bound.source == "secsum":
        observables.append("the bound B, between one and two times sum_m ||S_m||_F, to every party")
    start = {"kind": study.start, "seed": study.seed}
    return {
        "algorithm": study.algorithm,
        "engine": engine.name,
        "protocol": None,
        "program": None,
        "reveal": engine.reveal,
        "security": asdict(engine.security),
        "insecure": engine.insecure,
        "parties": study.M,
        "party_id": link.me,
        "d": state.V.shape[0],
        "rank": study.rank,
        "rank_found": state.V.shape[1],
        "iterations": state.t,
        "converged": state.stop == 1,
        "stop_reason": STOP_REASONS[state.stop],
        "subspace_change": state.change,
        "singular_values": None if result.sigma is None else [float(s) for s in result.sigma],
        "seconds": seconds(link) | {"loop": round(loop, 6)},
        "bytes_sent": sum(link.traffic.sent.values()),
        "bytes_received": sum(link.traffic.received.values()),
        "traffic": {
            f"P{p}": {"sent": link.traffic.sent.get(p, 0), "received": link.traffic.received.get(p, 0)}
            for p in link.peers
        },
        "rounds": link.traffic.rounds,
        "peak_memory": peak_memory(),
        "precision": None,
        "bound": asdict(bound),
        "stock": None,
        "start": start,
        "observables": observables,
        "digests": {"study": study.digest, "program": None, "result": digest},
        "rows_own": rows,
        "versions": versions(),
        "warnings": [*engine.warnings, *result.warnings],
    }
