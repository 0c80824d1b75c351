"""pdml-spdz mp-spdz: what is there of MP-SPDZ."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.show import Screen
from pdml_spdz.cli.words import echo
from pdml_spdz.engines.mp_spdz import home as homes
from pdml_spdz.engines.mp_spdz.home import Found, Installation
from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS, Protocol


@sections.group("mp-spdz")
def mp_spdz() -> None:
    """MP-SPDZ, the program behind the engine for malicious parties: what is here of it.

    \b
    Examples:
      pdml-spdz mp-spdz list
      pdml-spdz mp-spdz list --mp-spdz ~/MP-SPDZ
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
    for text in (text for row in _rows(found) for text in _doubts(found, row)):
        console.print(f"note: {text}", highlight=False, markup=False)


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
            "lacks_mac_fix": bool(found and row.party and found.lacks_mac_fix(row.protocol)),
            "doubts": _doubts(found, row),
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
            _mark(found, p, row.party),
            "none exists" if p.offline is None else _mark(found, p, row.offline),
        )
    return table


def _mark(found: Installation | None, p: Protocol, path: Path | None) -> str:
    if found is None or path is None:
        return "-"
    if found.is_insecure(path):
        return "[red]INSECURE[/red]"
    return "[red]lacks MAC fix[/red]" if found.lacks_mac_fix(p) else "[green]installed[/green]"


def _doubts(found: Installation | None, row: Found) -> list[str]:
    return [text for path in (row.party, row.offline) if found and path for text in found.doubts(row.protocol, path)]
