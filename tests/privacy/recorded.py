"""Runs between threads that keep a transcript."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdml_spdz.engines.transcript import Transcript, load
from pdml_spdz.fits import prepare
from pdml_spdz.local.joint import local_study
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.run import handshake
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_fit
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.inprocess import mesh


def record(tables: Sequence[RowsLike], out: Path, *, resume: bool = False, **settings: Any) -> Transcript:
    """Party 0's transcript of a whole fit, as it is on disk afterwards."""
    study = local_study(len(tables), **settings)
    errors: list[BaseException] = []

    def party(link: Link) -> None:
        try:
            with link:
                seen = Transcript() if link.me == 0 else None
                run = PartyRun(study, link.me, Path(f"rows-{link.me}"), out, out, resume, transcript=seen)
                with run.output():
                    data = prepare.agreed(Data(tables[link.me], None, "rows"), study)
                    met = handshake.meet(link, study, (), resume=resume)
                    run_fit(run, data, link, met, Identity(link.me, out, {}))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=party, args=(link,)) for link in mesh(study.M)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return load(out / "party-0" / "transcript.npz")
