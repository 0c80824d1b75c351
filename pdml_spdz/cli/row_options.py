"""Options about a party's rows: how its own file is written, and what the parties agree to make of columns."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click

from pdml_spdz.cli.options import Option
from pdml_spdz.rows.reading import DECIMALS, ENCODINGS, MISSING, SEPARATORS, Reading, RowSettings


def _names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(name.strip() for name in next(csv.reader([value])))


def _lists(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found = {}
    for text in value:
        name, sign, rest = text.partition("=")
        if not sign:
            raise click.BadParameter("wanted NAME=A,B,...: a column and its categories", context, parameter)
        found[name.strip()] = _names(context, parameter, rest)
    return found


READING: list[Option] = [
    click.option(
        "--sep", metavar="|".join(SEPARATORS), default="", help="What stands between columns [default: found]."
    ),
    click.option("--decimal", metavar="|".join(DECIMALS), default="point", help="What stands before decimals."),
    click.option("--encoding", type=click.Choice(list(ENCODINGS)), help="Encoding of a text file [default: found]."),
    click.option("--id-column", metavar="NAME", default="", help="Says whose row it is: kept aside, never a feature."),
    click.option(
        "--triplets",
        callback=_names,
        metavar="ROW,FEATURE,VALUE",
        help="Columns of a file with one entry a line (user,item,rating): sparse rows.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="[I=]FILE",
        help="Leave out the rows that FILE names, one a line: by id (--id-column), or by number from 0. I=FILE: at "
        "party I alone. `pdml-spdz privacy exclude` writes such a file.",
    ),
]
DASK: list[Option] = [
    click.option(
        "--dask",
        default="",
        metavar="tls://HOST:PORT|FILE",
        help="Workers for rows that are not loaded whole: a scheduler's address or file [default: threads].",
    ),
    click.option("--dask-certs", default="", metavar="DIR", help="ca.pem, cert.pem and key.pem for a TLS scheduler."),
    click.option("--dask-plaintext", is_flag=True, help="Allow a scheduler on another machine without TLS."),
]
ROWS: list[Option] = [
    click.option("--columns", "chosen", callback=_names, metavar="A,B,...", help="Take only these columns."),
    click.option("--drop", "dropped", callback=_names, metavar="A,B,...", help="Leave these columns out."),
    click.option(
        "--encode",
        "encoded",
        multiple=True,
        callback=_lists,
        metavar="NAME=A,B,...",
        help="A feature of zeros and ones for each category of a column (again for each column).",
    ),
    click.option(
        "--missing",
        type=click.Choice(MISSING),
        default=MISSING[0],
        show_default=True,
        help="What becomes of missing values. drop-rows: their rows are left out. mean: of all parties' values, by "
        "SecSum: sums and counts are seen by every party.",
    ),
    click.option(
        "--features-from",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The agreed list of features: names of the columns of FILE (with --triplets: its features).",
    ),
]


def reading_of(given: dict[str, Any]) -> Reading:
    """The options of a party's own file, taken out of `given`."""
    own: dict[str, Any] = {name: given.pop(name) for name in Reading.__dataclass_fields__ if name in given}
    return Reading(**{name: value for name, value in own.items() if value is not None})


def row_settings(given: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """The options that all parties agree on, taken out of `given`, as settings of a Study."""
    agreed = RowSettings(given.pop("chosen"), given.pop("dropped"), given.pop("encoded"), given.pop("missing"))
    settings: dict[str, Any] = {"rows": agreed}
    if (path := given.pop("features_from")) is not None:
        from pdml_spdz.rows.features import features_of  # which reads files

        settings["features"] = features_of(path, reading, agreed)
    return settings
