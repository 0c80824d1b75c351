"""pdml-spdz mp-spdz: what is installed of MP-SPDZ, and how to get a release of it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.show import Screen
from pdml_spdz.cli.words import echo
from pdml_spdz.engines.mp_spdz import home as homes
from pdml_spdz.engines.mp_spdz.home import Found, Installation
from pdml_spdz.engines.mp_spdz.install import URL, install
from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS


@sections.group("mp-spdz")
def mp_spdz() -> None:
    """MP-SPDZ, the program behind the engine for malicious parties: what is here of it, and how to get it.

    \b
    Examples:
      pdml-spdz mp-spdz list
      pdml-spdz mp-spdz list --mp-spdz ~/MP-SPDZ
      pdml-spdz mp-spdz install                                     download a binary release
      pdml-spdz mp-spdz install --archive mp-spdz-0.4.2.tar.xz      one that is already here
    """


@mp_spdz.command("list")
@click.option("--mp-spdz", "given", metavar="DIR", type=click.Path(path_type=Path), help="Where MP-SPDZ is.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def list_command(given: Path | None, as_json: bool) -> None:
    """The protocols that can be used, and which of their programs are installed.

    \b
    Example:
      pdml-spdz mp-spdz list
    """
    found = homes.require(given) if given else homes.find()
    if as_json:
        echo(json.dumps(_facts(found)))
        return
    console = Screen()
    console.print(_table(found))
    if found is None:
        console.print(homes.missing_text(), highlight=False, markup=False)
    else:
        console.print(f"MP-SPDZ {found.version()} in {found.path}", highlight=False, markup=False)


def _rows(found: Installation | None) -> list[Found]:
    return found.protocols() if found else [Found(p, None, None) for p in PROTOCOLS.values()]


def _facts(found: Installation | None) -> dict[str, Any]:
    place = {"path": str(found.path), "version": found.version(), "compiler": str(found.compiler)} if found else None
    rows = [
        asdict(row.protocol)
        | {
            "party_found": str(row.party) if row.party else None,
            "offline_found": str(row.offline) if row.offline else None,
            "insecure": [p.name for p in (row.party, row.offline) if found and p and found.is_insecure(p)],
        }
        for row in _rows(found)
    ]
    return {"installation": place, "protocols": rows}


def _table(found: Installation | None) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("protocol", "parties", "corrupt", "malicious", "modulus", "party", "offline"):
        table.add_column(column, no_wrap=True)
    for row in _rows(found):
        p = row.protocol
        table.add_row(
            p.name,
            p.parties,
            p.corruptions.removesuffix(" parties"),
            "yes" if p.malicious else "no",
            p.domain,
            _mark(found, row.party),
            "none exists" if p.offline is None else _mark(found, row.offline),
        )
    return table


def _mark(found: Installation | None, path: Path | None) -> str:
    if found is None or path is None:
        return "-"
    return "[red]INSECURE[/red]" if found.is_insecure(path) else "[green]installed[/green]"


def _hex(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise click.BadParameter("a SHA-256 is 64 hexadecimal digits")
    return value


@mp_spdz.command("install")
@click.option(
    "--archive",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A release that is here.",
)
@click.option("--url", help=f"Download this instead of {URL}.")
@click.option("--to", metavar="DIR", type=click.Path(path_type=Path), help="[default: in the user's data directory]")
@click.option("--sha256", metavar="HEX", default="", callback=_hex, help="Refuse any other archive.")
@click.option("--force", is_flag=True, help="Replace an installation.")
def install_command(archive: Path | None, url: str | None, to: Path | None, sha256: str, force: bool) -> None:
    """Unpack a binary release of MP-SPDZ for this user, and check that its programs start here.

    Only upstream's own archives are meant: what is in them will be run. Its SHA-256 is printed: compare it with the one
    that the release's page shows, and with the other parties.

    \b
    Example:
      pdml-spdz mp-spdz install --archive mp-spdz-0.4.2.tar.xz
    """
    if archive and url:
        raise click.UsageError("give either --archive or --url")
    target = (to or homes.data_home()).expanduser().absolute()
    with _Bars() as bars:
        done = install(target, archive=archive, url=url or URL, sha256=sha256, force=force, progress=bars)
    here = done.installation
    names = ", ".join(row.protocol.name for row in here.protocols() if row.party)
    echo(f"SHA-256 of the archive: {done.sha256}")
    echo(f"installed MP-SPDZ {here.version()} in {here.path}; {done.started.name} starts; protocols: {names}")
    if to is not None:
        echo(f"to use it: --mp-spdz {here.path}, or {homes.VARIABLE}={here.path}")


class _Bars:
    """One bar for each step."""

    def __init__(self) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            DownloadColumn(),
            TimeElapsedColumn(),
            console=Screen(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if what not in self._tasks:
            self._tasks[what] = self.progress.add_task(escape(what), total=total)
        self.progress.update(self._tasks[what], completed=done)
