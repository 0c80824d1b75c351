"""pdml-spdz init: a commented study file to agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import CENTRE, FACTORISATION, SCALING, VARIANCE, Option, options, stopping, study_settings
from pdml_spdz.cli.row_options import READING, ROWS, reading_of, row_settings
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import StorageError
from pdml_spdz.local.joint import study_of
from pdml_spdz.study import file as study_file
from pdml_spdz.study.algorithm import ALGORITHMS, DEFAULT
from pdml_spdz.study.model import MAX_PARTIES, PartyEntry

# What a study is made of, but for its parties.
SETTINGS: list[Option] = [
    click.option("--algorithm", type=click.Choice(ALGORITHMS.names()), default=DEFAULT, show_default=True),
    click.option("--rank", "-k", type=click.IntRange(1), help="Number of vectors or topics. Not for normed-sum."),
    *stopping(ALGORITHMS[DEFAULT]),
    *FACTORISATION,
    *CENTRE,
    VARIANCE,
    *SCALING,
    *ROWS,
    *READING,
    click.option("--dim", "d", type=click.IntRange(0), default=0, help="Number of features; 0: the files must agree."),
]


def placeholder(i: int) -> str:
    """A host that nobody has, to be replaced."""
    return f"host-{i}.example"


def chosen_settings(given: dict[str, Any]) -> dict[str, Any]:
    """The options above as settings of a Study, by the algorithm's own defaults where the user names none."""
    context = click.get_current_context()
    for name, value in ALGORITHMS[given["algorithm"]].defaults.items():
        if context.get_parameter_source(name) == ParameterSource.DEFAULT:
            given[name] = value
    if given["rank"] is None:
        raise click.UsageError("Missing option '--rank' / '-k'.")
    given |= row_settings(given, reading_of(given))
    return study_settings(given, study_file.WAIT)


@sections.command()
@click.option("--parties", type=click.IntRange(2, MAX_PARTIES), required=True, help="How many parties.")
@options(SETTINGS)
@click.option("--port", type=click.IntRange(1, 65535), default=7000, show_default=True, help="Party i gets PORT + i.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("study.toml"), show_default=True)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(parties: int, port: int, out: Path, force: bool, **given: Any) -> None:
    """Write a commented study.toml, to be edited and then packed with all certificates (`study pack`).

    \b
    Examples:
      pdml-spdz init --parties 3 --rank 7 --bound rows:1.0,50000
      pdml-spdz init --algorithm pca --parties 3 --rank 7 --centre hidden --offset near-the-means.csv
      pdml-spdz init --parties 3 --rank 7 --features-from rows.csv --drop name,born --missing mean
      pdml-spdz init --algorithm nmf --parties 3 --rank 20        its own defaults: 200 sweeps, engine secsum
    """
    if out.exists() and not force:
        raise StorageError(f"{out} is already there.", do="choose another --out, or pass --force to replace it")
    entries = tuple(PartyEntry(host=placeholder(i), port=port + i) for i in range(parties))
    study_file.write(out, study_of(entries, chosen_settings(given)))
    echo(
        f"wrote {out}. Next:\n"
        "  1. every party I: pdml-spdz certs make --id I --name NAME --address HOST:PORT    (sends P<I>.pem to one)\n"
        f"  2. that party:    pdml-spdz study pack {out.name} P*.pem    (sends study.bundle to all)\n"
        "  3. the others:    pdml-spdz join study.bundle    (all compare one code by telephone)\n"
        f"  4. every party I: pdml-spdz party {out.name} --id I --data FILE"
    )
