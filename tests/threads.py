"""M parties as threads of the test process: the same protocol code, with queues for sockets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pdml_spdz.algorithms.solver import Fitting, SvdResult, SvdSettings, start_by_sec_sum, start_by_seed
from pdml_spdz.algorithms.svd import PowerState, pd_svd
from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.embedded.engine import EmbeddedEngine
from pdml_spdz.engines.embedded.plan import NumbersPlan, numbers_plan
from pdml_spdz.engines.plain import PlainEngine
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.offline.material import Material
from pdml_spdz.offline.on_demand import OnDemand
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import bound_by_sec_sum
from pdml_spdz.programs.precision import Precision
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.covariance import covariance
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.levels import OPENINGS
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import between_threads as run_threads


@dataclass(frozen=True)
class Fit:
    result: SvdResult
    V0: np.ndarray
    bound: float


def on_demand(link: Link, plan: NumbersPlan) -> Material:
    return OnDemand(link, b"test", plan.kind.vector_bits, plan.kind.scalar_bits)


def fit(
    tables: Sequence[RowsLike],
    k: int,
    *,
    tau: int = 500,
    tol: float = 1e-10,
    seed: int | None = None,
    engine: str = "secsum",
    normalise: str = "fit",
    online: str = "stream",
    f_out: int = 31,
) -> list[Fit]:
    """PD-SVD between threads, one for each table; every party's outcome."""
    M, d = len(tables), tables[0].shape[1]
    precision = Precision(M, f_out)
    make: dict[str, Callable[[Link], Engine]] = {
        "plain": PlainEngine,
        "secsum": lambda link: SecSumEngine(link, b"test", "auto"),
        "embedded": lambda link: EmbeddedEngine(link, b"test", precision, on_demand),
    }
    name = engine
    opening = ("one-scale" if normalise == "fit" else normalise) if engine == "embedded" else "sum"

    def party(link: Link) -> Fit:
        engine, agree = make[name](link), Agreement(link)
        S_m = covariance(tables[link.me], k, tau)
        bound = bound_by_sec_sum(S_m.norm_bound(), engine.sec_sum)
        V = start_by_sec_sum(d, k, M, engine.sec_sum, agree) if seed is None else start_by_seed(d, k, seed, agree)
        shape, chosen = Shape(d, k, tau), OPENINGS[opening]
        plan = numbers_plan(chosen, precision, shape, online) if chosen.template else None
        columns = chosen.columns(engine, bound, plan, None)
        fitting = Fitting(S_m, columns, agree, link.clock)
        return Fit(pd_svd(fitting, PowerState(V), SvdSettings(k, tau, tol)), V, bound.addend)

    return run_threads(M, party)
