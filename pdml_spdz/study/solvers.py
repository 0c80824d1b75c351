"""The solvers by name. A line says where a `Solver` is; another package may bring more (`registry`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdml_spdz.registry import Line, Registry

if TYPE_CHECKING:
    from pdml_spdz.algorithms.solver import Solver

SOLVERS: Registry[Solver] = Registry(
    "solver",
    {
        "krylov": Line("pdml_spdz.algorithms.krylov:KRYLOV"),
        "power": Line("pdml_spdz.algorithms.svd:POWER"),
    },
)
FEWEST, ANY = SOLVERS.lines  # with the fewest openings; for columns that are normalised each by itself, too


def usual_solver(*, common_scale: bool) -> str:
    """For a study that names none."""
    return FEWEST if common_scale else ANY
