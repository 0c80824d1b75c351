"""MP-SPDZ programs, rendered from their templates."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pdml_spdz.errors import EngineError
from pdml_spdz.programs import paper as paper_programs
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.sealed_precision import SEALED_PROGRAM, SealedPrecision

if TYPE_CHECKING:
    import jinja2


PAPER = ("normed_sum_paper", "fixed_point_sqrt")  # fixed-point numbers, as the paper has them: MP-SPDZ only
CENTRED = "scaled_sum_centred"
NAMES = ("normed_sum", "scaled_sum", CENTRED, *PAPER)


@dataclass(frozen=True)
class Program:
    """A rendered program: what both engines run, and what the parties compare by digest.

    twin : of a program whose parties input the masks of its truncations, the same one without: the embedded engine
    can run that, and a dry run tells which masks there are
    """

    name: str
    text: str
    twin: Program | None = None

    @functools.cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def render(
    name: str, precision: Precision, d: int, columns: int, iterations: int = 1, *, own_masks: bool = False
) -> Program:
    """The program `name` for `columns` vectors of length d at a time; `iterations` is how often it goes round.

    own_masks : parties input the masks of truncations; for protocols on MP-SPDZ that are semi-honest anyway
    """
    if name not in NAMES:
        raise EngineError(f"there is no program {name!r}.", f"one of {', '.join(NAMES)}")
    if name == CENTRED and not precision.hidden_mean:
        raise ValueError(f"{name} in scalars without room for a hidden mean")
    import jinja2  # not by those who only pass programs on

    template = _templates().get_template(f"{name}.mpc.j2")
    try:
        text = template.render(
            p=precision, d=d, columns=columns, iterations=iterations, own_masks=own_masks, paper=paper_programs
        )
    except jinja2.UndefinedError as error:
        raise EngineError(f"the template {name}.mpc.j2 asks for something unknown: {error}.") from None
    twin = render(name, precision, d, columns, iterations) if own_masks else None
    return Program(name, text, twin)


def render_sealed(precision: SealedPrecision) -> Program:
    """The program of a sealed fit."""
    template = _templates().get_template(f"{SEALED_PROGRAM}.mpc.j2")
    return Program(SEALED_PROGRAM, template.render(p=precision))


# What mpc_programs/ holds: the programs of `make svd` and of a NormedSecSum of 1,000 numbers, three parties.
REFERENCES = {
    "normed_sum.mpc": ("normed_sum", Precision(3, hidden_mean=False), 1000, 1),
    "scaled_sum.mpc": ("scaled_sum", Precision(3, hidden_mean=False), 64, 9, 60),
    "scaled_sum_centred.mpc": (CENTRED, Precision(3), 64, 9, 60),
    "normed_sum_paper.mpc": ("normed_sum_paper", Precision(3), 100, 1),
    "fixed_point_sqrt.mpc": ("fixed_point_sqrt", Precision(3), 10, 1),
}


SEALED_REFERENCES = {
    f"{SEALED_PROGRAM}.mpc": SealedPrecision(3, 64, 7, 14),
    f"{SEALED_PROGRAM}_hidden.mpc": SealedPrecision(3, 64, 7, 14, hidden_ratios=True),
}


def template_directory() -> Path:
    """templates/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


@functools.cache
def _templates() -> jinja2.Environment:
    """Of programs: a template is compiled once, however often it is rendered."""
    return environment()


def load() -> None:
    """What the usual fit renders, ahead of it: most of the time goes into compiling the template."""
    render("scaled_sum", Precision(3, hidden_mean=False), 2, 1)


def environment() -> jinja2.Environment:
    """A missing value is an error, never an empty string."""
    import jinja2  # not by those who only pass programs on

    return jinja2.Environment(  # noqa: S701 - the output is TOML and MPC programs, not HTML
        loader=jinja2.FileSystemLoader(template_directory()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
