"""pdml-spdz study: what M organisations agree on, in one file with one code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pdml_spdz.cli import sections
from pdml_spdz.cli.init import SETTINGS, chosen_settings, placeholder
from pdml_spdz.cli.options import options
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import CertificateError, StorageError, StudyError
from pdml_spdz.fits.announced import announced
from pdml_spdz.local.joint import study_of
from pdml_spdz.study import bundle as bundles
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import PartyEntry, Study
from pdml_spdz.transport import certs as certificates
from pdml_spdz.transport.certs import spoken
from pdml_spdz.transport.connect import shown

_path = click.Path(path_type=Path)


@sections.group()
def study() -> None:
    """What M organisations agree on, as one file, with one code to compare by telephone.

    \b
    Examples:
      pdml-spdz study pack P1.pem P2.pem --algorithm pca --rank 2     at P0, which has made its own certificate
      pdml-spdz study code study.toml                                 the code again
    """


@study.command()
@click.argument("files", nargs=-1, required=True, metavar="[STUDY] CERTIFICATE...", type=_path)
@options(SETTINGS)
@click.option("--out", type=_path, default=Path("study.bundle"), show_default=True, help="The bundle to write.")
@click.option("--certs", type=_path, help="Where certificates are pinned [default: certs/ beside STUDY].")
@click.option("--force", is_flag=True, help="Replace other certificates that are pinned, and existing files.")
def pack(files: tuple[Path, ...], out: Path, certs: Path | None, force: bool, **given: Any) -> None:
    """Put a study and all parties' certificates into one bundle, to be sent to every party, and print its code.

    One party does this, when it has the others' CERTIFICATES and has made its own. Names and addresses of the parties
    are those of their certificates. With STUDY, a .toml file, its settings; without, the options' (and study.toml is
    written). Whoever carries the bundle could replace keys and addresses in it: the code, read out by telephone,
    is what tells.

    \b
    Examples:
      pdml-spdz study pack P1.pem P2.pem --algorithm pca --rank 2
      pdml-spdz study pack study.toml P1.pem P2.pem --out next.bundle
    """
    path = next((f for f in files if f.suffix == ".toml"), None)
    where = certs or (path.parent if path else Path()) / "certs"
    certificates.add_all(where, [f for f in files if f != path], force=force)
    if path is None:
        path = Path("study.toml")
        if path.exists() and not force:
            do = f"pack it (`pdml-spdz study pack {path} P*.pem`), or pass --force to replace it"
            raise StorageError(f"{path} is already there.", do=do)
        entries = [PartyEntry(host=placeholder(i)) for i in range(_count(where))]
        agreed = study_of(entries, chosen_settings(given))
    else:
        _refuse_options(given)
        agreed = study_file.load(path)
    bundle = bundles.pack(agreed, where)
    if not force:
        if out.exists():
            raise StorageError(f"{out} exists.", "another name", "pass --out NAME, or --force to replace it")
        _check_same_addresses(agreed, bundle.study)
    _check_addresses(bundle.study)
    bundle.save(out)
    study_file.write(path, bundle.study)
    describe(bundle.study)
    echo(f"\nwrote {path} and {out}: send {out} to every party, which runs `pdml-spdz join {out.name}`.")
    say_code(bundle.study)


@study.command("code")
@click.argument("file", metavar="STUDY", type=_path)
def show_code(file: Path) -> None:
    """Print the code of STUDY (or of a bundle): the same words at every party, or they have not the same study.

    \b
    Example:
      pdml-spdz study code study.toml
    """
    agreed = study_file.load(file) if file.suffix == ".toml" else bundles.load(file).study
    if not all(party.fingerprint for party in agreed.parties):
        raise StudyError(
            f"{file} does not name all parties' certificates: its code would not tell keys apart.",
            "a study with the fingerprint of every party",
            "`pdml-spdz study pack`, or `pdml-spdz certs fingerprints`",
        )
    echo(bundles.code(agreed))


def _refuse_options(given: dict[str, Any]) -> None:
    context = click.get_current_context()
    twice = [name for name in given if context.get_parameter_source(name) == ParameterSource.COMMANDLINE]
    if twice:
        raise click.UsageError(f"{', '.join(twice)}: the study says it; give either STUDY or these options")


def _count(directory: Path) -> int:
    """How many parties there are, by the certificates that are pinned: all of them, from 0."""
    found = sorted(certificates.read(path).party for path in directory.glob("P*.pem"))
    if len(found) < 2 or found != list(range(len(found))):
        raise CertificateError(
            f"{directory} has the certificates of {', '.join(f'P{i}' for i in found) or 'nobody'}.",
            "those of P0, P1 and so on, this party's own among them",
            "make this party's (`pdml-spdz certs make --id I`), and get what is missing from the others",
        )
    return len(found)


def _check_same_addresses(said: Study, packed: Study) -> None:
    """Where the study itself names a host, the certificate does not name another."""
    for i, (before, after) in enumerate(zip(said.parties, packed.parties, strict=True)):
        if before.host != placeholder(i) and (before.host, before.port) != (after.host, after.port):
            raise StudyError(
                f"the study has P{i} at {shown(before.host, before.port)}, its certificate at "
                f"{shown(after.host, after.port)}.",
                "one address",
                "edit the study, or pass --force to take what the certificates say",
            )


def _check_addresses(agreed: Study) -> None:
    missing = [f"P{i}" for i, p in enumerate(agreed.parties) if not p.port or p.host == placeholder(i)]
    if missing:
        raise StudyError(
            f"nothing says where {', '.join(missing)} can be reached.",
            "an address in its certificate, or its host and port in STUDY",
            "`pdml-spdz certs make --id I --address HOST:PORT --force` there, or edit the study",
        )


def describe(agreed: Study) -> None:
    """Who takes part, what will be computed, and what every party will see."""
    for i, party in enumerate(agreed.parties):
        echo(f"P{i}  {party.name or '(no name)'}  {shown(party.host, party.port)}")
        echo(f"    {spoken(party.fingerprint)}")
    echo(f"will be computed: {', '.join(f'{name} {value}' for name, value in bundles.settings(agreed).items())}")
    echo("every party will see, besides the result:")
    for line in announced(agreed):
        echo(f"  - {line.removesuffix(', to every party')}")


def say_code(agreed: Study) -> None:
    words = bundles.code(agreed).split()
    echo("\nThe code, the same at every party; read it to each other by telephone, all twelve words:")
    echo(f"  {' '.join(words[:6])}\n  {' '.join(words[6:])}")
