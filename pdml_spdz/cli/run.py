"""What the commands that run all parties on this machine have in common."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from pdml_spdz.cli.options import study_settings
from pdml_spdz.cli.show import Watcher, show_result
from pdml_spdz.cli.words import echo, resumable
from pdml_spdz.local.joint import Compare, LocalRun, local_study, run_local


def run_and_show(
    files: Sequence[Path],
    given: dict[str, Any],
    compare: Compare | None,
    console: Console,
) -> None:
    """Run one local party for each file, compare the result with the pooled one, show or print the report."""
    given = dict(given)
    names = ("out", "resume", "force", "stock", "mp_spdz", "record_transcript", "as_json")
    local = {name: given.pop(name, None) for name in names}
    study = local_study(len(files), **study_settings(given))
    out = local["out"] or Path("runs") / f"{study.algorithm}-{dt.datetime.now():%Y%m%d-%H%M%S}"
    with resumable(out), Watcher(console) as watcher:
        result = run_local(
            LocalRun(
                files,
                study,
                out,
                bool(local["resume"]),
                bool(local["force"]),
                local["stock"],
                watcher,
                mp_spdz=local["mp_spdz"],
                record_transcript=bool(local["record_transcript"]),
            ),
            compare,
        )
    report = result.report
    if local["as_json"]:
        echo(json.dumps(report))
    else:
        show_result(console, report, result.party_reports, out)
