"""pdml-spdz certs: keys and certificates."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import click

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import address, shown
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import CertificateError
from pdml_spdz.study.file import load, write_fingerprints
from pdml_spdz.transport import certs as certificates
from pdml_spdz.transport.certs import Certificate
from pdml_spdz.transport.connect import shown as shown_address

_directory = shown("--dir", Path("certs"), "Where they are.", "directory", type=click.Path(path_type=Path))


@sections.group()
def certs() -> None:
    """Keys and certificates: made where they are used, pinned by fingerprint.

    \b
    Examples:
      pdml-spdz certs make --id 0      at P0: makes certs/P0.key (stays here) and certs/P0.pem (send it to the others)
      pdml-spdz certs add P1.pem P2.pem    at P0: pins these certificates; compare fingerprints by telephone
      pdml-spdz certs show
      pdml-spdz certs fingerprints study.toml    at one party: writes all parties' into the study, to be sent to all
    """


@certs.command()
@click.option("--id", "party", type=click.IntRange(0), required=True, help="Which party of the study this is.")
@click.option("--name", default="", help="The organisation's name, for people; every party will see it.")
@click.option("--address", callback=address, metavar="HOST:PORT", help="Where the others reach this party.")
@click.option("--days", type=click.IntRange(1), default=certificates.VALID_DAYS, show_default=True)
@click.option("--force", is_flag=True, help="Replace key and certificate.")
@_directory
def make(party: int, name: str, address: tuple[str, int] | None, days: int, force: bool, directory: Path) -> None:
    """Make this party's key and certificate here. The key never leaves this directory.

    \b
    Example:
      pdml-spdz certs make --id 1 --name "Hospital B" --address b.example:7000
    """
    made = certificates.make(directory, party, days=days, force=force, name=name, address=address)
    _print(made)
    echo(
        f"send {made.path} to the party that packs the study (`pdml-spdz study pack`); never send P{party}.key. All "
        "parties then compare the study's code by telephone"
    )


@certs.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace another certificate that is pinned for this party.")
@_directory
def add(files: tuple[Path, ...], force: bool, directory: Path) -> None:
    """Pin other parties' certificates, each of FILES, and print the fingerprints to compare.

    All of them are read before one is pinned.

    \b
    Example:
      pdml-spdz certs add P1.pem P2.pem
    """
    for added in certificates.add_all(directory, files, force=force):
        _print(added)
        echo(f"compare this fingerprint with P{added.party}, by telephone, before the first run")


@certs.command()
@_directory
@click.option("--json", "as_json", is_flag=True)
def show(directory: Path, as_json: bool) -> None:
    """The certificates that are pinned here.

    \b
    Example:
      pdml-spdz certs show
    """
    found = [certificates.read(path) for path in sorted(directory.glob("P*.pem"))]
    if as_json:
        rows = [{"party": c.party, "fingerprint": c.fingerprint, "not_after": c.not_after.isoformat()} for c in found]
        echo(json.dumps(rows))
        return
    if not found:
        echo(f"no certificates in {directory}; make this party's with `pdml-spdz certs make --id I`")
    for certificate in found:
        _print(certificate)


@certs.command()
@click.argument("study_file", metavar="STUDY", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace other fingerprints that STUDY states.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="[default: certs/ beside STUDY]")
def fingerprints(study_file: Path, force: bool, directory: Path | None) -> None:
    """Write the fingerprints of all parties' certificates, as pinned here, into STUDY.

    One party does this, when all have exchanged certificates and compared fingerprints; all then use that file, which
    a run needs. `study pack` does the same, and more.

    \b
    Example:
      pdml-spdz certs fingerprints study.toml
    """
    where, stated = directory or study_file.parent / "certs", load(study_file).parties
    found = [certificates.pinned(where, party) for party in range(len(stated))]
    for entry, certificate in zip(stated, found, strict=True):
        if entry.fingerprint and entry.fingerprint != certificate.fingerprint and not force:
            raise CertificateError(
                f"{study_file} states another fingerprint of P{certificate.party} than {certificate.path} has.",
                do=f"ask P{certificate.party}, by telephone, which is right; --force takes what is pinned here",
            )
    write_fingerprints(study_file, [certificate.fingerprint for certificate in found])
    for certificate in found:
        _print(certificate)
    echo(f"wrote {study_file}; send it to every party")


def _print(certificate: Certificate) -> None:
    left = (certificate.not_after - dt.datetime.now(dt.UTC)).days
    who = ", ".join(filter(None, (certificate.name, certificate.address and shown_address(*certificate.address))))
    echo(f"P{certificate.party}  {certificate.path}  valid for {left} days{f'  ({who})' if who else ''}")
    echo(f"    {certificates.spoken(certificate.fingerprint)}")
