"""pdml-spdz init: a commented study file to agree on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pdml_spdz.cli.options import CENTRE, FACTORISATION, SCALING, options, stopping, study_settings
from pdml_spdz.cli.row_options import READING, ROWS, reading_of, row_settings
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import StorageError
from pdml_spdz.local.joint import study_of
from pdml_spdz.study import file as study_file
from pdml_spdz.study.algorithm import ALGORITHMS, DEFAULT
from pdml_spdz.study.model import MAX_PARTIES, PartyEntry


@click.command()
@click.option("--algorithm", type=click.Choice(ALGORITHMS.names()), default=DEFAULT, show_default=True)
@click.option("--parties", type=click.IntRange(2, MAX_PARTIES), required=True, help="How many parties.")
@click.option("--rank", "-k", type=click.IntRange(1), help="Number of vectors or topics. Not for normed-sum.")
@options(stopping(ALGORITHMS[DEFAULT]), FACTORISATION, CENTRE, SCALING, ROWS, READING)
@click.option("--dim", "d", type=click.IntRange(0), default=0, help="Number of features; 0: the files must agree.")
@click.option("--port", type=click.IntRange(1, 65535), default=7000, show_default=True, help="Party i gets PORT + i.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("study.toml"), show_default=True)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def init(parties: int, port: int, out: Path, force: bool, **given: Any) -> None:
    """Write a commented study.toml: edit hosts, add fingerprints, then give the same file to every party.

    \b
    Examples:
      pdml-spdz init --parties 3 --rank 7 --bound rows:1.0,50000
      pdml-spdz init --algorithm pca --parties 3 --rank 7 --centre hidden --offset near-the-means.csv
      pdml-spdz init --parties 3 --rank 7 --features-from rows.csv --drop name,born --missing mean
      pdml-spdz init --algorithm nmf --parties 3 --rank 20        its own defaults: 200 sweeps, engine secsum
    """
    context = click.get_current_context()
    for name, value in ALGORITHMS[given["algorithm"]].defaults.items():
        if context.get_parameter_source(name) == ParameterSource.DEFAULT:
            given[name] = value
    if given["rank"] is None:
        raise click.UsageError("Missing option '--rank' / '-k'.")
    if out.exists() and not force:
        raise StorageError(f"{out} is already there.", do="choose another --out, or pass --force to replace it")
    entries = tuple(PartyEntry(host=f"host-{i}.example", port=port + i) for i in range(parties))
    settings = given | row_settings(given, reading_of(given))
    study_file.write(out, study_of(entries, study_settings(settings)))
    echo(
        f"wrote {out}. Next, at every party I:\n"
        "  1. pdml-spdz certs make --id I          (in the directory of the study; send P<I>.pem to the others)\n"
        "  2. pdml-spdz certs add P<J>.pem         (for every other party J; read the fingerprint out to each other)\n"
        f"  3. edit hosts and ports in {out.name}\n"
        f"     pdml-spdz certs fingerprints {out.name}     (3. at one party only; then every party needs that file)\n"
        f"  4. pdml-spdz doctor {out.name} --id I\n"
        f"  5. pdml-spdz party {out.name} --id I --data FILE"
    )
