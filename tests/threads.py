"""M parties as threads of the test process: the same protocol code, with queues for sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pdml_spdz.algorithms.svd import Result, Settings, State, pd_svd, start_by_sec_sum, start_by_seed
from pdml_spdz.engines.base import Engine, Shape
from pdml_spdz.engines.embedded.engine import EmbeddedEngine, Options
from pdml_spdz.engines.plain import PlainEngine
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import SECONDARY
from pdml_spdz.linalg import Rows, covariance
from pdml_spdz.offline.material import Material, OnDemand, Plan
from pdml_spdz.precision import Precision
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.bound import bound_by_sec_sum
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import mesh

T = TypeVar("T")


def run_threads(M: int, party: Callable[[Link], T], links: Sequence[Link] | None = None) -> list[T]:
    """party(link) at every party at once; raises the error of whoever failed of itself."""
    links = links or mesh(M)
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def go(link: Link) -> None:
        try:
            with link:
                results[link.me] = party(link)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=go, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise min(errors, key=lambda error: isinstance(error, SECONDARY))
    return [results[m] for m in range(M)]


@dataclass(frozen=True)
class Fit:
    result: Result
    V0: np.ndarray
    bound: float


def on_demand(link: Link, plan: Plan, p: Precision) -> Material:
    return OnDemand(link, b"test", p.vector_bits, p.scalar_bits)


def fit(
    tables: Sequence[Rows],
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
    options = Options(Precision(M, f_out), normalise, on_demand, "auto", online)
    make: dict[str, Callable[[Link], Engine]] = {
        "plain": PlainEngine,
        "secsum": lambda link: SecSumEngine(link, b"test", "auto"),
        "embedded": lambda link: EmbeddedEngine(link, b"test", options),
    }
    name = engine

    def party(link: Link) -> Fit:
        engine, agree = make[name](link), Agreement(link)
        S_m = covariance(tables[link.me], k, tau)
        bound = bound_by_sec_sum(S_m.norm_bound(), engine.sec_sum.exact)
        if seed is None:
            state: State = start_by_sec_sum(d, k, M, engine.sec_sum, agree)
        else:
            state = start_by_seed(d, k, seed, agree)
        settings = Settings(k, tau, tol)
        normed_sum = engine.normed_sum(bound, Shape(d, k, tau))
        result = pd_svd(S_m, state, settings, normed_sum, agree, clock=link.clock)
        return Fit(result, state.V, bound.addend)

    return run_threads(M, party)
