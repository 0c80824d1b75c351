"""The solvers by name. A line says where a `Solver` is; another package may bring more (`registry`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdml_spdz.registry import Line, Registry

if TYPE_CHECKING:
    from pdml_spdz.algorithms.solver import Solver

SOLVERS: Registry[Solver] = Registry(
    "solver",
    {
        "power": Line("pdml_spdz.algorithms.svd:POWER"),
        "krylov": Line("pdml_spdz.algorithms.krylov:KRYLOV"),
    },
)
DEFAULT_SOLVER = next(iter(SOLVERS.lines))
