"""pdml-spdz doctor: what is there, what is missing, and what that means."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from pdml_spdz.cli.show import Screen
from pdml_spdz.cli.words import echo
from pdml_spdz.engines.spec import Diagnosis
from pdml_spdz.errors import PdmlError
from pdml_spdz.programs.render import template_directory
from pdml_spdz.run.handshake import required_fingerprints
from pdml_spdz.run.output import versions
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.file import load
from pdml_spdz.study.model import Study
from pdml_spdz.transport import certs
from pdml_spdz.transport.connect import listen


@click.command()
@click.argument("study_file", metavar="[STUDY]", required=False, type=click.Path(path_type=Path))
@click.option("--id", "me", type=click.IntRange(0), help="Which party of STUDY this is: checks its key and port.")
@click.option("--certs", "directory", type=click.Path(path_type=Path), help="[default: certs/ beside STUDY]")
@click.option("--mp-spdz", "home", type=click.Path(path_type=Path), help="Where MP-SPDZ is.")
@click.option("--json", "as_json", is_flag=True)
def doctor(study_file: Path | None, me: int | None, directory: Path | None, home: Path | None, as_json: bool) -> None:
    """Check this machine and, with STUDY, its engine, this party's certificates and port. Exit code 1 if something
    will fail.

    \b
    Examples:
      pdml-spdz doctor
      pdml-spdz doctor study.toml --id 0
    """
    findings = [*_machine(), *(f for name in ENGINES.names() for f in ENGINES[name].doctor(home))]
    if study_file is not None:
        findings += _study(study_file, me, directory or study_file.parent / "certs", home)
    if as_json:
        echo(json.dumps([asdict(f) for f in findings]))
    else:
        _show(findings)
    sys.exit(any(f.level == "problem" for f in findings))


def _machine() -> Iterator[Diagnosis]:
    for name, found in versions().items():
        yield Diagnosis("ok", name, found)
    yield Diagnosis("ok", "cores", str(os.cpu_count()))
    templates = sorted(path.name for path in template_directory().glob("*.j2"))
    yield Diagnosis("ok" if templates else "problem", "templates", ", ".join(templates) or "none found")
    now = dt.datetime.now(dt.UTC)
    level = "ok" if now.year >= 2026 else "problem"
    yield Diagnosis(level, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC (certificates depend on it)")
    try:
        listen("127.0.0.1", 0).close()
        yield Diagnosis("ok", "loopback", "can listen on 127.0.0.1: local runs work")
    except PdmlError as error:
        yield Diagnosis("problem", "loopback", error.found)


def _study(path: Path, me: int | None, directory: Path, home: Path | None) -> Iterator[Diagnosis]:
    try:
        agreed = load(path)
    except PdmlError as error:
        yield Diagnosis("problem", "study", str(error))
        return
    yield Diagnosis(
        "ok", "study", f"{agreed.M} parties, {agreed.algorithm}, rank {agreed.rank}, digest {agreed.digest[:16]}"
    )
    yield from _engine(agreed, home)
    if me is None:
        yield Diagnosis("note", "party", "pass --id to check this party's key, certificates and port")
        return
    try:
        identity = certs.load_identity(directory, me, required_fingerprints(agreed))
        for party, certificate in identity.certificates.items():
            left = (certificate.not_after - dt.datetime.now(dt.UTC)).days
            yield Diagnosis("ok", f"P{party}.pem", f"valid for {left} days, {certificate.fingerprint[:16]}...")
        listen(agreed.parties[me].host, agreed.parties[me].port).close()
        yield Diagnosis("ok", "port", f"{agreed.parties[me].host}:{agreed.parties[me].port} is free")
    except PdmlError as error:
        yield Diagnosis("problem", f"P{me}", str(error))
    except IndexError:
        yield Diagnosis("problem", f"P{me}", f"the study has only {agreed.M} parties")


def _engine(agreed: Study, home: Path | None) -> Iterator[Diagnosis]:
    """What the study's engine needs here: for a run, and for making stocks."""
    engine, phase = agreed.engine_spec, agreed.engine_spec.offline
    try:
        engine.ready(agreed, home)
        yield Diagnosis("ok", f"engine {engine.name}", "what a run of the study needs is here")
    except PdmlError as error:
        yield Diagnosis("problem", f"engine {engine.name}", str(error))
        return
    if phase is None or not agreed.on_shares:
        return
    try:
        phase.ready(agreed, home)
    except PdmlError as error:
        yield Diagnosis("problem" if agreed.offline == "stock" else "note", "offline phase", str(error))


def _show(findings: list[Diagnosis]) -> None:
    table = Table(box=None, show_header=False)
    colours = {"ok": "green", "note": "yellow", "problem": "red"}
    for f in findings:
        table.add_row(f"[{colours[f.level]}]{f.level}[/]", escape(f.what), escape(f.found))
    Screen().print(table)
