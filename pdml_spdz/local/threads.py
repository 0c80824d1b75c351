"""A whole study in one process: M parties as threads, with queues for sockets.

The same meeting, engines and fits as between hosts; no certificates, no TLS. For tests, notebooks and small data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import EngineError, StudyError
from pdml_spdz.fits import prepare
from pdml_spdz.local.processes import joint_report
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.data import from_rows
from pdml_spdz.rows.make import RowsLike
from pdml_spdz.run import handshake, own_secret
from pdml_spdz.run.checkpoint import Checkpoints
from pdml_spdz.run.context import Event, PartyRun
from pdml_spdz.run.output import FEATURES, RESULTS
from pdml_spdz.run.party import run_fit
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.inprocess import between_threads, mesh


@dataclass(frozen=True)
class ThreadsResult:
    """result : V or T, whatever the algorithm calls it; mean, scale : of all rows, where they were shown;
    kept : V or T by iteration; transcript : of a recorded run, what any party saw"""

    result: Reals
    mean: Reals | None
    scale: Reals | None
    report: dict[str, Any]
    kept: dict[int, Reals] = field(default_factory=dict)
    transcript: Transcript | None = None


def run_in_threads(
    tables: Sequence[RowsLike], study: Study, *, keep: Collection[int] = (), record_transcript: bool = False
) -> ThreadsResult:
    """Run all parties to the end, one thread for each table; raises the error of the party that failed first.

    tables : arrays, sparse matrices, or tables of pandas or Arrow, whose columns have names
    keep : numbers of iterations whose V or T is wanted, too; record_transcript : keep what party 0 sees
    """
    seen = Transcript() if record_transcript else None
    if len(tables) != study.M:
        raise StudyError(f"{len(tables)} tables for {study.M} parties.", "one table for each party")
    if study.engine == "mp-spdz":
        raise EngineError("the engine mp-spdz needs processes.", "another engine, or parties that are processes")
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as private:
        out = Path(private)
        kept: dict[int, Reals] = {}

        def party(link: Link) -> dict[str, Any]:
            def notify(event: Event) -> None:
                if link.me == 0 and event["event"] == "iteration" and event["t"] in keep:
                    kept[event["t"]] = Checkpoints(out / "party-0" / "checkpoint").load()[event["t"]].V

            transcript = seen if link.me == 0 else None
            return run_on_link(link, study, tables[link.me], out, notify, transcript)

        reports = between_threads(study.M, party, mesh(study.M, timeout=study.timeouts.round))
        result = np.load(out / "party-0" / RESULTS[study.algorithm])
        paths = [out / "party-0" / name for name in FEATURES]
        mean, scale = (np.load(path) if path.exists() else None for path in paths)
    return ThreadsResult(result, mean, scale, joint_report(reports), kept, seen)


def run_on_link(
    link: Link,
    study: Study,
    X: RowsLike,
    out: Path,
    notify: Callable[[Event], None] = lambda event: None,
    transcript: Transcript | None = None,
) -> dict[str, Any]:
    """What `party.run_party` does once it has a link and rows; for engines that need no identity."""
    run = PartyRun(
        study,
        link.me,
        data=out / f"rows-{link.me}",
        certs=out,
        out=out,
        notify=notify,
        own_secret=own_secret.of_local_party(link.me),
        transcript=transcript,
    )
    with run.output():
        data = prepare.fitting(from_rows(X, f"the rows of P{link.me}", vector=study.algorithm == "normed-sum"), study)
        agreed = handshake.meet(link, study, (), resume=False)
        data = prepare.agreed(handshake.compare_features(link, data, study, agreed.run), study)
        # Only mp-spdz, which needs processes, would use an identity.
        return run_fit(run, data, link, agreed.run, Identity(link.me, out, {}))
