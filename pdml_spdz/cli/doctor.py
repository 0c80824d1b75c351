"""pdml-spdz doctor: what is there, what is missing, and what that means."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import address, options
from pdml_spdz.cli.row_options import READING, reading_of
from pdml_spdz.cli.show import Screen
from pdml_spdz.cli.words import echo
from pdml_spdz.engines.spec import Diagnosis
from pdml_spdz.errors import PdmlError, PeerError, StudyError
from pdml_spdz.programs.render import template_directory
from pdml_spdz.rows.reading import Reading, RowSettings
from pdml_spdz.run import own_secret, repeats
from pdml_spdz.run.context import stock_root
from pdml_spdz.run.handshake import required_fingerprints
from pdml_spdz.run.output import versions
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.file import load
from pdml_spdz.study.model import Study
from pdml_spdz.transport import certs
from pdml_spdz.transport.certs import Identity
from pdml_spdz.transport.connect import listen as listen_at
from pdml_spdz.transport.connect import shown
from pdml_spdz.transport.reach import Attempt, try_all

EXTRAS = {"snowballstemmer": "stemming in `documents`", "sklearn": "the estimators"}
PACKAGES = {"sklearn": "scikit-learn"}  # where a package is not called as its module


@dataclass(frozen=True)
class PeerCheck:
    """What a party tries with the others. at : where it listens, if not where the study says"""

    reach: bool
    listen: bool
    at: tuple[str, int] | None
    seconds: float

    @property
    def any(self) -> bool:
        return self.reach or self.listen


@sections.command()
@click.argument("study_file", metavar="[STUDY]", required=False, type=click.Path(path_type=Path))
@click.option("--id", "me", type=click.IntRange(0), help="Which party of STUDY this is: checks its key and port.")
@click.option("--reach", is_flag=True, help="Try to reach every other party: host, port, firewall, certificate.")
@click.option("--listen", "listens", is_flag=True, help="Listen as the party would, and say who gets through.")
@click.option("--at", callback=address, metavar="HOST:PORT", help="With --listen: here instead of STUDY's address.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=600.0, show_default=True, help="With --listen: for so long at most."
)
@click.option("--certs", "directory", type=click.Path(path_type=Path), help="[default: certs/ beside STUDY]")
@click.option("--mp-spdz", "home", type=click.Path(path_type=Path), help="Where MP-SPDZ is.")
@click.option("--data", type=click.Path(path_type=Path), help="This party's rows: checks them against STUDY.")
@options(READING)
@click.option("--json", "as_json", is_flag=True)
def doctor(
    study_file: Path | None,
    me: int | None,
    reach: bool,
    listens: bool,
    at: tuple[str, int] | None,
    seconds: float,
    directory: Path | None,
    home: Path | None,
    data: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Check this machine and, with STUDY, all that this party needs for it: engine, key, port, peers.

    Exit code 1 if something will fail. With --reach this party tries every other one; these have to run `party` or
    `doctor --listen` meanwhile. With both, all parties can do the same at once: it ends when everybody has got through.
    No number is sent, and a run that waits for its parties is not touched.

    \b
    Examples:
      pdml-spdz doctor
      pdml-spdz doctor study.toml --id 0
      pdml-spdz doctor study.toml --id 0 --data rows.csv
      pdml-spdz doctor study.toml --id 0 --reach
      pdml-spdz doctor study.toml --id 0 --reach --listen --seconds 5
    """
    trial = PeerCheck(reach, listens, at, seconds)
    if trial.any and (study_file is None or me is None):
        raise click.UsageError("--reach and --listen need STUDY and --id.")
    reading = reading_of(given)
    findings = [*_machine(), *(f for name in ENGINES.names() for f in ENGINES[name].doctor(home))]
    if study_file is not None:
        findings += _study(study_file, me, directory or study_file.parent / "certs", home, trial)
    if data is not None:
        findings += _data(data, study_file, me, reading)
    if as_json:
        echo(json.dumps([asdict(f) for f in findings]))
    else:
        _show(findings)
    sys.exit(any(f.level == "problem" for f in findings))


def _data(path: Path, study_file: Path | None, me: int | None, reading: Reading) -> Iterator[Diagnosis]:
    from pdml_spdz.fits.examine import examine  # with what reads files

    try:
        study = None if study_file is None else load(study_file)
        me = me if study is not None and me is not None and me < study.M else None
        found = examine(path, reading, RowSettings(), study, me).findings
        yield from (Diagnosis(f.level, f.what, f.found) for f in found)
    except PdmlError as error:
        yield Diagnosis("problem", "data", str(error))


def _machine() -> Iterator[Diagnosis]:
    for name, found in versions().items():
        yield Diagnosis("ok", name, found)
    for name, what in EXTRAS.items():
        here = importlib.util.find_spec(name) is not None
        package = PACKAGES.get(name, name)
        yield Diagnosis("ok" if here else "note", package, what if here else f"{what}: pip install {package}")
    yield Diagnosis("ok", "cores", str(os.cpu_count()))
    templates = sorted(path.name for path in template_directory().glob("*.j2"))
    yield Diagnosis("ok" if templates else "problem", "templates", ", ".join(templates) or "none found")
    for what, check in (("state directory", own_secret.load), ("data directory", repeats.check)):
        try:
            check()
            yield Diagnosis("ok", what, "what a party keeps beside all of its runs can be written")
        except PdmlError as error:
            yield Diagnosis("problem", what, str(error))
    now = dt.datetime.now(dt.UTC)
    level = "ok" if now.year >= 2026 else "problem"
    yield Diagnosis(level, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC (certificates depend on it)")
    try:
        listen_at("127.0.0.1", 0).close()
        yield Diagnosis("ok", "loopback", "can listen on 127.0.0.1: local runs work")
    except PdmlError as error:
        yield Diagnosis("problem", "loopback", error.found)


def _study(path: Path, me: int | None, directory: Path, home: Path | None, trial: PeerCheck) -> Iterator[Diagnosis]:
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
        if me >= agreed.M:
            raise StudyError(f"--id is {me} and the study has only {agreed.M} parties.", f"0 to {agreed.M - 1}")
        identity = certs.load_identity(directory, me, required_fingerprints(agreed))
        yield from _certificates(identity)
        yield from _ports(agreed, me, trial)
    except PdmlError as error:
        yield Diagnosis("problem", f"P{me}", str(error))
        return
    if trial.any:
        yield from _peers(agreed, identity, trial)


def _engine(agreed: Study, home: Path | None) -> Iterator[Diagnosis]:
    """What the study's engine needs here: for a run, and for making stocks."""
    engine, phase = agreed.engine_spec, agreed.engine_spec.offline
    try:
        engine.ready(agreed, home, stock_root())
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


def _certificates(identity: Identity) -> Iterator[Diagnosis]:
    for party, certificate in identity.certificates.items():
        left = (certificate.not_after - dt.datetime.now(dt.UTC)).days
        yield Diagnosis("ok", f"P{party}.pem", f"valid for {left} days, {certificate.fingerprint[:16]}...")


def _ports(agreed: Study, me: int, trial: PeerCheck) -> Iterator[Diagnosis]:
    own = agreed.parties[me]
    host, port = trial.at or (own.host, own.port)
    ports = {"port": port} | ({"MP-SPDZ's port": own.mp_spdz_port} if own.mp_spdz_port else {})
    for what, number in ports.items():
        try:
            listen_at(host, number).close()
            yield Diagnosis("ok", what, f"{shown(host, number)} is free")
        except PeerError as error:
            if trial.at or what != "port" or me < agreed.M - 1:
                raise
            yield Diagnosis("note", what, f"{error.found} Nobody connects to the last party: it need not")


def _peers(agreed: Study, identity: Identity, trial: PeerCheck) -> Iterator[Diagnosis]:
    own, me = agreed.parties[identity.me], identity.me
    listener = listen_at(*(trial.at or (own.host, own.port))) if trial.listen else None
    addresses = [(p.host, p.port) for p in agreed.parties]

    def say(text: str) -> None:
        with suppress(OSError):
            click.echo(text, err=True)

    tried, came = try_all(identity, addresses, listener=listener, seconds=trial.seconds, reach=trial.reach, say=say)
    yield from (_reached(attempt) for attempt in tried)
    if trial.listen:
        for party in [p for p in range(agreed.M) if p != me]:
            if party in came:
                yield Diagnosis("ok", f"from P{party}", "has reached this party")
            else:
                yield Diagnosis("note", f"from P{party}", f"has not reached this party within {trial.seconds:g} s")


def _reached(attempt: Attempt) -> Diagnosis:
    level = "ok" if attempt.through else "note" if attempt.silent else "problem"
    return Diagnosis(level, f"to P{attempt.party}", attempt.found)


def _show(findings: list[Diagnosis]) -> None:
    table = Table(box=None, show_header=False)
    colours = {"ok": "green", "note": "yellow", "problem": "red"}
    for f in findings:
        table.add_row(f"[{colours[f.level]}]{f.level}[/]", escape(f.what), escape(f.found))
    Screen().print(table)
