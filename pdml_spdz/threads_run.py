"""A whole study in one process: M parties as threads, with queues for sockets.

The same meeting, engines and fits as between hosts; no certificates, no TLS. For tests, notebooks and small data.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pdml_spdz import handshake
from pdml_spdz.certs import Identity
from pdml_spdz.data import Data
from pdml_spdz.engine_setup import make_engine
from pdml_spdz.errors import SECONDARY, EngineError, StudyError
from pdml_spdz.fixedpoint import Reals
from pdml_spdz.job import PartyRun
from pdml_spdz.linalg import Rows
from pdml_spdz.local import RESULTS
from pdml_spdz.party import FITS
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh


@dataclass(frozen=True)
class ThreadsResult:
    """result : V or T, whatever the algorithm calls it; mean : of all rows, for PCA"""

    result: Reals
    mean: Reals | None
    report: dict[str, Any]


def run_in_threads(tables: Sequence[Rows], study: Study) -> ThreadsResult:
    """Run all parties to the end, one thread for each table; raises the error of the party that failed first."""
    if len(tables) != study.M:
        raise StudyError(f"{len(tables)} tables for {study.M} parties.", "one table for each party")
    if study.engine == "mp-spdz":
        raise EngineError("the engine mp-spdz needs processes.", "another engine, or parties that are processes")
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as private:
        out = Path(private)
        reports = _all(tables, study, out)
        result = np.load(out / "party-0" / RESULTS[study.algorithm])
        mean = np.load(out / "party-0" / "mean.npy") if study.algorithm == "pca" else None
    report = dict(reports[0]) | {"party_id": None, "rows_own": None}
    for name in ("bytes_sent", "bytes_received"):
        report[name] = [r[name] for r in reports]
    return ThreadsResult(result, mean, report)


def _all(tables: Sequence[Rows], study: Study, out: Path) -> list[dict[str, Any]]:
    reports: dict[int, dict[str, Any]] = {}
    errors: list[BaseException] = []

    def go(link: Link) -> None:
        try:
            with link:
                reports[link.me] = _party(link, study, tables[link.me], out)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            errors.append(error)

    links = mesh(study.M, timeout=study.timeouts.round)
    threads = [threading.Thread(target=go, args=(link,), name=f"P{link.me}", daemon=True) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, SECONDARY))
    return [reports[m] for m in range(study.M)]


def _party(link: Link, study: Study, X: Rows, out: Path) -> dict[str, Any]:
    """What `party.run_party` does once it has a link and rows."""
    run = PartyRun(study, link.me, data=out / f"rows-{link.me}", certs=out, out=out)
    run.prepare_output()
    X = sp.csr_array(X, dtype=np.float64) if sp.issparse(X) else np.ascontiguousarray(X, np.float64)
    data = Data(X, None, f"the rows of P{link.me}")
    agreed = handshake.meet(link, study, resume=False)
    handshake.compare_features(link, data)
    nobody = Identity(link.me, out, {})  # only mp-spdz, which needs processes, would use it
    with make_engine(run, link, agreed.run, nobody) as engine:
        return FITS[study.algorithm](run, data, link, engine)
