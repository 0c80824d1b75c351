"""pdml-spdz render and pdml-spdz precision: the programs and their numbers, without running anything."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import PRECISION, options
from pdml_spdz.cli.words import echo
from pdml_spdz.programs import render as programs
from pdml_spdz.programs.precision import FULL_G, Precision
from pdml_spdz.programs.sealed_precision import SEALED_PROGRAM, SealedPrecision
from pdml_spdz.study.checks import USUAL_RANGE, WIDE_RANGE
from pdml_spdz.system.files import save_text

if TYPE_CHECKING:
    from pdml_spdz.lattice.parameters import Parameters

_parties = click.option("--parties", "-M", type=click.IntRange(2, 30), default=3, show_default=True)


@sections.command()
@click.argument("name", type=click.Choice((*programs.NAMES, SEALED_PROGRAM)))
@_parties
@click.option("--dim", "-d", type=click.IntRange(1), default=100, show_default=True, help="Length of a vector.")
@click.option("--columns", type=click.IntRange(1), default=1, show_default=True, help="Vectors in one call.")
@click.option("--iterations", type=click.IntRange(1), default=1, show_default=True, help="Calls of scaled_sum.")
@options(PRECISION)
@click.option("--hidden-ratios", is_flag=True, help="sealed_svd: of `--ratios hidden`.")
@click.option("--own-masks", is_flag=True, help="Truncate under masks that the parties input (semi-honest).")
@click.option("--out", type=click.Path(path_type=Path), help="Write it here instead of standard output.")
def render(
    name: str,
    parties: int,
    dim: int,
    columns: int,
    iterations: int,
    bits: int,
    range_: int,
    hidden_ratios: bool,
    own_masks: bool,
    out: Path | None,
) -> None:
    """Render the MP-SPDZ program NAME from its template.

    \b
    Examples:
      pdml-spdz render normed_sum --parties 3 --dim 1000
      pdml-spdz render scaled_sum --dim 64 --columns 9 --iterations 60 --out scaled_sum.mpc
      pdml-spdz render sealed_svd --dim 16 --columns 4 --iterations 17        half as many components as columns
    """
    if name == SEALED_PROGRAM:
        half = max(1, columns // 2)
        sealed = SealedPrecision(parties, dim, half, columns, iterations=iterations, hidden_ratios=hidden_ratios)
        program = programs.render_sealed(sealed)
    else:
        precision = Precision(parties, bits, range_ or USUAL_RANGE, hidden_mean=name == programs.CENTRED)
        program = programs.render(name, precision, dim, columns, iterations, own_masks=own_masks)
    if out is None:
        echo(program.text, nl=False)
        return
    save_text(out, program.text)
    echo(f"wrote {out}, digest {program.digest[:16]}")


@sections.command()
@_parties
@options(PRECISION)
@click.option("--hidden-mean", is_flag=True, help="Explain the budget of `pca --centre hidden`.")
@click.option("--sealed", is_flag=True, help="Explain the private matrix product instead: ring-LWE, noise, flooding.")
@click.option("--dim", "-d", type=click.IntRange(1), default=64, show_default=True, help="With --sealed: features.")
@click.option(
    "--columns", type=click.IntRange(1), default=840, show_default=True, help="With --sealed: columns, b T of a fit."
)
@click.option(
    "--ring", type=click.IntRange(32, 512), default=192, show_default=True, help="With --sealed: bits of numbers."
)
@click.option(
    "--left-bits",
    type=click.IntRange(1, 511),
    default=54,
    show_default=True,
    help="With --sealed: bits of a party's covariance matrix.",
)
@click.option("--json", "as_json", is_flag=True)
def precision(
    parties: int,
    bits: int,
    range_: int,
    hidden_mean: bool,
    sealed: bool,
    dim: int,
    columns: int,
    ring: int,
    left_bits: int,
    as_json: bool,
) -> None:
    """Explain the bit budget: what is computed with how many bits, and why.

    \b
    Example:
      pdml-spdz precision                        # of the window that is the default
      pdml-spdz precision --bits 31 --range 40   # below a bound that the parties agreed on
      pdml-spdz precision --sealed --dim 256     # of private matrix products by ring-LWE
    """
    p: Precision | Parameters
    names: tuple[str, ...]
    if sealed:
        from pdml_spdz.lattice.parameters import Parameters

        p = Parameters.choose(M=parties, n=dim, i=dim, c=columns, w=ring, bits=left_bits)
        names = ("q", "travel_bits", "flooding_bits", "distance", "returned", "sent", "seconds")
    else:
        p = Precision(parties, bits, range_ or WIDE_RANGE, f_g=FULL_G, hidden_mean=hidden_mean)
        names = ("f_in", "f_inv", "f_t", "f_x", "vector_bits", "scalar_bits")
    if as_json:
        lines = [{"line": line, "used": used, "room": room, "why": why} for line, used, room, why in p.budget()]
        echo(json.dumps(asdict(p) | {name: getattr(p, name) for name in names} | {"budget": lines}))
    else:
        echo(p.explain())
