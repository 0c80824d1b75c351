"""What the parts cost: SecSum against sending in the clear, the offline phase, local algebra."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from pdml_spdz.algorithms.rri import Penalties, part
from pdml_spdz.bench import embedded
from pdml_spdz.bench.fits import PAPER_TOPIC_MB
from pdml_spdz.bench.links import Costs, run_processes, seconds, slowest, wire_bytes_received
from pdml_spdz.bench.results import Cell, Check, Measurement, Quartiles, Step, exact, spread, straight
from pdml_spdz.numerics.linalg import orthonormalise
from pdml_spdz.rows.covariance import GramMatrix, GramOperator
from pdml_spdz.transport.base import Link


def sec_sum(
    parties: Sequence[int], dims: Sequence[int], repeats: int, step: Step = lambda done, of, text: None
) -> Measurement:
    """One sum of d numbers by masks, and in the clear, by turns; bytes beside raw vectors and the paper's figure."""
    cells: list[Cell] = []
    plan = [(M, d) for M in parties for d in dims]
    for i, (M, d) in enumerate(plan):
        step(i, len(plan), f"M = {M}, d = {d:,}")
        found = run_processes(M, lambda link, d=d: _sums(link, d, repeats))  # type: ignore[misc]
        for way in ("secsum", "plain"):
            calls = slowest([f[0][way] for f in found])
            values = seconds(calls) | {"sent MB": spread([c.sent / 1e6 for c in calls])}
            values |= {"received / raw": exact(found[0][1][way] / (8.0 * d * (M - 1)))}
            values["both ways MB"] = values["sent MB"].times(2.0)
            cells.append(Cell({"engine": way, "M": M, "d": d}, values))
    step(len(plan), len(plan), "done")
    note = "received / raw: bytes that TCP delivered, TLS records and two barriers included, over 8-byte vectors."
    result = Measurement("sec-sum", {"parties": parties, "dims": dims, "repeats": repeats}, cells, notes=[note])
    names = ("sent MB", "cpu s")
    lines = [*straight(cells, "d", names), *straight(cells, "M", names)]
    return replace(result, checks=[*_sec_sum_checks(result, parties, dims), *lines])


def _sums(link: Link, d: int, repeats: int) -> tuple[dict[str, list[Costs]], dict[str, float]]:
    """Costs, and bytes on the wire for one call of each."""
    calls = embedded.sums(link, d, repeats)
    wire = {}
    for way, call in embedded.summing(link).items():
        link.all_to_all("barrier", b"")
        before = wire_bytes_received(link)
        link.all_to_all("barrier", b"")  # before and after, so that no peer's vector is counted elsewhere
        for _ in range(3):
            call(np.ones(d), 100.0, "bench")
        link.all_to_all("barrier", b"")
        wire[way] = (wire_bytes_received(link) - before) / 3
    return calls, wire


def _sec_sum_checks(result: Measurement, parties: Sequence[int], dims: Sequence[int]) -> list[Check]:
    found = []
    M, d = (3 if 3 in parties else parties[-1]), max(dims)
    if (cell := result.find(engine="secsum", M=M, d=d)) and d >= 1000:
        value = cell.values["received / raw"].median
        found.append(Check(f"SecSum, M = {M}, d = {d:,}: bytes / raw vectors", value, 1.1, at_least=False))
    if cell := result.find(engine="secsum", M=5, d=10000):
        value = cell.values["both ways MB"].median
        what = "SecSum, M = 5, d = 10^4: sent and received, 6-byte numbers (the paper, 4-byte floats: 0.32 MB)"
        found.append(Check(what, value, 1.51 * PAPER_TOPIC_MB, at_least=False, unit=" MB"))
    return found


def offline(
    parties: Sequence[int], dims: Sequence[int], bits: int, repeats: int, step: Step = lambda done, of, text: None
) -> Measurement:
    """Base OTs, triples of a cold NormedSecSum, VOLE of d numbers, each with every peer at once."""
    cells: list[Cell] = []
    plan = [(M, d) for M in parties for d in dims]
    for i, (M, d) in enumerate(plan):
        step(i, len(plan), f"M = {M}, d = {d:,}")
        found = run_processes(M, lambda link, d=d: embedded.material(link, d, bits, repeats))  # type: ignore[misc]
        for name in found[0]:
            calls = slowest([f[name] for f in found])
            values = {
                "offline s": spread([c.offline for c in calls]),
                "cpu s": spread([c.cpu for c in calls]),
                "sent MB": spread([c.offline_sent / 1e6 for c in calls]),
                "to a peer MB": spread([c.offline_sent / 1e6 / (M - 1) for c in calls]),
            }
            cells.append(Cell({"engine": name, "bits": bits, "M": M, "d": d}, values))
    step(len(plan), len(plan), "done")
    note = "All ordered pairs of parties at once on this machine; triples and base OTs do not depend on d."
    settings = {"parties": parties, "dims": dims, "bits": bits, "repeats": repeats}
    checks = straight([c for c in cells if str(c.key["engine"]).startswith("VOLE")], "d", ("sent MB", "cpu s"))
    return Measurement("offline", settings, cells, checks, [note])


def local(
    sizes: Sequence[tuple[int, int]], k: int, repeats: int, step: Step = lambda done, of, text: None
) -> Measurement:
    """One party's algebra on one core: covariance, S V in both forms, QR, one sweep of RRI; dense and sparse rows."""
    cells: list[Cell] = []
    for i, (n, d) in enumerate(sizes):
        for rows in ("dense", "sparse"):
            step(2 * i + (rows == "sparse"), 2 * len(sizes), f"{rows}, n = {n:,}, d = {d:,}")
            with threadpool_limits(1):
                values = _local(n, d, k, rows, repeats)
            cells.append(Cell({"engine": rows, "n": n, "d": d, "k": k}, values))
    step(2 * len(sizes), 2 * len(sizes), "done")
    note = "One core. Sparse rows have one entry in a hundred. bare: NumPy's product of the same dense matrices."
    return Measurement("local", {"sizes": list(sizes), "k": k, "repeats": repeats}, cells, notes=[note])


def _local(n: int, d: int, k: int, rows: str, repeats: int) -> dict[str, Quartiles]:
    rng = np.random.default_rng(0)
    X: Any = np.abs(rng.standard_normal((n, d)))
    if rows == "sparse":
        X = sp.csr_array(sp.random_array((n, d), density=0.01, rng=rng))
    V = embedded.directions(d, k)
    T = np.abs(V.T) / np.abs(V.T).sum(axis=1, keepdims=True)
    values = {}
    if d <= 5000:
        values["Gram s"] = timed(lambda: GramMatrix(X), repeats)
        gram = GramMatrix(X)
        values["S V matrix s"] = timed(lambda: gram.times(V), repeats)
    operator = GramOperator(X)
    values["S V operator s"] = timed(lambda: operator.times(V), repeats)
    values["QR s"] = timed(lambda: orthonormalise(V), repeats)

    def sweep() -> None:
        mine = part(X, k)
        for t in range(k):
            mine.update(t, T, Penalties())

    values["RRI sweep s"] = timed(sweep, repeats)
    if rows == "dense":
        values["X V bare s"] = timed(lambda: X @ V, repeats)
    return values


def timed(call: Callable[[], Any], repeats: int) -> Quartiles:
    took = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return spread(took[1:])
