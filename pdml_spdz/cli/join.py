"""pdml-spdz join: look at a bundle, compare its code, take part."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pdml_spdz.cli import sections
from pdml_spdz.cli.study import describe, say_code
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import CertificateError, StorageError
from pdml_spdz.study import bundle as bundles
from pdml_spdz.study import file as study_file

_path = click.Path(path_type=Path)


@sections.command()
@click.argument("bundle", type=_path)
@click.option("--id", "me", type=click.IntRange(0), help="Which party this is, if more than one key is here.")
@click.option("--code", metavar="WORDS", help="The twelve words, as another party reads them out: nothing is asked.")
@click.option("--certs", type=_path, help="Where this party's key is [default: certs/ in --dir].")
@click.option("--dir", "directory", type=_path, default=Path(), help="Where study.toml goes [default: here].")
@click.option("--force", is_flag=True, help="Replace another study.toml, and other certificates that are pinned.")
def join(bundle: Path, me: int | None, code: str | None, certs: Path | None, directory: Path, force: bool) -> None:
    """Look at a BUNDLE, compare its code by telephone, and take part in its study.

    Shows who is in it, what will be computed and what every party will see; then asks whether the code is what
    the others have. Only then is study.toml written, and are the others' certificates pinned.

    \b
    Examples:
      pdml-spdz join study.bundle
      pdml-spdz join study.bundle --code "THE TWELVE WORDS THAT ANOTHER PARTY READS OUT"
    """
    found, where = bundles.load(bundle), certs or directory / "certs"
    own = bundles.own_party(where, found, me)
    describe(found.study)
    echo(f"this party is P{own}")
    target = directory / "study.toml"
    if target.exists() and not force and study_file.load(target).digest != found.study.digest:
        raise StorageError(f"{target} is another study.", do="choose another --dir, or pass --force to replace it")
    if code is None:
        say_code(found.study)
        if not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked here: pass the words that another party reads out (--code).")
        click.confirm("Do all other parties have the same twelve words, by telephone?", abort=True)
    elif not bundles.same_code(code, bundles.code(found.study)):
        raise CertificateError(
            f"the code of {bundle} is not the one that was read out.",
            "the same twelve words at every party",
            "get the bundle again, and the code from another party than the one that sent it; a key, an address or a "
            "setting differs",
        )
    bundles.unpack(found, where, bundle, force=force)
    study_file.write(target, found.study)
    echo(f"wrote {target}. Next: pdml-spdz party {target} --id {own} --data FILE")
