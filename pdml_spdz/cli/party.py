"""pdml-spdz party: one party of a study."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import HOME, LOCAL, STOCK, address, options
from pdml_spdz.cli.row_options import DASK, READING, reading_of
from pdml_spdz.cli.words import echo, resumable, say_what_is_revealed
from pdml_spdz.engines.transcript import Transcript
from pdml_spdz.errors import PdmlError
from pdml_spdz.rows import handover
from pdml_spdz.run import own_secret
from pdml_spdz.run.context import PartyRun
from pdml_spdz.run.party import run_party
from pdml_spdz.study.file import load
from pdml_spdz.system import process
from pdml_spdz.system.files import not_usable


@sections.command()
@click.argument("study_file", metavar="STUDY", type=click.Path(path_type=Path))
@click.option("--id", "me", type=click.IntRange(0), required=True, help="Which party of the study this is.")
@click.option("--data", type=click.Path(path_type=Path), help="This party's rows.  [required]")
@click.option(
    "--certs",
    "certificates",
    type=click.Path(path_type=Path),
    help="Key and certificates [default: certs/ beside STUDY].",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/party"), show_default=True)
@click.option("--listen", callback=address, metavar="HOST:PORT", help="Listen here instead of the study's address.")
@click.option("--resume", is_flag=True, help="Go on from the last finished iteration in --out (all parties must).")
@options(READING, DASK, [STOCK, HOME], LOCAL)
@click.option("--listen-fd", type=int, hidden=True, help="An open listening socket, from the local command.")
@click.option("--rows-fd", type=int, hidden=True, help="Where the local command hands over rows that are in no file.")
@click.option("--supervised", is_flag=True, hidden=True, help="Events on standard output; end with the parent.")
def party(
    study_file: Path,
    me: int,
    data: Path | None,
    certificates: Path | None,
    out: Path,
    listen: tuple[str, int] | None,
    stock: Path | None,
    mp_spdz: Path | None,
    record_transcript: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    listen_fd: int | None,
    rows_fd: int | None,
    supervised: bool,
    **given: Any,
) -> None:
    """Run one party of STUDY, with this party's rows.

    The parties may start in any order within the study's connect time-out. The files of this party are written to
    OUT/party-ID: V.npy, report.json, checkpoints.

    \b
    Examples:
      pdml-spdz party study.toml --id 0 --data rows.csv
      pdml-spdz party study.toml --id 2 --data rows.npz --listen 0.0.0.0:7002 --out runs/march
    """
    reading = reading_of(given)
    if data is None and rows_fd is None:
        raise click.MissingParameter(param_hint="'--data'", param_type="option")

    def run(notify: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        listener = listening_socket(listen_fd)
        where = certificates or study_file.parent / "certs"
        agreed = load(study_file)
        rows = handover.received(rows_fd) if rows_fd is not None else data
        assert rows is not None
        return run_party(
            PartyRun(
                agreed,
                me,
                rows,
                where,
                out,
                resume,
                force,
                listener,
                listen,
                notify,
                stock=stock,
                own_secret=own_secret.of_local_party(me) if supervised else None,
                mp_spdz=mp_spdz,
                transcript=Transcript() if record_transcript else None,
                out_is_held=supervised,
                reading=reading,
                announce=(lambda: None) if supervised else partial(say_what_is_revealed, agreed, err=as_json),
            )
        )

    if supervised:
        supervised_run(run)
        return
    from pdml_spdz.cli.show import Screen, Watcher, show_result  # a supervised party is watched by a process
    from pdml_spdz.results import result_page
    from pdml_spdz.run.output import kept_result

    console = Screen(stderr=as_json)
    with resumable(out), Watcher(console) as watcher:
        report = run(lambda event: watcher(me if event["event"] != "iteration" else 0, event))
        own = out / f"party-{me}"
        result_page.write(own, report, kept_result(own, report), private=True)
    if as_json:
        echo(json.dumps(report))
    else:
        show_result(console, report, [report], out / f"party-{me}")


def listening_socket(descriptor: int | None) -> socket.socket | None:
    """The socket that the local command opened for this party, if it did."""
    return None if descriptor is None else socket.socket(fileno=descriptor)


def supervised_run(run: Callable[[Callable[[dict[str, Any]], None]], dict[str, Any]]) -> None:
    """Events as JSON lines on standard output, for the process that started this one; ends with it."""
    process.watch_parent()

    def tell(event: dict[str, Any]) -> None:
        echo(json.dumps(event))

    try:
        tell({"event": "report", "report": run(tell)})
    except PdmlError as error:
        tell({"event": "error", "class": type(error).__name__, "message": str(error), "culprit": error.culprit})
        raise
    except Exception as error:
        failed = PdmlError("an unexpected error; its trace is in the log")
        if isinstance(error, OSError) and error.filename is not None:
            failed = not_usable(error)
        tell({"event": "error", "class": type(failed).__name__, "message": str(failed), "culprit": None})
        raise
