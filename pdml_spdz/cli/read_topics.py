"""pdml-spdz topics, recommend: what a finished NMF says to people. Nothing is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from pdml_spdz.applications.finished import FinishedRun, as_written
from pdml_spdz.applications.topics import top_words
from pdml_spdz.cli import sections
from pdml_spdz.cli.options import RUN_ARGUMENT, options
from pdml_spdz.cli.row_options import READING, reading_of
from pdml_spdz.cli.words import echo
from pdml_spdz.errors import InputError, did_you_mean
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.reading import Reading

_path = click.Path(path_type=Path)
_party = click.option("--id", "me", type=click.IntRange(0), help="Whose own rows, where RUN has several parties'.")
_top = click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="How many of each.")


@sections.command()
@RUN_ARGUMENT
@click.option("--words", type=_path, help="A word for each column, one a line (`documents --words` writes it).")
@_party
@_top
@click.option("--documents", "count", type=click.IntRange(0), default=3, show_default=True, help="Own rows to name.")
def topics(run: Path, words: Path | None, me: int | None, top: int, count: int) -> None:
    """The words of each topic of a finished RUN of nmf, and the own rows of each.

    Own rows are named where RUN is a party's own directory, or with --id.

    \b
    Examples:
      pdml-spdz nmf a.csv b.csv --rank 2 --out runs/topics
      pdml-spdz topics runs/topics
      pdml-spdz topics runs/topics --id 0 --documents 5
    """
    finished = _run(run, me)
    with as_written(finished.directory):
        names = _words(words, finished) if words is not None else finished.loadings.names
        found, weights = finished.topics, finished.own_weights()
        ids = [] if weights is None else finished.ids(len(weights))
        for t, columns in enumerate(top_words(found, min(top, found.shape[1]))):
            echo(f"topic {t + 1}: {', '.join(names[j] for j in columns if found[t, j] > 0) or 'empty'}")
            if weights is not None and count:
                own = weights[:, t]
                order = [int(i) for i in np.argsort(-own, kind="stable")[:count] if own[i] > 0]
                echo(f"    own rows: {', '.join(f'{ids[i]} ({own[i]:.3g})' for i in order) or 'none'}")


def _run(run: Path, me: int | None) -> FinishedRun:
    return FinishedRun.load(run if me is None else run / f"party-{me}")


def _words(path: Path, finished: FinishedRun) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path} is not there.", "a word for each column, one a line")
    found = path.read_text(encoding="utf-8").splitlines()
    if len(found) != (d := finished.report["d"]):
        raise InputError(f"{path} has {len(found):,} lines.", f"a word for each of the {d:,} columns")
    return [word or name for word, name in zip(found, finished.loadings.names, strict=True)]


@sections.command()
@RUN_ARGUMENT
@click.option("--user", required=True, metavar="ID", help="Id of the user's row, or its number from 0.")
@click.option("--ratings", type=_path, metavar="ROWS", help="The user's ratings: what it has rated is left out.")
@_party
@_top
@options(READING)
def recommend(run: Path, user: str, ratings: Path | None, me: int | None, top: int, **given: Any) -> None:
    """What a user would rate highest, by a finished RUN of nmf.

    Without --ratings the user is one of the rows that this party had in the run, and all items are ranked; with
    --ratings also a new one, and what it has rated is left out.

    \b
    Examples:
      pdml-spdz nmf a.csv b.csv --rank 2 --out runs/films
      pdml-spdz recommend runs/films --id 0 --user 1
      pdml-spdz recommend runs/films --ratings a.csv --user 1 --top 5
    """
    finished = _run(run, me)
    with as_written(finished.directory):
        predicted, rated = _predicted(finished, user, ratings, reading_of(given))
    order = [int(j) for j in np.argsort(-predicted, kind="stable") if not rated[j]][:top]
    if not order:
        raise InputError(f"the user {user} has rated everything.", "an item that is not rated yet")
    names = finished.loadings.names
    for j in order:
        echo(f"{predicted[j]:.4g}  {names[j]}")


def _predicted(finished: FinishedRun, user: str, ratings: Path | None, reading: Reading) -> tuple[Reals, Reals]:
    """(what the user would give each item, whether it has rated it)."""
    if ratings is None:
        return _of_the_run(finished, user)
    return _of_ratings(finished, finished.read(ratings, reading), user)


def _of_the_run(finished: FinishedRun, user: str) -> tuple[Reals, Reals]:
    weights = finished.own_weights()
    if weights is None:
        do = "name the party (--id), or give the user's ratings (--ratings)"
        raise InputError(f"{finished.directory} has no party's own coefficients.", "party-<i> of a run of nmf", do)
    predicted = finished.reconstruct(weights[[_place(finished.ids(len(weights)), user)]])[0]
    return predicted, np.zeros(len(predicted), bool)


def _of_ratings(finished: FinishedRun, data: Data, user: str) -> tuple[Reals, Reals]:
    i = _place(data.names(), user)
    rows = finished.rows(data)
    chosen = rows[i : i + 1]
    given = chosen.dense()[0]
    scores = finished.weights(chosen.over(finished.unit))
    return finished.reconstruct(scores)[0], given != 0


def _place(ids: list[str], user: str) -> int:
    if user not in ids:
        raise InputError(f"there is no row {user!r}.", f"one of {len(ids):,} ids", did_you_mean(user, ids[:5000]))
    return ids.index(user)
