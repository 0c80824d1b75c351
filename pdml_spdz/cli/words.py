"""What commands say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from pdml_spdz.errors import RESUME, PdmlError, printable
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import printing


def echo(text: str, *, nl: bool = True) -> None:
    """Print, without control characters; an output that cannot be written is an error."""
    with printing(sys.stdout):
        click.echo(
            printable(text), nl=nl, file=sys.stdout
        )  # click's own choice would not be ASCII where that is wanted


def say_what_is_revealed(study: Study, *, err: bool) -> None:
    """One line before a run: what every party will see of it."""
    from pdml_spdz.fits.announced import announced

    seen = [line.removesuffix(", to every party") for line in announced(study)]
    text = f"every party will see, besides the result: {'; '.join(seen) or 'nothing'}"
    with printing(stream := sys.stderr if err else sys.stdout):
        click.echo(printable(text), file=stream)


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Whoever stops a run in `out` is told that it can go on, if an iteration has finished."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if next(out.glob("party-*/checkpoint/iteration-*.npz"), None) is None:
            raise
        raise click.Abort(f"What it has done is in {printable(str(out))}: {RESUME}.", *stopped.args) from None
    except PdmlError as error:
        error.quiet = False  # of a run that ends because nobody reads what it says, its party hears
        raise
