"""How much faster is KSDP of PD-SVD by shared databases and rank-one updates than by a run from raw rows each time?

    python -m benchmarks.bench_privacy [d] [documents] [samples]

All documents and samples the quick way; a few of them from raw rows, by PD-SVD's own code and, as a stronger rival, by
LAPACK on X^T X. The statistics must be the same.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.parties import save
from pdml_spdz.applications.uplift import local_svd
from pdml_spdz.privacy.ksdp import WITH, Experiment, Unit, compute, database, generator, make_plan, run
from pdml_spdz.privacy.svd_mechanism import SvdMechanism
from pdml_spdz.rows.base import RowsLike

N, SIZE, K, TRIED = 6000, 1000, 7, 4


def rows(n: int, d: int, seed: int) -> RowsLike:
    """Sparse rows like those of texts: some sixty terms each, frequent ones more often, ten topics, length 1."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(1, d + 1)
    topics = np.array([rng.permutation(frequency) for _ in range(10)]) + frequency
    topics /= topics.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(60, topics[t]) for t in rng.integers(10, size=n)], np.float64)
    counts = np.log1p(counts) * -np.log(np.linspace(0.5, 0.001, d))
    return sp.csr_array(counts / np.linalg.norm(counts, axis=1, keepdims=True))


def processor_seconds() -> float:
    """Of this process and of those that it has waited for: a busy machine changes little of it."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def from_raw(experiment: Experiment, unit: Unit, document: int, how: str) -> tuple[dict[str, float], float]:
    """Statistics of one document in one sample, all computed anew, and the processor seconds that took."""
    began = time.process_time()
    plan, mechanism, X = experiment.plan, experiment.mechanism, experiment.X
    assert isinstance(mechanism, SvdMechanism)
    chosen = X[np.sort(database(plan, X.shape[0], unit, generator(plan, unit)))]
    parts = [chosen, mechanism.others, *([X[[document]]] if unit.arm == WITH else [])]
    joined = sp.csr_array(sp.vstack(parts))
    S = (joined.T @ joined).toarray()
    V = local_svd(joined, K, tol=1e-9) if how == "pd-svd" else np.linalg.eigh(S)[1][:, ::-1][:, :K]
    values = np.einsum("ij,ij->j", V, S @ V)
    content: dict[str, Any] = {"V": V, "values": values, "n": joined.shape[0], "mean": np.zeros(X.shape[1]), "S": S}
    x = X[[document]].toarray()[0]
    found = mechanism.statistics(mechanism.observables(content, None, x), x)
    return found, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in {"d": 1000, "documents": 200, "samples": 50}.items():
        parser.add_argument(name, type=int, nargs="?", default=usual)
    options = parser.parse_args()
    d, documents, samples = options.d, options.documents, options.samples
    jobs = os.cpu_count() or 1
    mechanism = SvdMechanism(rows(SIZE, d, 1), K, SIZE)
    experiment = Experiment(
        rows(N, d, 0), make_plan(N, range(documents), SIZE, samples, seed=1, group=documents), mechanism
    )
    began, spent_before = time.perf_counter(), processor_seconds()
    run(experiment, jobs=jobs, progress=lambda done, of: print(f"\r  {done}/{of}", end="", flush=True))
    wall, quick = time.perf_counter() - began, processor_seconds() - spent_before
    total = 2 * documents * samples
    print(f"\rquick: {total:,} documents x databases in {wall:.1f} s on {jobs} cores, {quick:.1f} s of processor time")
    seconds: dict[str, list[float]] = {"pd-svd": [], "lapack": []}
    worst = dict.fromkeys(seconds, 0.0)
    for i in range(TRIED):
        unit, position = Unit(0, i % 2, i % samples), i % documents
        reference = compute(experiment, unit)[0][position]
        for how in seconds:
            found, spent = from_raw(experiment, unit, experiment.plan.documents[position], how)
            seconds[how].append(spent)
            worst[how] = max(worst[how], *(abs(found[n] / reference[n] - 1.0) for n in reference))
    ratios = {how: float(np.median(s)) * total / quick for how, s in seconds.items()}
    for how, ratio in ratios.items():
        each = 1e3 * float(np.median(seconds[how]))
        print(f"from raw rows by {how}: {each:.0f} ms a database, so {ratio:.0f} times as long; ", end="")
        print(f"statistics differ by {worst[how]:.1e} at most (relative)")
    print(f"\nraw / quick: {ratios['pd-svd']:.0f} (wanted: at least 20)")
    save(
        "privacy",
        {
            "d": d,
            "documents": documents,
            "samples": samples,
            "seconds": wall,
            "quick": quick,
            "raw": seconds,
            "ratios": ratios,
            "worst": worst,
        },
    )


if __name__ == "__main__":
    main()
