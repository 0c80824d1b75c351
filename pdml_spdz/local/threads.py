"""One thread for each party, with queues for sockets: no certificates, no TLS. For tests, notebooks and small data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.local.joint import LocalResult, LocalRun, run_local
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.run import own_secret
from pdml_spdz.run.context import Event, PartyRun, rows_of
from pdml_spdz.run.party import run_party
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads, mesh


def run_in_threads(tables: Sequence[RowsLike], study: Study, *, record_transcript: bool = False) -> LocalResult:
    """`run_local` with threads, and with nothing kept on the disk."""
    return run_local(LocalRun(tables, study, transport="threads", record_transcript=record_transcript))


def run_threads(run: LocalRun, rows: Sequence[Path | Data], out: Path) -> list[dict[str, Any]]:
    """Run all parties to the end and return their reports; raises the error of the party that failed first."""
    study, one_at_a_time = run.study, threading.Lock()

    def party(link: Link) -> dict[str, Any]:
        def notify(event: Event) -> None:
            with one_at_a_time:
                run.notify(link.me, event)

        transcript = Transcript() if run.record_transcript else None
        given = PartyRun(
            study,
            link.me,
            rows[link.me],
            certs=out,
            out=out,
            resume=run.resume,
            force=run.force,
            notify=notify,
            stock=run.stock,
            own_secret=own_secret.of_local_party(link.me),
            transcript=transcript,
            out_is_held=True,
            reading=run.reading,
        )
        return run_party(given, link)

    return between_threads(study.M, party, mesh(study.M, timeout=study.timeouts.round, work=study.timeouts.work))


def run_on_link(
    link: Link,
    study: Study,
    X: RowsLike,
    out: Path,
    notify: Callable[[Event], None] = lambda event: None,
    transcript: Transcript | None = None,
) -> dict[str, Any]:
    """One party of a study on a link that is there; for engines that need no identity."""
    secret, data = own_secret.of_local_party(link.me), rows_of(X, study, f"the table of P{link.me}")
    run = PartyRun(study, link.me, data, out, out, notify=notify, own_secret=secret, transcript=transcript)
    return run_party(run, link)
