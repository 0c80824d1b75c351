"""All commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import json
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import click

from pdml_spdz import __version__
from pdml_spdz.cli.bench import bench
from pdml_spdz.cli.certs import certs
from pdml_spdz.cli.doctor import doctor
from pdml_spdz.cli.documents import documents
from pdml_spdz.cli.init import init
from pdml_spdz.cli.mp_spdz import mp_spdz
from pdml_spdz.cli.nmf import nmf
from pdml_spdz.cli.normed_sum import normed_sum
from pdml_spdz.cli.offline import offline
from pdml_spdz.cli.party import party
from pdml_spdz.cli.pca import pca
from pdml_spdz.cli.privacy import privacy
from pdml_spdz.cli.programs import precision, render
from pdml_spdz.cli.svd import svd
from pdml_spdz.errors import PdmlError, exit_codes
from pdml_spdz.system import memory

INTERRUPTED = 130


def _table() -> str:
    return "\n".join(f"  {code:>3}  {name:<17} {meaning}" for code, name, meaning in exit_codes())


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n" + _table(),
)
@click.version_option(__version__, prog_name="pdml-spdz")
def cli() -> None:
    """Private distributed SVD, PCA and NMF: M parties, each with its own rows, compute one factorisation of them all.

    \b
    Examples:
      pdml-spdz svd a.csv b.csv c.csv --rank 5       three local parties, one process each
      pdml-spdz nmf a.npz b.npz --rank 20            topics instead of singular vectors
      pdml-spdz documents mails/ --hashed 4096 --out a.npz   texts to rows
      pdml-spdz init --parties 3 --rank 5            a study file to agree on
      pdml-spdz certs make --id 0                    this party's key and certificate
      pdml-spdz party study.toml --id 0 --data a.csv one party of a study over the network
      pdml-spdz offline make --dim 64 --rank 5       material for a run, before there is data
      pdml-spdz privacy assess a.csv --rank 5        what would the others learn of my records?
      pdml-spdz doctor                               what is installed, what is missing
    """


COMMANDS = (
    *(svd, pca, nmf, normed_sum, documents),
    *(party, offline, privacy, init, certs, doctor, mp_spdz, render, precision, bench),
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> NoReturn:
    """The entry point: errors in words on standard error, and their class as exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    memory.keep_freed()
    try:
        code: Any = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("pdml-spdz: stopped.", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PdmlError as error:
        _say(error)
        sys.exit(error.code)


def _terminated(signum: int, frame: FrameType | None) -> NoReturn:
    # As from the keyboard: the other parties are told before this one ends.
    raise KeyboardInterrupt


def _say(error: PdmlError) -> None:
    if "--json" in sys.argv:
        content = {"class": type(error).__name__, "code": error.code, "message": str(error)}
        click.echo(json.dumps({"error": content}))
    click.echo(f"pdml-spdz: {error}", err=True)
