"""One process for each party, with the study, certificates and code that M hosts would use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdml_spdz.local.joint import LocalRun
from pdml_spdz.local.supervisor import PartyCommands, supervise
from pdml_spdz.rows.data import Data


def run_processes(run: LocalRun, rows: Sequence[Path | Data], out: Path) -> list[dict[str, Any]]:
    """Run all parties to the end and return their reports; raises the error of the party that failed first."""
    handed = {m: given for m, given in enumerate(rows) if isinstance(given, Data)}
    paths: dict[str, Any] = {"--out": out, "--stock": run.stock, "--mp-spdz": run.mp_spdz}
    flags = {"--record-transcript": run.record_transcript, "--resume": run.resume, "--force": run.force}

    def command(m: int, study: Path) -> list[str]:
        own = paths if m in handed else paths | {"--data": rows[m]}
        arguments = ["party", str(study), "--id", str(m), *(flag for flag, is_set in flags.items() if is_set)]
        return arguments + [text for option, path in own.items() if path for text in (option, str(path))]

    return supervise(PartyCommands(run.study, out, command, run.notify, run.environment, handed))
