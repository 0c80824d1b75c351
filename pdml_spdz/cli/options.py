"""Options that several commands share, and the study they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pdml_spdz.study import ENGINES, REVEALS, Study

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = {f: Study.__dataclass_fields__[f].default for f in ("iterations", "tol", "engine", "reveal", "bound")}


def study_options(command: F) -> F:
    """What a study says, as options of a command."""
    options = [
        click.option("--rank", "-k", type=click.IntRange(1), required=True, help="Number of singular vectors."),
        click.option(
            "--iterations",
            type=click.IntRange(1),
            default=_DEFAULTS["iterations"],
            show_default=True,
            help="At most so many.",
        ),
        click.option(
            "--tol",
            type=click.FloatRange(0),
            default=_DEFAULTS["tol"],
            show_default=True,
            help="Stop when the subspace changes by less (sine of the largest angle).",
        ),
        click.option(
            "--engine",
            type=click.Choice(ENGINES),
            default=_DEFAULTS["engine"],
            show_default=True,
            help="secsum: masks that cancel. plain: INSECURE, for comparison.",
        ),
        click.option(
            "--reveal",
            type=click.Choice(REVEALS),
            default=_DEFAULTS["reveal"],
            show_default=True,
            help="sum: all parties see the sums S V_t, and so Sigma.",
        ),
        click.option(
            "--bound",
            default=_DEFAULTS["bound"],
            show_default=True,
            metavar="B|rows:R,N|secsum",
            help="Largest ||X_m^T X_m||_F of a party; or from rows no longer than R, N at most; or by SecSum.",
        ),
        click.option("--seed", type=int, help="Start from a public seed instead of one drawn by all parties."),
        click.option(
            "--aggregator",
            default="auto",
            show_default=True,
            metavar="auto|none|ID",
            help="Who adds up; auto: party 0 with more than five parties.",
        ),
        click.option(
            "--connect-timeout", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, metavar="S"
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(0, min_open=True),
            default=300.0,
            show_default=True,
            metavar="S",
            help="Give up on a party that is silent for S seconds.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
